"""Runs seeds of the simulator: `python -m tests.mutants.seeds COUNT [--all] [SEED TO LEAVE OUT...]`, in the folder of a copy.

Prints one JSON object per seed that broke a promise, and stops at the first one unless `--all` is given.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from pathlib import Path
from types import FrameType

import relay
import relay_lab
from relay_lab.simulation import run_seed

#: Seconds of processor time for a seed, which usually takes about one; in a mutant, virtual time may stand still.
SECONDS_MAX = 30
PROCESSES = 2


def judge(seed: int) -> tuple[int, str]:
    """Return the seed, and the promise that it broke; an empty string for none."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still runs after {SECONDS_MAX} s")

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    try:
        violations = run_seed(seed).violations
    except Exception as error:  # a mutant may fail in any way; what matters is that it does
        return seed, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return seed, violations[0] if violations else ""


def main(arguments: list[str]) -> None:
    """Run the seeds of the command line."""
    assert Path(relay_lab.__file__).is_relative_to(Path.cwd())
    assert Path(relay.__file__).is_relative_to(Path.cwd()), "the seeds must run on the code of the folder they are started in"
    go_on = "--all" in arguments
    count, *left_out = [int(each) for each in arguments if each != "--all"]
    seeds = [seed for seed in range(count) if seed not in left_out]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for seed, what in pool.imap_unordered(judge, seeds):
            if what:
                print(json.dumps({"seed": seed, "what": what}), flush=True)
                if not go_on:
                    break


if __name__ == "__main__":
    main(sys.argv[1:])
