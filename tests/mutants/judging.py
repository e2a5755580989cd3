"""Runs the tests that may notice a mutant, in the copy that it is made in."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

from tests.mutants.copies import ROOT, check_fits, make_copy
from tests.mutants.mutant import Edit, RowMutant

#: Seconds after which the tests of a row count as failed: a mutant may stand still in virtual time.
ROW_SECONDS_MAX = 240
#: Seconds in which the tests are collected.
COLLECT_SECONDS_MAX = 300
#: Bytes of memory that tests may take.
BYTES_MAX = 4 << 30
_TEST = re.compile(r"`([^`]+\.py::[^`]+)`")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Unusable(Exception):
    """The mutants cannot be judged; the text is a sentence on why."""


class Verdict(Enum):
    """Result of the tests of a mutant."""

    KILLED = "killed"
    TIMEOUT = "time up"
    SURVIVED = "ALIVE"


def run_pytest(folder: Path, arguments: Sequence[str], seconds_max: float) -> subprocess.CompletedProcess[str] | None:
    """Run pytest in the folder of a copy; None when it does not end in time."""
    return run_python(folder, ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments], seconds_max)


def run_python(folder: Path, arguments: Sequence[str], seconds_max: float) -> subprocess.CompletedProcess[str] | None:
    """Run Python in a folder; None when it does not end in time. A mutant may also want all memory, and does not get it."""
    command = ["prlimit", f"--as={BYTES_MAX}", sys.executable, *arguments]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired:
        return None


def marked_tests() -> dict[str, list[str]]:
    """The tests that are marked for each row, as the report on conformance lists them. Raises Unusable."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "conformance.md"
        done = run_pytest(ROOT, ["--collect-only", "-q", "--conformance-report", str(report)], COLLECT_SECONDS_MAX)
        if done is None or done.returncode:
            raise Unusable("The tests cannot be collected: run pytest --collect-only first.")
        lines = report.read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        cells = line.split(" | ")
        if tests := _TEST.findall(cells[-1]):
            found[cells[0].removeprefix("| ")] = tests
    return found


def judge(folder: Path, tests: Sequence[str], seconds_max: float = ROW_SECONDS_MAX) -> tuple[Verdict, str]:
    """Whether one of these tests fails in the folder of a copy, and the first one that does. Raises Unusable."""
    done = run_pytest(folder, ["--tb=no", *tests], seconds_max)
    if done is None:
        return Verdict.TIMEOUT, ""
    if done.returncode == 0:
        return Verdict.SURVIVED, ""
    failed = _FAILED.search(done.stdout)
    if failed is None:
        raise Unusable(f"pytest could not run {' '.join(tests)}:\n{done.stdout}{done.stderr}")
    return Verdict.KILLED, failed[1]


def judge_edits(
    original: Path, edits: Iterable[Edit], tests: Sequence[str], seconds_max: float = ROW_SECONDS_MAX
) -> tuple[Verdict, str]:
    """`judge` in a copy with these edits."""
    with tempfile.TemporaryDirectory() as folder:
        make_copy(original, Path(folder), edits)
        return judge(Path(folder), tests, seconds_max)


def try_rows(mutants: Sequence[RowMutant]) -> bool:
    """Run the tests marked for its row on each mutant and print the results; True when none survives.

    Raises Unusable and Mismatch.
    """
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder)
        make_copy(ROOT, original)
        check_fits(original, [edit for mutant in mutants for edit in mutant.edits])
        marked = marked_tests()
        alive = 0
        for mutant in mutants:
            verdict, test = judge_edits(original, mutant.edits, marked[mutant.row])
            alive += verdict is Verdict.SURVIVED
            print(f"{mutant.row:7} {verdict.value:8} {mutant.why}", *([f"\n{'':17}{test}"] if test else []), flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} killed by tests that are marked for their row")
    return not alive
