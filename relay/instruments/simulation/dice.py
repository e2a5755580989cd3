"""Dice: what scenarios draw alike, such as a site, a moment and how long something lasts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from relay.instruments.simulation.faults import Fault
from relay.instruments.simulation.plan import LOAD_S, Plan

Scenario = Callable[[random.Random, Plan], list[Fault]]

#: Of a site of so many several can go at once, and there are still several.
LARGE = 5
#: Seconds that everything is later between two sites, at least and at most: another building, and a queue that is far too long.
#: (Twice the most, and what is on top, must stay below `LinkConfig.hello_s`: else no link comes up.)
DELAYS_S = (0.005, 1.4)


def draw_site(rng: random.Random, plan: Plan) -> str:
    """Any site; where there are routes one in between more often, since what goes over a route depends on that."""
    between = plan.between()
    return rng.choice(between) if between and rng.random() < 0.6 else rng.choice(plan.sites)[0]


def draw_delay(rng: random.Random) -> float:
    """As often from 5 to 50 milliseconds as from 140 to 1,400."""
    return math.exp(rng.uniform(*map(math.log, DELAYS_S)))


def draw_large_site(rng: random.Random, plan: Plan) -> str:
    """Empty when there is none."""
    sites = [site for site, members in plan.sites if members >= LARGE]
    return rng.choice(sites) if sites else ""


def some_others(rng: random.Random, plan: Plan, site: str) -> list[str]:
    """One or two."""
    others = [name for name, _ in plan.sites if name != site]
    return rng.sample(others, min(len(others), rng.choice((1, 2))))


def back_s(rng: random.Random, plan: Plan, site: str) -> float | None:
    """When somebody is there again; where nobody else may be, always: in between the ends would never meet again."""
    alone = dict(plan.sites)[site] == 1 or site in plan.between()
    return rng.uniform(0.0, 8.0) if alone or rng.random() < 0.5 else None


def moment(rng: random.Random) -> float:
    return rng.uniform(0.5, LOAD_S - 4.0)


def draw_length(rng: random.Random) -> float:
    return rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 13.0)))
