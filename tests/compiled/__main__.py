"""`python -m tests.compiled`: compile a copy of the project, run its tests of pure code, and seeds both here and there.

Exits with 1 when a test fails or a trace differs. Prints how many seeds a core does in an hour, from the CPU time of each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatch_build import compile_into
from tests.mutants.copies import ROOT, make_copy

#: The tests of compiled modules and of nodes built on them, without tests that inspect objects or replace
#: functions.
TESTS = (
    "tests/sitestack/journal",
    "tests/sitestack/layers",
    "tests/sitestack/model",
    "tests/sitestack/seal",
    "tests/lab/sim",
    "tests/sitestack/stack",
    "tests/sitestack/wire",
    "tests/relay/gateway",
    "tests/relay/layer",
    "tests/relay/replica",
    "tests/relay/unicast",
    "tests/simulation",
    "tests/relay/cli/test_usage.py",
    "tests/relay/node/config/test_any_configuration.py",
    "tests/relay/node/config/test_config.py",
    "tests/relay/node/test_relay_channel.py",
)
MARKS = "not long and not slow and not inside"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.compiled", description="Does the compiled build behave the same?")
    parser.add_argument("--seeds", default="0:48", metavar="A:B", help="seeds to run with both (default: %(default)s)")
    parser.add_argument("--seeds-only", action="store_true", help="without the tests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relay-compiled-") as folder:
        copy = Path(folder) / "copy"
        copy.mkdir()
        make_copy(ROOT, copy)
        _compile(copy, Path(folder) / "made")
        if not options.seeds_only and _run(copy, "pytest", "-q", "-m", MARKS, *TESTS).returncode:
            return 1
        pure, compiled = _simulate(ROOT, options.seeds), _simulate(copy, options.seeds)
    assert (pure["build"], compiled["build"]) == ("pure", "compiled")
    here, there = pure["seeds_per_core_hour"], compiled["seeds_per_core_hour"]
    print(f"seeds an hour a core: {here:,} pure, {there:,} compiled, {there / here:.2f}x")
    same = pure["trace_hash"] == compiled["trace_hash"]
    print(f"{pure['seeds']} traces are {'the same' if same else 'NOT the same'}")
    return 0 if same and not compiled["violations"] else 1


def _compile(copy: Path, made: Path) -> None:
    """Put the extensions beside their sources."""
    for extension in compile_into(copy, made):
        shutil.copy(extension, copy / extension.relative_to(made / "lib"))


def _simulate(folder: Path, seeds: str) -> dict[str, Any]:
    ran = _run(folder, "relay", "simulate", "--seeds", seeds, "--json", capture_output=True)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def _run(folder: Path, *arguments: str, capture_output: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a module of the project in this folder instead of the installed one."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE if capture_output else None)


if __name__ == "__main__":
    sys.exit(main())
