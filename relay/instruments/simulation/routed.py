"""Sites in a line or a star, most of them without a connection with each other: routes (decision 9), a campaign of its own.

What a route goes over is disturbed more than what it ends at: relays in between die, stand still and wake, their sites fall
apart or are gone as a whole, and either line of a route is cut. In half of the seeds a line takes little at a time and little
may wait for it, so that the bounds of routes are met.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from relay.gateway.session import LinkConfig
from relay.gateway.wire import DATA_OVERHEAD_BYTES
from relay.instruments.simulation.faults import CutStream, Fault, Flood, Kill, Leave, Pause, Replace, Split, WanCut
from relay.instruments.simulation.plan import TROUBLE_S, Plan
from relay.instruments.simulation.ways import routes_of
from relay.replica.buffer import BufferConfig

#: Every first few sites are a tree too, so that a plan can be shrunk by leaving the last ones out; the last one is an end.
_LINE = ("NYC", "SFO", "LON", "TYO")
_STAR = ("SFO", "NYC", "LON", "TYO")


def draw_routed(seed: int) -> Plan:
    """The plan of a seed: three in a line, four in a line, or three around a fourth."""
    rng = random.Random(f"routed {seed}")
    names, connections = _draw_ways(rng)
    plan = Plan(
        seed=seed,
        sites=tuple([(name, rng.choice((1, 2, 2, 3))) for name in names]),
        order="total" if rng.random() < 0.8 else "fifo",
        agreement="uniform" if seed % 7 == 3 else "survivors",
        multicast=True,
        loss=rng.choice((0.0, 0.0, 0.05)),
        duplication=rng.choice((0.0, 0.0, 0.2)),
        duplication_late_s=0.5,
        reordering=rng.choice((0.0, 0.0, 0.2)),
        reordering_late_s=0.05,
        corruption=0.0,
        faults=(),
        messages=rng.choice((50, 100, 150)),
        size_max=rng.choice((20, 200, 1_000, 5_000)),
        unicast_share=rng.choice((0.0, 0.1, 0.3)),
        site_share=rng.choice((0.0, 0.1)),
        batch_count_max=1 if rng.random() < 0.4 else None,
        connections=connections,
    )
    if rng.random() < 0.5:
        plan = _narrow(rng, plan)
    faults = [*_deaths(rng, plan), *_cuts(rng, plan)]
    if rng.random() < 0.8:
        faults += _aimed(rng, plan)
    faults += [Flood(max(0.0, fault.at - 0.1), 1.0, _any(rng, plan), 16, 0.1) for fault in faults if rng.random() < 0.6]
    if rng.random() < 0.3:
        plan, more = _tiny_budget(rng, plan)
        faults += more
    elif rng.random() < 0.15:
        plan = replace(plan, late=(plan.sites[-1][0], rng.uniform(2.0, 10.0)))
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _draw_ways(rng: random.Random) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    if rng.random() < 0.3:
        return _STAR, tuple([(_STAR[0], other) for other in _STAR[1:]])
    names = _LINE[: rng.choice((3, 3, 4))]
    return names, tuple(pairwise(names))


def _narrow(rng: random.Random, plan: Plan) -> Plan:
    """Lines that take little a second, and little that may wait for them: a window and a frame are the least that works.

    A frame that does not fit into the queue before a slower line would never get through (`relay/node/settings.py`).
    """
    window, frame = rng.choice((10_000, 100_000)), plan.size_max + DATA_OVERHEAD_BYTES
    link = LinkConfig(
        chunk_bytes=rng.choice((1_000, 4_000)), window_bytes=window, routed_bytes_max=window + frame * rng.choice((1, 1, 4))
    )
    plan = replace(plan, batch_count_max=1)
    rate = rng.choice((None, 100_000.0, 400_000.0))
    if rate is None:
        return replace(plan, link=link)
    slow = random.Random(f"lines {plan.seed}")
    narrow = plan.connections if slow.random() < 0.5 else slow.sample(plan.connections, 1)
    return replace(plan, link=link, lines=tuple([(one, other, rate) for one, other in narrow]))


def _deaths(rng: random.Random, plan: Plan) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        site = _between(rng, plan) if rng.random() < 0.6 else _any(rng, plan)
        at = _moment(rng)
        match rng.randrange(5):
            case 0:
                faults.append(Leave(at, site, rng.choice((0, 0, 1)), rng.uniform(0.0, 3.0)))
            case 1:
                faults.append(Replace(at, site, rng.choice((0, 0, 1))))
            case _:
                back = rng.uniform(0.0, 8.0) if dict(plan.sites)[site] == 1 or rng.random() < 0.7 else None
                if back is None and routes_of(plan, site).forward:
                    back = 2.0  # with nobody left in between the ends would never meet again
                faults.append(Kill(at, site, rng.choice((0, 0, 0, 1)), rng.randrange(6), back))
    return faults


def _cuts(rng: random.Random, plan: Plan) -> list[Fault]:
    """Of lines, and inside sites."""
    faults: list[Fault] = [CutStream(_moment(rng), rng.choice(plan.connections)) for _ in range(rng.choice((0, 0, 1, 3)))]
    if rng.random() < 0.4:
        faults.append(WanCut(_moment(rng), _length(rng), rng.random() < 0.3, rng.choice(plan.connections)))
    if rng.random() < 0.3:
        site = _between(rng, plan) if rng.random() < 0.5 else _any(rng, plan)
        faults.append(Split(_moment(rng), _length(rng), site, rng.randrange(dict(plan.sites)[site]) or 1, rng.random() < 0.2))
    if rng.random() < 0.3:
        faults.append(Pause(_moment(rng), _length(rng), _any(rng, plan), 0))
    return faults


def _aimed(rng: random.Random, plan: Plan) -> list[Fault]:
    """What a route is about, each at the moment that matters: messages of an end are under way."""
    between = _between(rng, plan)
    end, other = rng.sample([name for name, _ in plan.sites if name != between], 2)
    at, back = _moment(rng), rng.uniform(0.0, 2.0)
    floods: list[Fault] = [Flood(at - 0.05, 0.3, end, 24, 0.1), Flood(at - 0.05, 0.3, other, 16, 0.0)]
    match rng.randrange(5):
        case 0:  # the relay in between dies with what it has not handed on
            return [*floods, Kill(at + rng.uniform(0.0, 0.1), between, 0, rng.choice((0, 1, 2)), back)]
        case 1:  # and one at an end with it
            return [*floods, Kill(at, between, 0, 0, back), Kill(at + rng.uniform(0.0, 0.5), end, 0, 0, back)]
        case 2:  # the relay in between has slept so long that another hands on, and wakes
            pause = Pause(at, rng.uniform(1.0, 8.0), between, 0)
            return [*floods, pause, Flood(at + pause.length - 0.05, 0.5, end, 16, 0.0)]
        case 3:  # one line of the route is cut, and the other one before that is mended
            legs = [pair for pair in plan.connections if between in pair]
            one, second = rng.sample(legs, 2)
            length = rng.uniform(1.0, 6.0)
            cut = WanCut(at, length, rng.random() < 0.3, one)
            return [*floods, cut, WanCut(at + length / 2, length, False, second), Flood(at + length, 0.5, other, 16, 0.0)]
        case _:  # nobody is in between for a while
            gone = [Kill(at + 0.01 * n, between, 0, 0, back + 0.1 * n) for n in range(dict(plan.sites)[between])]
            return [*floods, *gone, Flood(at + 1.0, 1.0, end, 16, 0.0)]


def _tiny_budget(rng: random.Random, plan: Plan) -> tuple[Plan, list[Fault]]:
    """So little that a cut of one line costs something."""
    budgets = (
        BufferConfig(budget_entries=rng.choice((8, 32))),
        BufferConfig(budget_bytes=rng.choice((4_000, 20_000))),
        BufferConfig(budget_age_s=rng.choice((1.0, 4.0))),
    )
    at, length = rng.uniform(1.0, 10.0), rng.uniform(5.0, 15.0)
    floods = [Flood(at + rng.uniform(0.0, length), 2.0, site, 12, 0.0) for site, _ in plan.sites]
    return replace(plan, budget=rng.choice(budgets)), [WanCut(at, length, False, rng.choice(plan.connections)), *floods]


def _between(rng: random.Random, plan: Plan) -> str:
    """A site that has more than one connection."""
    ends = [name for pair in plan.connections for name in pair]
    return rng.choice([name for name, _ in plan.sites if ends.count(name) > 1])


def _any(rng: random.Random, plan: Plan) -> str:
    return rng.choice(plan.sites)[0]


def _length(rng: random.Random) -> float:
    return rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 12.0)))


def _moment(rng: random.Random) -> float:
    return rng.uniform(0.5, TROUBLE_S - 4.0)
