"""The whole system under seeded faults: `run_seed` is one run, from the plan that the seed stands for to the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TextIO

from relay.instruments.simulation.borders import at_borders
from relay.instruments.simulation.large import draw_large
from relay.instruments.simulation.narrow import draw
from relay.instruments.simulation.plan import Plan, draw_plain
from relay.instruments.simulation.routed import draw_routed
from relay.instruments.simulation.run import SeedResult, SeedRun
from relay.instruments.simulation.shrink import shrink

#: A few members in each of several sites with everything turned on and off; a hundred in one; sites in a line or a star.
Kind = Literal["swarm", "large", "routed"]

DRAWS: dict[Kind, Callable[[int], Plan]] = {"swarm": draw, "large": draw_large, "routed": draw_routed}

__all__ = [
    "DRAWS",
    "Kind",
    "Plan",
    "SeedResult",
    "SeedRun",
    "draw",
    "draw_large",
    "draw_of",
    "draw_plain",
    "draw_routed",
    "run_seed",
    "shrink_seed",
]


def draw_of(kind: Kind, seed: int) -> Plan:
    """What a seed stands for in the campaign of this kind."""
    return at_borders(DRAWS[kind](seed))


def run_seed(seed: int, trace: TextIO | None = None, kind: Kind = "swarm") -> SeedResult:
    """Run one seed of a kind of plan; with `trace`, write every record of every process to it, in canonical order."""
    run = SeedRun(draw_of(kind, seed))
    result = run.result()
    if trace is not None:
        for process in run.world.processes:
            for record in process.records:
                trace.write(f"{process.local.site}/{process.local.name} {record}\n")
    return result


def shrink_seed(seed: int, kind: Kind = "swarm") -> Plan:
    """The smallest plan that is found to break the promise that this seed breaks. Raises ValueError if it breaks none."""
    return shrink(draw_of(kind, seed), lambda plan: SeedRun(plan).result().violations)
