"""A hundred members in one site: the campaign of its own (F38), for what only shows when there are many."""

from __future__ import annotations

import random

from relay.instruments.simulation.faults import Fault, Flood, Kill, Leave, Pause, Split
from relay.instruments.simulation.plan import Plan

MEMBERS = 100


def draw_large(seed: int) -> Plan:
    """A hundred members start within a second; then coordinators die under load, many go at once, and the site falls in two."""
    rng = random.Random(f"large {seed}")
    name = "NYC"
    at = rng.uniform(1.0, 4.0)
    faults: list[Fault] = [
        Flood(at - 0.1, 1.0, name, 40, 0.2),
        Kill(at, name, 0, rng.randrange(6), rng.uniform(0.0, 3.0)),
        Kill(at + rng.uniform(0.0, 1.0), name, 0, rng.randrange(6), rng.uniform(0.0, 3.0)),
    ]
    at = rng.uniform(9.0, 12.0)
    match rng.randrange(3):
        case 0:
            faults += [Kill(at + rng.uniform(0.0, 0.2), name, rng.randrange(MEMBERS), 0, None) for _ in range(MEMBERS // 2)]
        case 1:
            faults += [Leave(at + rng.uniform(0.0, 0.2), name, rng.randrange(MEMBERS)) for _ in range(MEMBERS // 4)]
        case _:
            faults.append(Split(at, rng.uniform(3.0, 6.0), name, rng.choice((1, MEMBERS // 2)), False))
    faults.append(Flood(at, 1.0, name, 40, 0.2))
    faults.append(Pause(rng.uniform(18.0, 20.0), rng.uniform(0.5, 4.0), name, rng.choice((0, 1, 50))))
    return Plan(
        seed=seed,
        sites=((name, MEMBERS), ("SFO", 2)),
        order="total",
        agreement="survivors",
        multicast=True,
        loss=rng.choice((0.0, 0.01)),
        duplication=0.0,
        duplication_late_s=0.01,
        reordering=rng.choice((0.0, 0.1)),
        reordering_late_s=0.05,
        corruption=0.0,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        messages=60,
        size_max=200,
        unicast_share=0.1,
        site_share=0.1,
    )
