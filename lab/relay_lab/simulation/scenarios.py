"""Scenarios: each draws one fault, or a few that belong together, for an otherwise complete plan.

How often a scenario happens is in `dimensions.py`. One that makes no sense in a plan gives no
fault.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import Literal

from relay.replica.config import BufferConfig
from relay_lab.simulation.dice import LARGE, back_s, draw_delay, draw_length, draw_shared_site, draw_site, moment, some_others
from relay_lab.simulation.faults import (
    Burst,
    CutStream,
    Fault,
    Flood,
    Kill,
    Leave,
    Move,
    Pause,
    PeerRemoved,
    Replace,
    Reset,
    RouterDies,
    SlowWan,
    Split,
    WanCut,
)
from relay_lab.simulation.plan import LOAD_S, Plan

_CLOSERS: tuple[Literal["sender", "receiver", "both"], ...] = ("sender", "receiver", "both")


def kill(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a kill, more often of the coordinator; sometimes of the next in line a moment later."""
    site, at = draw_site(rng, plan), moment(rng)
    faults: list[Fault] = [Kill(at, site, rng.choice((0, 0, 0, 1, 2)), rng.randrange(6), back_s(rng, plan, site))]
    if rng.random() < 0.2:
        faults.append(Kill(at + rng.uniform(0.0, 2.0), site, 0, rng.randrange(6), rng.uniform(0.0, 8.0)))
    return faults


def leave(rng: random.Random, plan: Plan) -> list[Fault]:
    site = draw_site(rng, plan)
    return [Leave(moment(rng), site, rng.choice((0, 0, 1)), back_s(rng, plan, site))]


