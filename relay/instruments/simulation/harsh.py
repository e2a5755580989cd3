"""What makes a seed harsh: bursts of sends around faults, small batches, small budgets, resets, moves, sites that come late.

Three of seven seeds are harsh. What they have in addition is drawn apart from the rest, so that each seed's plain part, and
every seed that is not harsh, is what it was before there were harsh ones.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

from relay.instruments.simulation.faults import Burst, Fault, Flood, Kill, Leave, Move, Pause, Replace, Reset, Split, WanCut
from relay.instruments.simulation.plan import TROUBLE_S, Plan, draw_plain
from relay.replica.buffer import BufferConfig

#: Remainders by seven of the seeds that are harsh. (Those with 3 run with `agreement: uniform`.)
HARSH = (0, 1, 3)

_CLOSERS: tuple[Literal["sender", "receiver", "both"], ...] = ("sender", "receiver", "both")


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    plan = draw_plain(seed)
    return harden(plan) if seed % 7 in HARSH else plan


def harden(plan: Plan) -> Plan:
    """The same plan with more of what finds bugs."""
    rng = random.Random(f"harsh {plan.seed}")
    faults = list(plan.faults)
    if rng.random() < 0.6:
        faults += _takeovers(rng, plan)
    if rng.random() < 0.3:
        faults += _moves(rng, plan)
    if rng.random() < 0.4:
        faults += _resets(rng, plan)
    faults += [flood for fault in faults if rng.random() < 0.7 for flood in _floods(rng, plan, fault)]
    plan = replace(plan, messages=min(plan.messages, 150), batch_count_max=1 if rng.random() < 0.6 else None)
    kind = rng.random()
    if kind < 0.25:
        plan, more = _tiny_budget(rng, plan)
        faults += more
    elif kind < 0.4:
        plan = replace(plan, late=(plan.sites[-1][0], rng.uniform(2.0, 10.0)))
    if rng.random() < 0.7:
        faults += _aimed(rng, plan)
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _takeovers(rng: random.Random, plan: Plan) -> list[Fault]:
    """The coordinator goes, in every way there is, and its site is full again soon."""
    faults: list[Fault] = []
    for _ in range(rng.choice((1, 1, 2))):
        site, at = rng.choice(plan.sites)[0], _moment(rng)
        back = rng.uniform(0.0, 3.0)
        match rng.randrange(4):
            case 0:
                faults.append(Kill(at, site, 0, rng.randrange(12), back))
            case 1:
                faults.append(Leave(at, site, 0, back))
            case 2:
                faults.append(Replace(at, site, rng.choice((0, 0, 1, 2))))
            case _:
                faults.append(Kill(at, site, 0, rng.randrange(12), back))
                faults.append(Kill(at + rng.uniform(0.3, 1.5), site, 0, rng.randrange(12), back))
    return faults


def _moves(rng: random.Random, plan: Plan) -> list[Fault]:
    """Where members find each other by multicast: those that are named by address have to stay where they are."""
    if not plan.multicast:
        return []
    return [Move(_moment(rng), rng.choice(plan.sites)[0], rng.choice((0, 1, 2))) for _ in range(rng.choice((1, 2)))]


def _resets(rng: random.Random, plan: Plan) -> list[Fault]:
    """Several in a row between the same two."""
    wide = [site for site, members in plan.sites if members > 1]
    if not wide:
        return []
    site, rank, at = rng.choice(wide), rng.choice((0, 1)), _moment(rng)
    faults: list[Fault] = []
    for _ in range(rng.choice((2, 4))):
        length = rng.uniform(0.05, 0.6)
        loss, late = rng.choice((0.0, 0.3, 0.5)), rng.choice((0.0, 0.1, 0.5))
        faults.append(Reset(at, length, site, rank, 1 - rank, rng.choice((4, 8)), rng.choice(_CLOSERS), loss, late))
        at += rng.uniform(0.0, 1.0)
    return faults


def _floods(rng: random.Random, plan: Plan, fault: Fault) -> list[Fault]:
    """Sends before, during and after a fault inside a site, or one that disturbs a takeover between two."""
    if isinstance(fault, Kill | Replace | Leave | Move | Split | Pause):
        site = fault.site
    elif isinstance(fault, Burst | WanCut):
        site = rng.choice(plan.sites)[0]
    else:
        return []
    length = rng.choice((0.1, 1.0, 3.0))
    at = max(0.0, fault.at - rng.choice((0.01, 0.05, 0.3)))
    return [Flood(at, length, site, rng.choice((8, 16, 24)), rng.choice((0.0, 0.0, 0.3)))]


def _aimed(rng: random.Random, plan: Plan) -> list[Fault]:
    """Faults that seldom meet by chance, each set at the one moment that a trap is about."""
    (site, _), (other, _) = rng.sample(plan.sites, 2)
    at, back = _moment(rng), rng.uniform(0.0, 2.0)
    match rng.randrange(5):
        case 0:  # S3, S16: the next coordinator hears of the view later than the members that forward to it
            site, _ = max(plan.sites, key=lambda each: each[1])
            at = TROUBLE_S - 2.5 - at / 20  # so late that no other view makes them forward once more
            wire = Reset(at - 0.02, 0.4, site, 0, 1, 4, "sender", 0.5, 0.2)
            return [wire, Flood(at - 0.05, 0.15, site, 24, 0.0), Leave(at, site, 0)]
        case 1:  # R5: a relay dies between reading what another site sent and passing it on
            kill = Kill(at + rng.uniform(0.03, 0.1), site, 0, rng.choice((0, 0, 1, 2)), back)
            return [Flood(at, 0.1, other, 24, 0.0), kill]
        case 2:  # R6: what a dead relay had sent arrives when its successor replays
            kill = Kill(at + 0.4, site, 0, rng.randrange(4), back)
            return [WanCut(at, rng.uniform(1.0, 2.8), False), Flood(at + 0.05, 0.3, site, 16, 0.0), kill]
        case 3:  # R9: a relay that has slept long wakes and believes that it still is one
            pause = Pause(at, rng.uniform(2.0, 8.0), site, 0)
            return [Flood(at - 0.05, 0.3, site, 16, 0.0), pause, Flood(at + pause.length, 1.0, site, 16, 0.0)]
        case _:  # A3: what is under way to the dead reaches its successor at the address
            replaces = [Replace(at, site, 2), Replace(at + 0.2, site, 0)]
            return [Flood(at - 0.1, 0.5, site, 24, 0.8), *replaces]


def _tiny_budget(rng: random.Random, plan: Plan) -> tuple[Plan, list[Fault]]:
    """So little that a cut costs something; and the cut, or a site that comes when much is gone already."""
    budgets = (
        BufferConfig(budget_entries=rng.choice((8, 32))),
        BufferConfig(budget_bytes=rng.choice((4_000, 20_000))),
        BufferConfig(budget_age_s=rng.choice((1.0, 4.0))),
    )
    plan = replace(plan, budget=rng.choice(budgets))
    at, length = rng.uniform(1.0, 10.0), rng.uniform(5.0, 15.0)
    floods = [Flood(at + rng.uniform(0.0, length), 2.0, site, 12, 0.0) for site, _ in plan.sites]
    if rng.random() < 0.4:
        return replace(plan, late=(plan.sites[-1][0], at + length)), [*floods]
    return plan, [WanCut(at, length, False), *floods]


def _moment(rng: random.Random) -> float:
    return rng.uniform(0.5, TROUBLE_S - 4.0)
