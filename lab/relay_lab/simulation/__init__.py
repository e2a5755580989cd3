"""The whole system under the faults of a plan: `draw` makes one from a seed, `run_plan` carries it out and judges it."""

from __future__ import annotations

import gc
from typing import TextIO

from relay_lab.simulation.dimensions import Kind
from relay_lab.simulation.generator import draw
from relay_lab.simulation.plan import Plan
from relay_lab.simulation.run import SeedResult, SeedRun
from relay_lab.simulation.shrink import shrink

__all__ = ["Kind", "Plan", "SeedResult", "SeedRun", "draw", "run_plan", "run_seed", "shrink_plan"]

#: Objects between two collections of garbage. Most objects of a world are alive until its end.
GC_THRESHOLD = (100_000, 20, 50)


def run_plan(plan: Plan, trace: TextIO | None = None) -> SeedResult:
    """Run a plan; with `trace`, write every record of every process to it, in canonical order."""
    run = SeedRun(plan)
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLD)
    try:
        result = run.result()
    finally:
        gc.set_threshold(*before)
    if trace is not None:
        for process in run.world.processes:
            for record in process.records:
                trace.write(f"{process.local.site}/{process.local.name} {record}\n")
    return result


def run_seed(seed: int, kind: Kind = "swarm") -> SeedResult:
    return run_plan(draw(seed, kind))


def shrink_plan(plan: Plan) -> Plan:
    """Return the smallest plan that is found to break the promise that this one breaks. Raises ValueError if it breaks none."""
    return shrink(plan, lambda candidate: run_plan(candidate).violations)
