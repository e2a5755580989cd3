"""`python -m tests.mutants --draw 50 --seed 1`: breaks lines that the tests of a row run, and checks that tests
notice.

A row is drawn, then one of the ways to break a line that its marked tests run (`operators.py`).
Only modules of the row's own subject are broken, since a story runs a whole site. First the tests
of the row are run, then those of all other rows that run this line: a line may serve another
promise.
"""

from __future__ import annotations

import ast
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import coverage

from tests.mutants.copies import ROOT, make_copy
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import Unusable, Verdict, judge, marked_tests, run_python
from tests.mutants.operators import Break, breaks

#: Rows of this group -> the files that are broken for them.
ABOUT = {
    "SEQ": ("sitestack/layers/sequencer/",),
    "REL": ("relay/gateway/", "relay/replica/", "relay/unicast/", "relay/layer/"),
    "LA": ("sitestack/layers/discovery/", "sitestack/layers/resolver.py", "sitestack/model/address", "sitestack/transport/"),
    "U2": ("sitestack/layers/unicast/",),
}
#: Tests that are asked for their own rows only: whole sites take long, and in real time one may fail on a busy machine.
OWN_ONLY = ("tests/simulation/", "tests/lab/", "tests/spark/", "tests/relay/node/", "tests/sitestack/channel/")
#: Seconds in which all marked tests run without a mutant, and measured; and those of one mutant.
MEASURE_SECONDS_MAX = 1_800
MUTANT_SECONDS_MAX = 240


@dataclass(frozen=True, slots=True)
class Drawn:
    """One mutant: a row, a line that its tests run, and the marked tests that run it, those of the row first."""

    row: str
    file: str
    change: Break
    own: tuple[str, ...]
    others: tuple[str, ...]

    def is_equivalent(self) -> bool:
        """True when no test can notice it, for a known reason."""
        change = self.change
        return (self.file, change.above.strip(), change.before.strip(), change.after.strip()) in EQUIVALENT


#: File -> line -> the tests that run it.
Runs = Mapping[str, Mapping[int, Sequence[str]]]


def measure(original: Path, tests: Sequence[str], seconds_max: float = MEASURE_SECONDS_MAX) -> Runs:
    """Which of these tests run which line. Raises Unusable."""
    data = original / ".coverage"
    arguments = ["-m", "coverage", "run", f"--data-file={data}", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    arguments += ["-p", "tests.mutants.contexts", "-m", "not slow", *tests]
    done = run_python(original, arguments, seconds_max)
    if done is None or done.returncode:
        raise Unusable(f"The marked tests fail, or take too long, without any mutant:\n{'' if done is None else done.stdout}")
    ran = coverage.CoverageData(str(data))
    ran.read()
    files = {str(Path(file).relative_to(original.resolve())): file for file in ran.measured_files()}
    return {name: ran.contexts_by_lineno(file) for name, file in sorted(files.items())}


def mutants_of(row: str, runs: Runs, marked: Mapping[str, Sequence[str]], original: Path) -> list[Drawn]:
    """All ways to break a line that the tests of a row run."""
    found = []
    everybody = {test for tests in marked.values() for test in tests}
    for file in [each for each in runs if each.startswith(ABOUT[row.partition("-")[0]])]:
        source = (original / file).read_text(encoding="utf-8")
        mine = {line for line, tests in runs[file].items() if not set(marked[row]).isdisjoint(tests)}
        for change in breaks(source, mine):
            ran_by = sorted(everybody.intersection(runs[file][change.line]))
            own = tuple([test for test in ran_by if test in marked[row]])
            others = tuple([test for test in ran_by if test not in own and not test.startswith(OWN_ONLY)])
            found.append(Drawn(row, file, change, own, others))
    return found


def draw(runs: Runs, marked: Mapping[str, Sequence[str]], original: Path, seed: int) -> Iterator[Drawn]:
    """Mutants without end, each at most once: first a row, then one of its mutants."""
    rng = random.Random(seed)
    rows = [row for row in marked if row.partition("-")[0] in ABOUT]
    seen: set[tuple[str, Break]] = set()
    while rows:
        row = rng.choice(rows)
        choices = mutants_of(row, runs, marked, original)
        choices = [each for each in choices if (each.file, each.change) not in seen and not each.is_equivalent()]
        if not choices:
            rows.remove(row)
            continue
        drawn = rng.choice(choices)
        seen.add((drawn.file, drawn.change))
        yield drawn


def break_line(source: str, change: Break) -> str:
    """The text of a file with this line broken."""
    lines = source.split("\n")
    assert lines[change.line - 1] == change.before
    lines[change.line - 1] = change.after
    return "\n".join(lines)


def try_drawn(count: int, seed: int) -> bool:
    """Draw mutants and print the results; True when none survives. Raises Unusable."""
    print(f"{count} mutants drawn with seed {seed}", flush=True)
    marked = marked_tests()
    about = {row: tests for row, tests in marked.items() if row.partition("-")[0] in ABOUT}
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder)
        make_copy(ROOT, original)
        runs = measure(original, list(dict.fromkeys([test for tests in about.values() for test in tests])))
        drawing = draw(runs, about, original, seed)
        noticed = [_judge(original, drawn) for drawn, _ in zip(drawing, range(count), strict=False)]
    print(f"{noticed.count('row')} of {count} killed by tests of the row, {noticed.count('other')} by those of other rows")
    return "" not in noticed


def _judge(original: Path, drawn: Drawn) -> str:
    """Run the tests on one mutant and print the results. Returns the group of tests that notices: the row, another,
    or none.
    """
    with broken(original / drawn.file, drawn.change):
        who = test = ""
        for name, tests in (("row", drawn.own), ("other", drawn.others)):
            verdict, test = judge(original, tests, MUTANT_SECONDS_MAX) if tests else (Verdict.SURVIVED, "")
            # That a mutant runs for ever counts for its own row only: those of all others take long anyway.
            if verdict is Verdict.KILLED or (verdict is Verdict.TIMEOUT and name == "row"):
                who = name
                break
    change = drawn.change
    print(f"{drawn.row:7} {who or 'ALIVE':6} {drawn.file}:{change.line}  {change.operator}", flush=True)
    if who != "row":
        print(f"    - {change.before.strip()}\n    + {change.after.strip()}", flush=True)
    if who:
        print(f"    {test or 'time is up'}", flush=True)
    return who


@contextmanager
def broken(file: Path, change: Break) -> Iterator[None]:
    """Break a line of a file of the copy, and mend it. The time of its change is set back, or Python keeps the broken one."""
    source, was = file.read_text(encoding="utf-8"), file.stat()
    text = break_line(source, change)
    ast.parse(text)
    try:
        file.write_text(text, encoding="utf-8")
        yield
    finally:
        file.write_text(source, encoding="utf-8")
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
