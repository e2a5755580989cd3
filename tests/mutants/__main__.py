"""`python -m tests.mutants`: take each fix away, and see whether a story or a seed fails. Exits with 1 when none does.

With `--rows` the mutants of rows are made instead, and with `--draw N --seed S` N drawn ones; both are shown to the tests that
are marked for a row (`judging.py`, `drawing.py`). With `--packages` they are drawn from all packages (`packages.py`).

Each mutant is a copy of the project with a few lines changed. It is tested with its own stories (`tests/simulation`), and with
seeds of the simulator until one breaks a promise. Seeds that fail without a mutant too are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.copies import ROOT, Mismatch, check_fits, make_copy
from tests.mutants.drawing import try_drawn
from tests.mutants.judging import Unusable, run_pytest, try_rows
from tests.mutants.mutant import Mutant
from tests.mutants.packages import try_packages
from tests.mutants.row_mutants import ROW_MUTANTS
from tests.mutants.table import LISTED, MUTANTS

#: Seconds after which a mutant's stories count as failed, since its virtual time may stand still. A story takes a fraction of a
#: second; the limit is long for a busy machine.
STORY_SECONDS_MAX = 300


def main() -> int:
    """Run the mutants that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Take each fix away and see who notices.")
    parser.add_argument("traps", nargs="*", metavar="TRAP", help="only these, such as S5 R2; with --rows rows, such as SEQ-5")
    parser.add_argument("--seeds", type=int, default=200, help="at most so many seeds a mutant (default: %(default)s)")
    parser.add_argument("--rows", action="store_true", help="instead the mutants of rows, with the tests marked for them")
    parser.add_argument("--draw", type=int, metavar="N", help="instead N drawn mutants, each with the tests of a row")
    parser.add_argument("--packages", action="store_true", help="draw them from all packages, with the tests of their folders")
    parser.add_argument("--minutes", type=float, default=60.0, help="with --packages: stop then (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn with (default: %(default)s)")
    options = parser.parse_args()
    if options.packages:
        return 0 if try_packages(options.draw or 20, options.seed, options.minutes) else 1
    if options.rows or options.draw:
        return _judge_rows(parser, options)
    known = {mutant.trap: mutant for mutant in MUTANTS}
    if strangers := [trap for trap in options.traps if trap not in known]:
        parser.error(f"there is no mutant for {', '.join(strangers)}; there are {', '.join(known)}.")
    mutants = [known[trap] for trap in options.traps or known]
    try:
        with tempfile.TemporaryDirectory() as folder:
            original = Path(folder)  # all mutants are of one and the same state of the project
            make_copy(ROOT, original)
            check_fits(original, [edit for mutant in mutants for edit in mutant.edits])
            failing = _try_unchanged(original, mutants, options.seeds)
            kills = {each.trap: _try_mutant(original, each, options.seeds, failing) for each in mutants}
    except (Mismatch, Unusable) as error:
        print(error, file=sys.stderr)
        return 2
    for line in sum_up(kills):
        print(line)
    return 0 if all(map(any, kills.values())) else 1


def _judge_rows(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Run drawn mutants; or the mutants of these rows, or of all."""
    rows = options.traps
    known = list(dict.fromkeys([mutant.row for mutant in ROW_MUTANTS]))
    if strangers := [row for row in rows if row not in known]:
        parser.error(f"there is no mutant for {', '.join(strangers)}; there are {', '.join(known)}.")
    mutants = [mutant for mutant in ROW_MUTANTS if not rows or mutant.row in rows]
    try:
        return 0 if (try_drawn(options.draw, options.seed) if options.draw else try_rows(mutants)) else 1
    except (Mismatch, Unusable) as error:
        print(error, file=sys.stderr)
        return 2


class Kill(NamedTuple):
    """Whether a story, and whether a seed, noticed a mutant."""

    by_story: bool
    by_seed: bool


def sum_up(kills: Mapping[str, Kill]) -> list[str]:
    """The result, in lines: how many mutants were killed, by stories or seeds, and which are alive."""
    alive = [trap for trap, kill in kills.items() if not any(kill)]
    unsown = [trap for trap, kill in kills.items() if not kill.by_seed]
    listed = [kills[trap] for trap in LISTED if trap in kills]
    stories, seeds = (sum(kill[by] for kill in kills.values()) for by in range(2))
    lines = [f"{len(kills) - len(alive)} of {len(kills)} killed, {stories} by stories and {seeds} by seeds"]
    if listed:
        stories, seeds = (sum(kill[by] for kill in listed) for by in range(2))
        killed = sum(map(any, listed))
        lines.append(f"of the {len(listed)} listed traps: {killed} killed, {stories} by stories and {seeds} by seeds")
    if alive:
        lines.append(f"alive: {', '.join(alive)}")
    if unsown:
        lines.append(f"no seed notices: {', '.join(unsown)}")
    return lines


def _try_unchanged(original: Path, mutants: Sequence[Mutant], seeds: int) -> list[int]:
    """The seeds that fail without any mutant. Raises Unusable when a story does."""
    stories = dict.fromkeys([story for mutant in mutants for story in mutant.stories])
    if tell(original, list(stories)):
        raise Unusable("A story fails without any mutant: run pytest tests/simulation first.")
    failing = [each["seed"] for each in sow(original, seeds, [], go_on=True)]
    if failing:
        print(f"left out, since they fail without any mutant: seeds {', '.join(map(str, failing))}")
    print(f"{'trap':5} {'seed':>6} {'story':>6} {'time':>7}  what was taken away", flush=True)
    return failing


def _try_mutant(original: Path, mutant: Mutant, seeds: int, failing: list[int]) -> Kill:
    """Run one mutant, print its line, and return what noticed it."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        make_copy(original, Path(folder), mutant.edits)
        told = tell(Path(folder), mutant.stories)
        broken = sow(Path(folder), seeds, failing, go_on=False)
    seconds = time.perf_counter() - started
    seed, story = str(broken[0]["seed"]) if broken else "-", "yes" if told else "-"
    print(f"{mutant.trap:5} {seed:>6} {story:>6} {seconds:6.1f}s  {mutant.why}", flush=True)
    if broken:
        print(f"{'':28}{str(broken[0]['what'])[:100]}", flush=True)
    return Kill(told, bool(broken))


def tell(folder: Path, stories: Sequence[str]) -> bool:
    """True when one of these stories fails, or does not end in time."""
    done = run_pytest(folder, stories, STORY_SECONDS_MAX)
    if done is None:
        return True
    if done.returncode > 1:
        raise Unusable(f"pytest could not run {' '.join(stories)}:\n{done.stdout}{done.stderr}")
    return done.returncode == 1


def sow(folder: Path, seeds: int, left_out: Sequence[int], *, go_on: bool) -> list[dict[str, Any]]:
    """The seeds that broke a promise, and the promise; only the first of them unless `go_on`."""
    command = [sys.executable, "-m", "tests.mutants.seeds", str(seeds), *map(str, left_out), *(["--all"] if go_on else [])]
    environment = {**os.environ, "PYTHONPATH": "lab"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unusable(f"the seeds could not run:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
