"""Dice: what scenarios draw alike, such as a site, a moment and how long something lasts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from relay_lab.simulation.faults import Fault
from relay_lab.simulation.plan import LOAD_S, Plan

Scenario = Callable[[random.Random, Plan], list[Fault]]

#: Members of a large site: several can go at once, and several are left.
LARGE = 5
#: The least and the longest delay between sites in seconds: another building, and a queue that is far too long.
#: (Twice the longest, with the latency on top, must stay below `LinkConfig.hello_s`, or no link comes up.)
DELAYS_S = (0.005, 1.4)


def draw_site(rng: random.Random, plan: Plan) -> str:
    """Any site; where there are routes, more often a site in between, which the routes depend on."""
    between = plan.between()
    return rng.choice(between) if between and rng.random() < 0.6 else rng.choice(plan.sites)[0]


def draw_delay(rng: random.Random) -> float:
    """Return a delay in seconds, with a uniform logarithm: as often from 5 to 50 ms as from 140 to 1,400 ms."""
    return math.exp(rng.uniform(*map(math.log, DELAYS_S)))


def draw_shared_site(rng: random.Random, plan: Plan, least: int = 2) -> tuple[str, int]:
    """Return a random site with at least this many members, and their number; an empty name without one."""
    sites = [each for each in plan.sites if each[1] >= least]
    return rng.choice(sites) if sites else ("", 0)


def some_others(rng: random.Random, plan: Plan, site: str) -> list[str]:
    others = [name for name, _ in plan.sites if name != site]
    return rng.sample(others, min(len(others), rng.choice((1, 2))))


def back_s(rng: random.Random, plan: Plan, site: str) -> float | None:
    """After how many seconds a process is started again, None for never.

    The only member of a site always is, and members in between, without which the ends of a route never meet.
    """
    alone = dict(plan.sites)[site] == 1 or site in plan.between()
    return rng.uniform(0.0, 8.0) if alone or rng.random() < 0.5 else None


def moment(rng: random.Random) -> float:
    return rng.uniform(0.5, LOAD_S - 4.0)


def draw_length(rng: random.Random) -> float:
    return rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 13.0)))
