"""Where in its turn a process dies: some seeds have kills between two steps, not in the middle of datagrams (F14)."""

from __future__ import annotations

import random
from dataclasses import replace

from relay.instruments.simulation.faults import Kill
from relay.instruments.simulation.plan import Plan
from sitestack.stack.turn import STEPS, Step

#: Remainders by thirteen of the seeds that have such kills. (No seed that found something before has one of them.)
BORDERED = (8, 9, 10)


def at_borders(plan: Plan) -> Plan:
    """The same plan; of a seed that has such kills, each of them at a place of its own."""
    if plan.seed % 13 not in BORDERED:
        return plan
    rng = random.Random(f"borders {plan.seed}")
    faults = [replace(fault, before=draw_border(rng)) if isinstance(fault, Kill) else fault for fault in plan.faults]
    return replace(plan, faults=tuple(faults))


def draw_border(rng: random.Random) -> Step | None:
    """Before which step a process dies. Not before the first: then it might as well have died before its turn."""
    return rng.choice((*STEPS[1:], None))
