"""Aimed scenarios: faults that seldom meet by chance, each set at the one moment that a trap is about."""

from __future__ import annotations

import random

from relay_lab.simulation.dice import draw_site, moment, some_others
from relay_lab.simulation.faults import (
    Fault,
    Flood,
    Kill,
    Leave,
    Pause,
    Replace,
    Reset,
    WanCut,
)
from relay_lab.simulation.plan import LOAD_S, Plan


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
