"""Grey scenarios: each draws faults that keep all members alive and most of the network working."""

from __future__ import annotations

import random

from relay.replica.config import BufferConfig
from relay_lab.simulation.dice import back_s, draw_shared_site, draw_site, moment
from relay_lab.simulation.faults import (
    DeadInterface,
    FailingDisk,
    Fault,
    Flood,
    Hole,
    Kill,
    LateLetters,
    Leave,
    NarrowWire,
    Pause,
    SlowApplication,
    SmallOnly,
    Split,
    WanCut,
)
from relay_lab.simulation.plan import LOAD_S, Plan

#: Bytes: just below a full Ethernet frame, and the least supported size.
MTUS = (1_400, 1_200, 548)


def draw_stay(rng: random.Random) -> float:
    """Return how long a grey fault lasts: past failure detection and merges, or past the end of the load."""
    return rng.choice((rng.uniform(5.0, 20.0), rng.uniform(20.0, 80.0)))


def hole(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a lasting hole between two members, one way or both ways."""
    site, members = draw_shared_site(rng, plan)
    if not site:
        return []
    rank, peer = rng.sample(range(members), 2)
    return [Hole(rng.uniform(0.5, 15.0), draw_stay(rng), site, rank, peer, rng.random() < 0.4)]


def holes_that_heal_one_by_one(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a fault or a repair every few seconds in one site: holes, splits, pauses, deaths and leaves."""
    site, members = draw_shared_site(rng, plan, 3)
    faults: list[Fault] = []
    at = rng.uniform(0.5, 3.0)
    while site and at < LOAD_S - 2.0:
        rank, peer = rng.sample(range(members), 2)
        match rng.choice(("hole", "hole", "hole", "one way", "one way", "split", "pause", "kill", "leave")):
            case "hole":
                faults.append(Hole(at, rng.uniform(1.0, 25.0), site, rank, peer, False))
            case "one way":
                faults.append(Hole(at, rng.uniform(1.0, 25.0), site, rank, peer, True))
            case "split":
                faults.append(Split(at, rng.uniform(1.0, 15.0), site, rng.randrange(1, members), False))
            case "pause":
                faults.append(Pause(at, rng.uniform(0.5, 10.0), site, rank))
            case "kill":
                faults.append(Kill(at, site, rank, rng.randrange(6), rng.uniform(0.0, 8.0)))
            case "leave":
                faults.append(Leave(at, site, rank, rng.uniform(0.0, 8.0)))
        at += rng.uniform(0.5, 5.0)
    return faults


def holes_across_a_split(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a split that heals but for lasting holes between some members of its parts."""
    site, members = draw_shared_site(rng, plan, 3)
    if not site:
        return []
    at = rng.uniform(1.0, 15.0)
    pairs = [rng.sample(range(members), 2) for _ in range(rng.choice((1, 2, 4, 6)))]
    holes = [Hole(at - 0.05, rng.uniform(20.0, 80.0), site, rank, peer, rng.random() < 0.4) for rank, peer in pairs]
    return [*holes, Split(at, rng.uniform(5.0, 9.0), site, rng.randrange(1, members), False)]


def dead_interface(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw the failure of one of two networks, for a member or for all; perhaps the other one fails afterwards."""
    site, members = draw_shared_site(rng, plan)
    if not site or plan.interfaces < 2:
        return []
    rank = rng.choice((None, rng.randrange(members)))
    at, length, network = rng.uniform(0.5, 15.0), draw_stay(rng), rng.randrange(2)
    faults: list[Fault] = [DeadInterface(at, length, site, rank, network)]
    if rng.random() < 0.3:
        faults.append(DeadInterface(at + length + rng.uniform(0.1, 10.0), draw_stay(rng), site, rank, 1 - network))
    return faults


def wrong_mtu(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw the loss of large datagrams to a member, from all members or from one."""
    site, members = draw_shared_site(rng, plan)
    if not site:
        return []
    rank, peer = rng.sample(range(members), 2)
    at = rng.uniform(0.5, 15.0)
    flood = Flood(at, 2.0, site, 16, 0.2, 5_000)
    return [flood, SmallOnly(at, draw_stay(rng), site, rank, rng.choice((None, peer)), rng.choice(MTUS))]


def narrow_wire(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a wire of 2 to 20 Mbit/s before a member, with a queue that bulk overflows."""
    site, members = draw_shared_site(rng, plan)
    if not site:
        return []
    at, length = moment(rng), draw_stay(rng)
    rate, queue = rng.choice((250_000.0, 500_000.0, 2_500_000.0)), rng.choice((16_384, 65_536))
    floods = [Flood(at + rng.uniform(0.0, 10.0), 1.0, site, 24, 0.2, 20_000) for _ in range(2)]
    return [NarrowWire(at, length, site, rng.randrange(members), rate, queue), *floods]


def slow_joiner(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a restart of a member behind a wire too narrow for its state, while entries are held for a lost site."""
    site, members = draw_shared_site(rng, plan)
    pairs = [pair for pair in plan.pairs() if site in pair]
    if not pairs or plan.budget != BufferConfig():
        return []
    at, length, rank = rng.uniform(0.5, 5.0), rng.uniform(15.0, 40.0), rng.randrange(members)
    floods = [Flood(at + 0.1, 2.0, site, 24, 0.0, 20_000) for _ in range(2)]
    wire = NarrowWire(at + 2.5, length, site, rank, rng.choice((30_000.0, 100_000.0)), 65_536)
    return [WanCut(at, length, False, rng.choice(pairs)), *floods, wire, Kill(at + 2.5, site, rank, 0, rng.uniform(0.0, 2.0))]


def long_pause(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a pause of up to a minute, mostly of the coordinator, while it has much to send."""
    site, at, length = draw_site(rng, plan), moment(rng), rng.uniform(13.0, 60.0)
    return [Flood(at - 0.3, 0.6, site, 24, 0.1), Pause(at, length, site, rng.choice((0, 0, 0, 1, 2)))]


def slow_application(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw an application that reads little or nothing, for less or more time than its site waits."""
    site, members = draw_shared_site(rng, plan)
    if not site or plan.backlog_bytes_max is None:
        return []
    at, length = rng.uniform(0.5, LOAD_S - 6.0), rng.choice((rng.uniform(0.5, 9.0), rng.uniform(11.0, 30.0)))
    rate = rng.choice((0.0, 0.0, 1_000.0, 20_000.0))
    slow = SlowApplication(at, length, site, rng.randrange(members), rate, rng.uniform(0.0, 6.0))
    return [slow, *[Flood(at + rng.uniform(0.0, 2.0), 1.0, site, 24, 0.1) for _ in range(3)]]


def letters_to_the_gone(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw members that come and go, and unicasts to departed ones."""
    site, at = draw_site(rng, plan), rng.uniform(0.5, 12.0)
    faults: list[Fault] = [Kill(at, site, rng.choice((0, 1)), 0, rng.uniform(0.0, 3.0))]
    faults.append(Leave(at + rng.uniform(4.0, 8.0), site, rng.choice((0, 1)), back_s(rng, plan, site)))
    writers = [name for name, _ in plan.sites]
    return [*faults, *[LateLetters(at + rng.uniform(0.5, 12.0), rng.uniform(0.2, 6.0), name, 12) for name in writers]]


def failing_disk(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a failing disk, mostly of the member that reads from it, while much is written."""
    if plan.budget.spill is None:
        return []
    site, at = draw_site(rng, plan), rng.uniform(1.0, 20.0)
    failing = FailingDisk(at, rng.uniform(1.0, 15.0), site, rng.choice((0, 0, 1, 2)), rng.random() < 0.5)
    return [Flood(at, 1.0, site, 12, 0.0), failing]


def part_of_a_wan_cut(rng: random.Random, plan: Plan) -> list[Fault]:
    """Draw a cut between some members of a site and another site: mostly without the relay, or the relay alone."""
    one, other = rng.sample(rng.choice(plan.pairs()), 2)
    hosts = rng.randrange(1, max(2, dict(plan.sites)[one]))
    return [WanCut(rng.uniform(0.5, 20.0), draw_stay(rng), rng.random() < 0.4, (one, other), hosts)]
