"""Scenarios: each draws one fault, or a few that belong together, for a plan of which everything else is drawn already.

A scenario draws when, where and how much, with the dice that it is given. How often it comes is a weight in `generator.py`. One
that cannot happen to a plan gives nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import permutations
from typing import Literal

from relay.instruments.simulation.faults import (
    Burst,
    CutStream,
    Fault,
    Flood,
    Kill,
    Leave,
    Move,
    Pause,
    Replace,
    Reset,
    SlowWan,
    Split,
    WanCut,
)
from relay.instruments.simulation.plan import LOAD_S, Plan
from relay.replica.buffer import BufferConfig

Scenario = Callable[[random.Random, Plan], list[Fault]]

#: Of a site of so many several can go at once, and there are still several.
LARGE = 5
#: Seconds that everything is later between two sites, at least and at most: another building, and a queue that is far too long.
#: (Twice the most, and what is on top, must stay below `LinkConfig.hello_s`: else no link comes up.)
DELAYS_S = (0.005, 1.4)

_CLOSERS: tuple[Literal["sender", "receiver", "both"], ...] = ("sender", "receiver", "both")


# -- members -----------------------------------------------------------------------------------------------------------


def kill(rng: random.Random, plan: Plan) -> list[Fault]:
    """A member dies, the coordinator more often than others; sometimes the next in line a moment later."""
    site, at = draw_site(rng, plan), _moment(rng)
    faults: list[Fault] = [Kill(at, site, rng.choice((0, 0, 0, 1, 2)), rng.randrange(6), _back_s(rng, plan, site))]
    if rng.random() < 0.2:
        faults.append(Kill(at + rng.uniform(0.0, 2.0), site, 0, rng.randrange(6), rng.uniform(0.0, 8.0)))
    return faults


def leave(rng: random.Random, plan: Plan) -> list[Fault]:
    """A member says goodbye."""
    site = draw_site(rng, plan)
    return [Leave(_moment(rng), site, rng.choice((0, 0, 1)), _back_s(rng, plan, site))]


def pause(rng: random.Random, plan: Plan) -> list[Fault]:
    """A member stands still, until its silence is noticed or not so long."""
    return [Pause(_moment(rng), _length(rng), draw_site(rng, plan), rng.choice((0, 0, 1, 2)))]


def move(rng: random.Random, plan: Plan) -> list[Fault]:
    """Where members find each other by multicast: those that are named by address have to stay where they are."""
    return [Move(_moment(rng), draw_site(rng, plan), rng.choice((0, 1, 2)))] if plan.multicast else []


def takeover(rng: random.Random, plan: Plan) -> list[Fault]:
    """The coordinator goes, in every way there is, and its site is full again soon."""
    site, at, back = draw_site(rng, plan), _moment(rng), rng.uniform(0.0, 3.0)
    match rng.randrange(4):
        case 0:
            return [Kill(at, site, 0, rng.randrange(12), back)]
        case 1:
            return [Leave(at, site, 0, back)]
        case 2:
            return [Replace(at, site, rng.choice((0, 0, 1, 2)))]
        case _:
            second = at + rng.uniform(0.3, 1.5)
            return [Kill(at, site, 0, rng.randrange(12), back), Kill(second, site, 0, rng.randrange(12), back)]


def line_dies(rng: random.Random, plan: Plan) -> list[Fault]:
    """The next in line of a large site, one after the other, each while it takes over."""
    site, at = _draw_large_site(rng, plan), _moment(rng)
    times = [at + 0.7 * number for number in range(rng.choice((2, 3)) if site else 0)]
    return [Kill(time, site, 0, rng.randrange(12), rng.uniform(3.0, 8.0)) for time in times]


def several_die(rng: random.Random, plan: Plan) -> list[Fault]:
    """Of a large site, perhaps more than half at once, with the coordinator or without."""
    site = _draw_large_site(rng, plan)
    if not site:
        return []
    members, at, back = dict(plan.sites)[site], _moment(rng), rng.choice((None, rng.uniform(0.0, 8.0)))
    ranks = rng.sample(range(members), rng.randrange(2, members))
    dying = [Kill(at + rng.uniform(0.0, 0.2), site, rank, rng.randrange(6), back) for rank in ranks]
    return [Flood(at - 0.1, 1.0, site, 24, 0.1), *dying]


def several_leave(rng: random.Random, plan: Plan) -> list[Fault]:
    """Of a large site, while others come back."""
    site = _draw_large_site(rng, plan)
    if not site:
        return []
    members, at = dict(plan.sites)[site], _moment(rng)
    number = rng.randrange(2, max(4, members // 2))
    return [Leave(at + rng.uniform(0.0, 0.5), site, rng.randrange(members), rng.uniform(0.0, 3.0)) for _ in range(number)]


def site_dies(rng: random.Random, plan: Plan) -> list[Fault]:
    """All members of a site, so that nobody is there for a while."""
    site, at, back = draw_site(rng, plan), _moment(rng), rng.uniform(0.0, 2.0)
    return [Kill(at + 0.01 * n, site, 0, 0, back + 0.1 * n) for n in range(dict(plan.sites)[site])]


# -- inside a site -----------------------------------------------------------------------------------------------------


def burst(rng: random.Random, plan: Plan) -> list[Fault]:
    """Everything is lost for a moment."""
    return [Burst(_moment(rng), rng.uniform(0.2, 1.0))]


def split(rng: random.Random, plan: Plan) -> list[Fault]:
    """A site falls in two, of which each can be larger."""
    site = draw_site(rng, plan)
    hosts = rng.randrange(1, max(2, dict(plan.sites)[site]))
    return [Split(_moment(rng), _length(rng), site, hosts, rng.random() < 0.25)]


def split_amid_floods(rng: random.Random, plan: Plan) -> list[Fault]:
    """The first site falls in two twice; it sends much when that begins, when it ends, and afterwards."""
    site, members = plan.sites[0]
    faults: list[Fault] = []
    for at in (rng.uniform(0.5, 8.0), rng.uniform(14.0, 18.0)):
        length = rng.uniform(3.0, 5.0)
        faults.append(Split(at, length, site, rng.randrange(1, max(members, 2)), False))
        faults += [Flood(start, 1.0, site, 24, 0.4) for start in (at + 0.2, at + length - 0.2, at + length + 1.0)]
    return faults


def resets(rng: random.Random, plan: Plan) -> list[Fault]:
    """The same two forget their connection several times in a row."""
    sites = [site for site, members in plan.sites if members > 1]
    if not sites:
        return []
    site, rank, at = rng.choice(sites), rng.choice((0, 1)), _moment(rng)
    faults: list[Fault] = []
    for _ in range(rng.choice((2, 4))):
        length = rng.uniform(0.05, 0.6)
        loss, late = rng.choice((0.0, 0.3, 0.5)), rng.choice((0.0, 0.1, 0.5))
        faults.append(Reset(at, length, site, rank, 1 - rank, rng.choice((4, 8)), rng.choice(_CLOSERS), loss, late))
        at += rng.uniform(0.0, 1.0)
    return faults


# -- between sites -----------------------------------------------------------------------------------------------------


def cut_stream(rng: random.Random, plan: Plan) -> list[Fault]:
    """The connections between two sites break, or all of them."""
    return [CutStream(_moment(rng), rng.choice((None, rng.choice(plan.pairs()))))]


def wan_cut(rng: random.Random, plan: Plan) -> list[Fault]:
    """Nothing passes between two sites."""
    return [WanCut(_moment(rng), rng.uniform(0.1, 15.0), rng.random() < 0.3, rng.choice(plan.pairs()))]


def wan_cuts_in_turn(rng: random.Random, plan: Plan) -> list[Fault]:
    """One side of a site is cut off, and before that is mended another one."""
    turns = [(one, other) for one, other in permutations(plan.pairs(), 2) if {*one} & {*other}]
    if not turns:
        return []
    (one, other), at, length = rng.choice(turns), _moment(rng), rng.uniform(1.0, 6.0)
    floods = [Flood(at - 0.05 + later, 0.5, rng.choice(pair), 16, 0.1) for pair, later in ((one, 0.0), (other, length))]
    return [*floods, WanCut(at, length, rng.random() < 0.3, one), WanCut(at + length / 2, length, False, other)]


def shortage(rng: random.Random, plan: Plan) -> list[Fault]:
    """A cut that is too long for a small budget."""
    if plan.budget == BufferConfig():
        return []
    at, length = rng.uniform(1.0, 10.0), rng.uniform(5.0, 15.0)
    floods = [Flood(at + rng.uniform(0.0, length), 2.0, site, 12, 0.0) for site, _ in plan.sites]
    return [WanCut(at, length, False, rng.choice(plan.pairs())), *floods]


def slow_wan(rng: random.Random, plan: Plan) -> list[Fault]:
    """Everything is late for a while."""
    return [SlowWan(rng.uniform(0.0, 15.0), rng.uniform(2.0, 14.0), draw_delay(rng), None, 0.0)]


def narrow_wan(rng: random.Random, plan: Plan) -> list[Fault]:
    """Bulk that fills a queue between sites: what is said in between must come through all the same.

    Not where little may wait for a route: a frame that does not fit there would never get through (`relay/node/settings.py`).
    """
    if plan.connections:
        return []
    at, length, size = rng.uniform(0.0, 15.0), rng.uniform(2.0, 14.0), rng.choice((5_000, 20_000))
    floods = [Flood(at + rng.uniform(0.0, length), 1.0, site, 24, 0.1, size) for site, _ in plan.sites]
    # From less than the load in floods to more than it.
    rate = rng.choice((50_000.0, 125_000.0, 400_000.0))
    return [SlowWan(at, length, draw_delay(rng), rate, rng.choice((0.1, 0.5, 2.0))), *floods]


# -- aimed: faults that seldom meet by chance, each set at the one moment that a trap is about --------------------------


def leave_before_the_view(rng: random.Random, plan: Plan) -> list[Fault]:
    """S3, S16: the next coordinator hears of the view later than the members that forward to it."""
    site, _ = max(plan.sites, key=lambda each: each[1])
    at = LOAD_S - 2.5 - rng.uniform(0.0, 1.3)  # so late that no other view makes them forward once more
    wire = Reset(at - 0.02, 0.4, site, 0, 1, 4, "sender", 0.5, 0.2)
    return [wire, Flood(at - 0.05, 0.15, site, 24, 0.0), Leave(at, site, 0, rng.choice((None, 0.0)))]


def relay_dies_with_what_it_read(rng: random.Random, plan: Plan) -> list[Fault]:
    """R5: what others sent is read, and not passed on."""
    site, at = draw_site(rng, plan), _moment(rng)
    floods = [Flood(at, 0.1, other, 24, 0.0) for other in _some_others(rng, plan, site)]
    return [*floods, Kill(at + rng.uniform(0.0, 0.1), site, 0, rng.choice((0, 0, 1, 2)), rng.uniform(0.0, 2.0))]


def relay_dies_in_a_cut(rng: random.Random, plan: Plan) -> list[Fault]:
    """R6: what a dead relay had sent arrives when its successor replays."""
    pair, at = rng.choice(plan.pairs()), _moment(rng)
    site = rng.choice(pair)
    kill = Kill(at + 0.4, site, 0, rng.randrange(4), rng.uniform(0.0, 2.0))
    return [WanCut(at, rng.uniform(1.0, 2.8), False, pair), Flood(at + 0.05, 0.3, site, 16, 0.0), kill]


def relay_wakes(rng: random.Random, plan: Plan) -> list[Fault]:
    """R9: a relay that has slept long believes that it still is one."""
    site, at, length = draw_site(rng, plan), _moment(rng), rng.uniform(1.0, 8.0)
    floods = [Flood(at - 0.05, 0.3, each, 16, 0.1) for each in (site, *_some_others(rng, plan, site))]
    return [*floods, Pause(at, length, site, 0), *[Flood(at + length - 0.05, 0.5, f.site, 16, 0.0) for f in floods]]


def address_is_taken(rng: random.Random, plan: Plan) -> list[Fault]:
    """A3: what is under way to the dead reaches its successor at the address."""
    site, at = draw_site(rng, plan), _moment(rng)
    return [Flood(at - 0.1, 0.5, site, 24, 0.8), Replace(at, site, 2), Replace(at + 0.2, site, 0)]


def two_relays_die(rng: random.Random, plan: Plan) -> list[Fault]:
    """At both ends of a connection, with what each had taken from the other."""
    at, back = _moment(rng), rng.uniform(0.0, 2.0)
    one, other = rng.sample(rng.choice(plan.pairs()), 2)
    floods = [Flood(at - 0.05, 0.3, site, 16, 0.1) for site, _ in plan.sites]
    return [*floods, Kill(at, one, 0, 0, back), Kill(at + rng.uniform(0.0, 0.5), other, 0, 0, back)]


# -- dice --------------------------------------------------------------------------------------------------------------


def draw_site(rng: random.Random, plan: Plan) -> str:
    """Any site; where there are routes one in between more often, since what goes over a route depends on that."""
    between = plan.between()
    return rng.choice(between) if between and rng.random() < 0.6 else rng.choice(plan.sites)[0]


def draw_delay(rng: random.Random) -> float:
    """As often from 5 to 50 milliseconds as from 140 to 1,400."""
    return math.exp(rng.uniform(*map(math.log, DELAYS_S)))


def _draw_large_site(rng: random.Random, plan: Plan) -> str:
    """Empty when there is none."""
    sites = [site for site, members in plan.sites if members >= LARGE]
    return rng.choice(sites) if sites else ""


def _some_others(rng: random.Random, plan: Plan, site: str) -> list[str]:
    """One or two."""
    others = [name for name, _ in plan.sites if name != site]
    return rng.sample(others, min(len(others), rng.choice((1, 2))))


def _back_s(rng: random.Random, plan: Plan, site: str) -> float | None:
    """When somebody is there again; where nobody else may be, always: in between the ends would never meet again."""
    alone = dict(plan.sites)[site] == 1 or site in plan.between()
    return rng.uniform(0.0, 8.0) if alone or rng.random() < 0.5 else None


def _moment(rng: random.Random) -> float:
    return rng.uniform(0.5, LOAD_S - 4.0)


def _length(rng: random.Random) -> float:
    return rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 13.0)))
