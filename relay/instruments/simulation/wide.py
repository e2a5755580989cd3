"""What makes a seed wide: sites of five to seven members, and a slow way between the sites (F26).

One of eleven seeds is wide, besides whatever else it is. What it has in addition is drawn apart from the rest, so that every
other seed is what it was before there were wide ones.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from relay.instruments.simulation import harsh
from relay.instruments.simulation.faults import Fault, Flood, Kill, Leave, SlowWan, Split
from relay.instruments.simulation.plan import TROUBLE_S, Plan

#: The remainder by eleven of the seeds that are wide. (No seed that found something before has it.)
WIDE = 10

#: What a large site can be; the others have up to four members.
MEMBERS = (5, 6, 7)
#: Seconds that everything is later between two sites, at least and at most: another building, and a queue that is far too long.
#: (Twice the most, and what is on top, must stay below `LinkConfig.hello_s`: else no link comes up.)
DELAYS_S = (0.005, 1.4)
#: Bytes that pass in a second: from less than a load in bursts to more than it.
RATES = (50_000.0, 125_000.0, 400_000.0)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    plan = harsh.draw(seed)
    return widen(plan) if seed % 11 == WIDE else plan


def widen(plan: Plan) -> Plan:
    """The same plan in larger sites, over a slow way, or both."""
    rng = random.Random(f"wide {plan.seed}")
    plan = replace(plan, messages=min(plan.messages, 150))
    kind = rng.random()
    if kind < 0.7:
        plan = _enlarge(rng, plan)
    if kind > 0.35:
        plan = _slow_down(rng, plan)
    return replace(plan, faults=tuple(sorted(plan.faults, key=lambda fault: fault.at)))


def _enlarge(rng: random.Random, plan: Plan) -> Plan:
    """At most two sites, since each member costs; and faults that only larger sites can have."""
    large = {site: rng.choice(MEMBERS) for site, _ in rng.sample(plan.sites, rng.choice((1, 1, 2)))}
    sites = tuple([(site, large.get(site, members)) for site, members in plan.sites])
    faults = [fault for site, members in large.items() for fault in _among_many(rng, site, members)]
    return replace(plan, sites=sites, faults=(*plan.faults, *faults))


def _among_many(rng: random.Random, site: str, members: int) -> list[Fault]:
    at = _moment(rng)
    match rng.randrange(4):
        case 0:  # several at once, perhaps more than half, with the first of them or without
            back = rng.uniform(0.0, 8.0)
            ranks = rng.sample(range(members), rng.randrange(2, members))
            dying = [Kill(at + rng.uniform(0.0, 0.2), site, rank, rng.randrange(6), back) for rank in ranks]
            return [Flood(max(0.0, at - 0.1), 1.0, site, 24, 0.1), *dying]
        case 1:  # the next in line one after the other
            times = [at + 0.7 * number for number in range(rng.choice((2, 3)))]
            return [Kill(time, site, 0, rng.randrange(12), rng.uniform(3.0, 8.0)) for time in times]
        case 2:  # into parts of which both can be of several
            length = rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 12.0)))
            return [Split(at, length, site, rng.randrange(2, members - 1), rng.random() < 0.2)]
        case _:  # several leave while others come back
            return [Leave(at + rng.uniform(0.0, 0.5), site, rng.randrange(members), rng.uniform(0.0, 3.0)) for _ in range(3)]


def _slow_down(rng: random.Random, plan: Plan) -> Plan:
    """For the whole run, or for a while; and for a while there may be too little room for what is sent, too."""
    if rng.random() < 0.5:
        plan = replace(plan, wan_delay_s=_delay(rng))
    if plan.wan_delay_s and rng.random() < 0.5:
        return plan
    at, length = rng.uniform(0.0, 15.0), rng.uniform(2.0, 14.0)
    if rng.random() < 0.5:
        return replace(plan, faults=(*plan.faults, SlowWan(at, length, _delay(rng), None, 0.0)))
    # Bulk that fills the queue up: what is said in between must come through all the same.
    floods = [Flood(at + rng.uniform(0.0, length), 1.0, site, 24, 0.1) for site, _ in plan.sites]
    slow = SlowWan(at, length, _delay(rng), rng.choice(RATES), rng.choice((0.1, 0.5, 2.0)))
    return replace(plan, size_max=max(plan.size_max, rng.choice((5_000, 20_000))), faults=(*plan.faults, slow, *floods))


def _delay(rng: random.Random) -> float:
    """As often from 5 to 50 milliseconds as from 140 to 1,400."""
    return math.exp(rng.uniform(*map(math.log, DELAYS_S)))


def _moment(rng: random.Random) -> float:
    return rng.uniform(0.5, TROUBLE_S - 4.0)
