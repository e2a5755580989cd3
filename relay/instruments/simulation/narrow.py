"""What makes a seed narrow: windows of flow control that are soon full, unicasts, and splits in the middle of bursts (B1, S18).

One of ten seeds is narrow, besides whatever else it is: no run sends enough to fill a window as large as it should be. What it
has in addition is drawn apart from the rest, so that every other seed is what it was before there were narrow ones.
"""

from __future__ import annotations

import random
from dataclasses import replace

from relay.instruments.simulation import wide
from relay.instruments.simulation.faults import Fault, Flood, Split
from relay.instruments.simulation.plan import Plan

#: The remainder by ten of the seeds that are narrow. (No seed that found something before has it.)
NARROW = 2

#: From one frame at a time to some dozens of the smaller ones.
WINDOWS_BYTES = (1, 2_000, 20_000)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    plan = wide.draw(seed)
    return narrow(plan) if seed % 10 == NARROW else plan


def narrow(plan: Plan) -> Plan:
    """The same plan with one small window for all, and a site of four at least that falls apart while much is sent."""
    rng = random.Random(f"narrow {plan.seed}")
    largest, members = max(plan.sites, key=lambda each: each[1])
    sites = tuple([(site, max(count, 4) if site == largest else count) for site, count in plan.sites])
    faults: list[Fault] = list(plan.faults)
    for at in (rng.uniform(0.5, 8.0), rng.uniform(14.0, 18.0)):
        length = rng.uniform(3.0, 5.0)
        faults.append(Split(at, length, largest, rng.randrange(1, max(members, 4)), False))
        faults += [Flood(start, 1.0, largest, 24, 0.4) for start in (at + 0.2, at + length - 0.2, at + length + 1.0)]
    window_bytes = rng.choice(WINDOWS_BYTES)
    return replace(
        plan,
        sites=sites,
        window_bytes=window_bytes,
        unicast_share=max(plan.unicast_share, 0.3),
        size_max=max(200, window_bytes // 2),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )
