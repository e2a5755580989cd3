"""The generator: draws the plan of a seed.

Its row of the covering array (`dimensions.py`) names the values of its features and its faults; dice draw all else.
Every value and every scenario has separate dice, so that a new one leaves the others unchanged. The plan of a seed
may change between versions; valuable plans are stored (`plan_json.py`).

To add a kind of fault: a function in `scenarios.py`, and its row in `dimensions.py`; a dataclass in `faults.py`, an arm
in `nemesis.py` that carries it out and counts it, and that count in `coverage.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from relay.gateway.config import LinkConfig
from relay.gateway.wire import DATA_OVERHEAD_BYTES
from relay_lab.simulation import scenarios
from relay_lab.simulation.dice import draw_delay, draw_site
from relay_lab.simulation.dimensions import SPACES, Kind, Members, Topology, Upto, row_of
from relay_lab.simulation.faults import Fault, Flood, GreyFault, Kill, LateLetters, Pause, Reset, SlowWan, WanCut, sites_of
from relay_lab.simulation.load import FLOOD_BYTES_MAX
from relay_lab.simulation.plan import LOAD_S, Plan
from sitestack.stack.turn import STEPS, Step

T = TypeVar("T")
#: Seconds after the load in which lasting faults continue: long enough for the longest retry interval.
LASTING_S_MIN, LASTING_S_MAX = 10.0, 50.0
#: Of the plans with a lasting fault, the share that continues after the load while it lasts.
LASTING = 0.5
#: The step of a turn before which a process is killed; None: between two datagrams. A death before
#: the first step is one before the turn.
KILL_BEFORE: dict[Step | None, float] = {None: 12, **dict.fromkeys(STEPS[1:], 1)}


def draw(seed: int, kind: Kind = "swarm") -> Plan:
    return _Draw(seed, kind).plan()


def names_met(seed: int, kind: Kind = "swarm") -> list[str]:
    """Return the values of a seed's plan, and those of its row's faults that it has."""
    drawn = _Draw(seed, kind)
    drawn.plan()
    return drawn.met


class _Draw:
    def __init__(self, seed: int, kind: Kind) -> None:
        self._seed = seed
        self._kind = kind
        self._space = SPACES[kind]
        self._row = set(row_of(seed, kind))
        #: The values, and the faults that came about.
        self.met: list[str] = []

    def plan(self) -> Plan:
        drawn = self._fields()
        members = self._dice("members")
        topology: Topology = drawn.pop("topology")
        numbers: Members = drawn.pop("members")
        sizes = [members.choice(numbers.others if at else numbers.first) for at, _ in enumerate(topology.sites)]
        spill, flooded = drawn.pop("spill", None), drawn.pop("flooded", 0.0)
        links = {name: drawn.pop(name, None) for name in ("is_far", "is_narrow", "compress", "rate_max_bytes_s")}
        is_late = drawn.pop("is_late", False)
        plan = Plan(
            seed=self._seed,
            sites=tuple(zip(topology.sites, sizes, strict=True)),
            connections=topology.connections,
            faults=(),
            **drawn,
        )
        plan = self._with_links(self._with_window(replace(plan, budget=replace(plan.budget, spill=spill))), **links)
        if is_late:
            plan = replace(plan, late=(plan.sites[-1][0], round(self._dice("late").uniform(2.0, 12.0), 4)))
        faults = sorted([_tidy(self._with_step(fault)) for fault in self._faults(plan, flooded)], key=lambda fault: fault.at)
        return self._with_lasting(replace(plan, faults=tuple([fault for fault in faults if fault.at < LOAD_S])))

    def _fields(self) -> dict[str, Any]:
        """Return fields of the plan, and others, drawn from the values of the row."""
        drawn: dict[str, Any] = {}
        for feature, values in self._space.features.items():
            (name,) = [name for name in values if f"{feature}={name}" in self._row]
            self.met.append(f"{feature}={name}")
            for field, value in values[name].items():
                rng = self._dice(field)
                if isinstance(value, Upto):
                    value = round(rng.uniform(0.01, 1.0) * value.most, 4)
                drawn[field] = rng.choice(value) if isinstance(value, list) else value
        return drawn

    def _with_links(
        self, plan: Plan, is_far: bool | None, is_narrow: bool | None, compress: Any, rate_max_bytes_s: int | None
    ) -> Plan:
        """Routes work if a window and a frame at least may wait for a link (`relay/node/config/settings.py`)."""
        rng = self._dice("links")
        if is_far:  # and no link comes up over a route of which all lines are as late as can be
            delay_s = draw_delay(rng) / max(1, len(plan.connections))
            if plan.offline_after_s is not None:  # or no link comes up
                delay_s = min(delay_s, 0.2)
            # A call by way of a router takes ten delays of a half of the route, at most 3 s (`BridgeConfig`).
            plan = replace(plan, wan_delay_s=round(min(delay_s / 2, 0.2) if plan.by_router else delay_s, 4))
        plan = replace(plan, link=LinkConfig(compress=compress, rate_max_bytes_s=rate_max_bytes_s))
        if not is_narrow:
            return plan
        window = rng.choice((10_000, 100_000))
        if plan.size_max >= window:  # a route passes a window in a round trip
            plan = replace(plan, size_max=window // 5)
        frame = max(plan.size_max, FLOOD_BYTES_MAX) + DATA_OVERHEAD_BYTES
        chunk_bytes, routed_bytes_max = rng.choice((1_000, 4_000)), window + frame * rng.choice((1, 1, 4))
        link = replace(plan.link, chunk_bytes=chunk_bytes, window_bytes=window, routed_bytes_max=routed_bytes_max)
        rate = rng.choice((None, 100_000.0, 400_000.0))
        slow = plan.connections if rng.random() < 0.5 else rng.sample(plan.connections, 1)
        lines = () if rate is None else tuple([(one, other, rate) for one, other in slow])
        return replace(plan, link=link, lines=lines)

    def _with_window(self, plan: Plan) -> Plan:
        """Give the plan a window of few frames, and four members at least."""
        if plan.window_bytes is None:
            return plan
        (first, members), *others = plan.sites
        return replace(
            plan,
            sites=((first, max(members, 4)), *others),
            unicast_share=max(plan.unicast_share, 0.3),
            size_max=max(plan.size_max, 200, plan.window_bytes // 2),
        )

    def _with_lasting(self, plan: Plan) -> Plan:
        """Let lasting faults continue after the load, in some plans."""
        ends = [fault.at + fault.length for fault in plan.faults if isinstance(fault, GreyFault | Pause | WanCut)]
        if max(ends, default=0.0) < LOAD_S + LASTING_S_MIN or self._dice("lasting").random() >= LASTING:
            return plan
        return replace(plan, lasting_s=round(min(max(ends) - LOAD_S, LASTING_S_MAX), 4))

    def _with_step(self, fault: Fault) -> Fault:
        """Draw the step of the turn before which a kill happens."""
        if not isinstance(fault, Kill):
            return fault
        return replace(fault, before=_pick(self._dice(f"step of the kill at {fault.at}"), KILL_BEFORE))

    def _faults(self, plan: Plan, flooded: float) -> list[Fault]:
        faults: list[Fault] = [] if plan.window_bytes is None else scenarios.split_amid_floods(self._dice("narrow"), plan)
        for scenario, _, times in self._space.faults:
            rng = self._dice(scenario.__name__)
            if scenario.__name__ in self._row:
                drawn = [fault for _ in range(rng.choice(times)) for fault in scenario(rng, plan)]
                faults += drawn
                self.met += [scenario.__name__] if drawn else []
        rng = self._dice("floods")
        return faults + [_flood(rng, plan, fault) for fault in faults if _is_floodable(fault) and rng.random() < flooded]

    def _dice(self, aspect: str) -> random.Random:
        return random.Random(f"{self._kind} {self._seed} {aspect}")


def _pick(rng: random.Random, weights: Mapping[T, float]) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]


def _is_floodable(fault: Fault) -> bool:
    return not isinstance(fault, Flood | Reset | SlowWan | LateLetters)


def _flood(rng: random.Random, plan: Plan, fault: Fault) -> Flood:
    """Draw a flood of messages before, during and after a fault."""
    site = rng.choice(sites_of(fault) or (draw_site(rng, plan),))
    at = fault.at - rng.choice((0.01, 0.05, 0.3))
    return Flood(at, rng.choice((0.1, 1.0, 3.0)), site, rng.choice((8, 16, 24)), rng.choice((0.0, 0.0, 0.3)))


def _tidy(fault: Fault) -> Fault:
    numbers = {each.name: getattr(fault, each.name) for each in fields(fault)}
    numbers = {name: round(max(0.0, value), 4) for name, value in numbers.items() if isinstance(value, float)}
    return replace(fault, **numbers)
