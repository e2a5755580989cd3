"""The whole system under seeded faults: `run_seed` is one run, from the plan that the seed stands for to the verdict."""

from __future__ import annotations

from typing import TextIO

from relay.simulation.plan import Plan, draw
from relay.simulation.run import Run, SeedResult

__all__ = ["Plan", "Run", "SeedResult", "draw", "run_seed"]


def run_seed(seed: int, trace: TextIO | None = None) -> SeedResult:
    """Run one seed; with `trace`, write every record of every process to it, in canonical order."""
    run = Run(draw(seed))
    result = run.result()
    if trace is not None:
        for process in run.world.processes:
            for record in process.records:
                trace.write(f"{process.local.site}/{process.local.name} {record}\n")
    return result
