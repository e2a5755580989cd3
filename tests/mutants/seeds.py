"""Runs seeds of the simulator: `python -m tests.mutants.seeds COUNT [--all] [SEED TO LEAVE OUT...]`, in the folder of a copy.

Prints one JSON object a seed that broke a promise; stops at the first one unless it is told to go on.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from pathlib import Path
from types import FrameType

import relay
from relay.instruments.simulation import run_seed

#: Of processor time: a simulated run takes about one; in a mutant, virtual time may stand still.
SECONDS_MAX = 30
PROCESSES = 2


def judge(seed: int) -> tuple[int, str]:
    """What is wrong with this seed, or an empty string."""

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
    """Run them."""
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