def pause(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a pause, longer or shorter than failure detection."""
    return [Pause(moment(rng), draw_length(rng), draw_site(rng, plan), rng.choice((0, 0, 1, 2)))]


def move(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a change of a member's address; only with multicast."""
    return [Move(moment(rng), draw_site(rng, plan), rng.choice((0, 1, 2)))] if plan.multicast else []


def takeover(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a departure of the coordinator, of any kind; its site is complete again soon."""
    site, at, back = draw_site(rng, plan), moment(rng), rng.uniform(0.0, 3.0)
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
    """Draw kills of the coordinators of a large site, each during its takeover."""
    (site, _), at = draw_shared_site(rng, plan, LARGE), moment(rng)
    times = [at + 0.7 * number for number in range(rng.choice((2, 3)) if site else 0)]
    return [Kill(time, site, 0, rng.randrange(12), rng.uniform(3.0, 8.0)) for time in times]


def several_die(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw kills of several members of a large site at once, perhaps more than half."""
    site, members = draw_shared_site(rng, plan, LARGE)
    if not site:
        return []
    at, back = moment(rng), rng.choice((None, rng.uniform(0.0, 8.0)))
    ranks = rng.sample(range(members), rng.randrange(2, members))
    dying = [Kill(at + rng.uniform(0.0, 0.2), site, rank, rng.randrange(6), back) for rank in ranks]
    return [Flood(at - 0.1, 1.0, site, 24, 0.1), *dying]


def several_leave(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw leaves of several members of a large site, while others return."""
    site, members = draw_shared_site(rng, plan, LARGE)
    if not site:
        return []
    at = moment(rng)
    number = rng.randrange(2, max(4, members // 2))
    return [Leave(at + rng.uniform(0.0, 0.5), site, rng.randrange(members), rng.uniform(0.0, 3.0)) for _ in range(number)]


def site_dies(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw the death of all members of a site."""
    site, at, back = draw_site(rng, plan), moment(rng), rng.uniform(0.0, 2.0)
    return [Kill(at + 0.01 * n, site, 0, 0, back + 0.1 * n) for n in range(dict(plan.sites)[site])]


def burst(rng: random.Random, plan: Plan) -> list[Fault]:
    return [Burst(moment(rng), rng.uniform(0.2, 1.0))]


def split(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a split of a site; either part can be the larger one."""
    site = draw_site(rng, plan)
    hosts = rng.randrange(1, max(2, dict(plan.sites)[site]))
    return [Split(moment(rng), draw_length(rng), site, hosts, rng.random() < 0.25)]


def split_amid_floods(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw two splits of the first site, with floods at the beginning, at the end, and afterwards."""
    site, members = plan.sites[0]
    faults: list[Fault] = []
    for at in (rng.uniform(0.5, 8.0), rng.uniform(14.0, 18.0)):
        length = rng.uniform(3.0, 5.0)
        faults.append(Split(at, length, site, rng.randrange(1, max(members, 2)), False))
        faults += [Flood(start, 1.0, site, 24, 0.4) for start in (at + 0.2, at + length - 0.2, at + length + 1.0)]
    return faults


def resets(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw repeated resets of one unicast connection."""
    site, _ = draw_shared_site(rng, plan)
    if not site:
        return []
    rank, at = rng.choice((0, 1)), moment(rng)
    faults: list[Fault] = []
    for _ in range(rng.choice((2, 4))):
        length = rng.uniform(0.05, 0.6)
        loss, late = rng.choice((0.0, 0.3, 0.5)), rng.choice((0.0, 0.1, 0.5))
        faults.append(Reset(at, length, site, rank, 1 - rank, rng.choice((4, 8)), rng.choice(_CLOSERS), loss, late))
        at += rng.uniform(0.0, 1.0)
    return faults


def cut_stream(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a break of the connections between two sites, or of all."""
    return [CutStream(moment(rng), rng.choice((None, rng.choice(plan.pairs()))))]


def router_dies(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw deaths of the gossip router between two sites."""
    return [RouterDies(moment(rng), draw_length(rng), rng.choice(plan.pairs()))] if plan.by_router else []


def wan_cut(rng: random.Random, plan: Plan) -> list[Fault]:
    return [WanCut(moment(rng), rng.uniform(0.1, 15.0), rng.random() < 0.3, rng.choice(plan.pairs()))]


def peer_removed(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw files without a peer, at one end of a link or both."""
    (one, other), at, apart_s = rng.sample(rng.choice(plan.pairs()), 2), moment(rng), rng.choice((0.0, 0.1, 1.0))
    faults: list[Fault] = [PeerRemoved(at, min(draw_length(rng), LOAD_S - at), one, other, apart_s)]
    if rng.random() < 0.3:
        faults.append(PeerRemoved(at + 0.5, min(draw_length(rng), LOAD_S - at), other, one, apart_s))
    return faults


def wan_cuts_in_turn(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw cuts from a site to two neighbours, the second before the first is healed."""
    turns = [(one, other) for one, other in permutations(plan.pairs(), 2) if {*one} & {*other}]
    if not turns:
        return []
    (one, other), at, length = rng.choice(turns), moment(rng), rng.uniform(1.0, 6.0)
    floods = [Flood(at - 0.05 + later, 0.5, rng.choice(pair), 16, 0.1) for pair, later in ((one, 0.0), (other, length))]
    return [*floods, WanCut(at, length, rng.random() < 0.3, one), WanCut(at + length / 2, length, False, other)]


def shortage(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a cut that is too long for a small budget."""
    if plan.budget == BufferConfig():
        return []
    at, length = rng.uniform(1.0, 10.0), rng.uniform(5.0, 15.0)
    floods = [Flood(at + rng.uniform(0.0, length), 2.0, site, 12, 0.0) for site, _ in plan.sites]
    return [WanCut(at, length, False, rng.choice(plan.pairs())), *floods]


def slow_wan(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a delay of all traffic between sites."""
    return [SlowWan(rng.uniform(0.0, 15.0), rng.uniform(2.0, 14.0), draw_delay(rng), None, 0.0)]


def narrow_wan(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a queue between sites full of bulk; small frames must pass.

    Not with a small bound of waiting bytes for a route: a frame above it could never pass
    (`relay/node/config/settings.py`).
    """
    if plan.connections:
        return []
    at, length, size = rng.uniform(0.0, 15.0), rng.uniform(2.0, 14.0), rng.choice((5_000, 20_000))
    floods = [Flood(at + rng.uniform(0.0, length), 1.0, site, 24, 0.1, size) for site, _ in plan.sites]
    # From less than the load in floods to more than it.
    rate = rng.choice((50_000.0, 125_000.0, 400_000.0))
    return [SlowWan(at, length, draw_delay(rng), rate, rng.choice((0.1, 0.5, 2.0))), *floods]


# -- aimed: each at the one moment that a trap is about -----------------------------------------------------------------


def leave_before_the_view(rng: random.Random, plan: Plan) -> list[Fault]:
    """S3, S16: the next coordinator hears of the view later than the members that forward to it."""
    site, _ = max(plan.sites, key=lambda each: each[1])
    at = LOAD_S - 2.5 - rng.uniform(0.0, 1.3)  # so late that no other view makes them forward once more
    wire = Reset(at - 0.02, 0.4, site, 0, 1, 4, "sender", 0.5, 0.2)
    return [wire, Flood(at - 0.05, 0.15, site, 24, 0.0), Leave(at, site, 0, rng.choice((None, 0.0)))]


def relay_dies_with_what_it_read(rng: random.Random, plan: Plan) -> list[Fault]:
    """R5: a relay dies before it passes on received messages."""
    site, at = draw_site(rng, plan), moment(rng)
    floods = [Flood(at, 0.1, other, 24, 0.0) for other in some_others(rng, plan, site)]
    return [*floods, Kill(at + rng.uniform(0.0, 0.1), site, 0, rng.choice((0, 0, 1, 2)), rng.uniform(0.0, 2.0))]


def relay_dies_in_a_cut(rng: random.Random, plan: Plan) -> list[Fault]:
    """R6: messages of a dead relay arrive while its successor replays."""
    pair, at = rng.choice(plan.pairs()), moment(rng)
    site = rng.choice(pair)
    kill = Kill(at + 0.4, site, 0, rng.randrange(4), rng.uniform(0.0, 2.0))
    return [WanCut(at, rng.uniform(1.0, 2.8), False, pair), Flood(at + 0.05, 0.3, site, 16, 0.0), kill]


def relay_wakes(rng: random.Random, plan: Plan) -> list[Fault]:
    """R9: a relay that has slept long believes that it still is one."""
    site, at, length = draw_site(rng, plan), moment(rng), rng.uniform(1.0, 8.0)
    floods = [Flood(at - 0.05, 0.3, each, 16, 0.1) for each in (site, *some_others(rng, plan, site))]
    return [*floods, Pause(at, length, site, 0), *[Flood(at + length - 0.05, 0.5, f.site, 16, 0.0) for f in floods]]


def address_is_taken(rng: random.Random, plan: Plan) -> list[Fault]:
    """A3: packets to a dead process reach its successor at the address."""
    site, at = draw_site(rng, plan), moment(rng)
    return [Flood(at - 0.1, 0.5, site, 24, 0.8), Replace(at, site, 2), Replace(at + 0.2, site, 0)]


def two_relays_die(rng: random.Random, plan: Plan) -> list[Fault]:
    """Kill the relays at both ends of a connection, with unacknowledged messages in each direction."""
    at, back = moment(rng), rng.uniform(0.0, 2.0)
    one, other = rng.sample(rng.choice(plan.pairs()), 2)
    floods = [Flood(at - 0.05, 0.3, site, 16, 0.1) for site, _ in plan.sites]
    return [*floods, Kill(at, one, 0, 0, back), Kill(at + rng.uniform(0.0, 0.5), other, 0, 0, back)]
