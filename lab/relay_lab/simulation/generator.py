"""The generator: draws the plan of a seed, by weight.

Swarm style: each seed turns some kinds of fault on and others off, at different rates, so that a run is not the
average of
everything. The weights are in `weights.py`. Every aspect and every scenario has separate dice, so that a new one
leaves the
others unchanged. The plan of a seed may change between versions; valuable plans are stored (`plan_json.py`).

To add a kind of fault: a function in `scenarios.py` that draws it, and its row in `weights.py`. A new fault also
needs a
dataclass in `faults.py`, an arm in `nemesis.py` that carries it out and counts it, and that count in
`coverage.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

from relay.gateway.config import LinkConfig
from relay.gateway.wire import DATA_OVERHEAD_BYTES
from relay.replica.config import BufferConfig
from relay_lab.simulation import scenarios
from relay_lab.simulation.dice import draw_delay, draw_site
from relay_lab.simulation.faults import Fault, Flood, Kill, Pause, Reset, SlowWan, WanCut, sites_of
from relay_lab.simulation.grey_faults import GreyFault, LateLetters
from relay_lab.simulation.plan import LOAD_S, Plan
from relay_lab.simulation.weights import KINDS, SMALL_BUDGETS, Kind, Rate

T = TypeVar("T")
#: Seconds after the load in which lasting faults continue: long enough for the longest retry interval.
LASTING_S_MIN, LASTING_S_MAX = 10.0, 50.0


def draw(seed: int, kind: Kind = "swarm") -> Plan:
    return _Draw(seed, kind).plan()


class _Draw:
    def __init__(self, seed: int, kind: Kind) -> None:
        self._seed = seed
        self._kind = kind
        self._weights = KINDS[kind]

    def plan(self) -> Plan:
        weights = self._weights
        topology = self._pick("topology", weights.topology)
        members = self._dice("members")
        sizes = topology.sizes or [_pick(members, weights.members) for _ in topology.sites]
        plan = Plan(
            seed=self._seed,
            sites=tuple(zip(topology.sites, sizes, strict=True)),
            connections=topology.connections,
            order=self._pick("order", weights.order),
            agreement=self._pick("agreement", weights.agreement),
            multicast=self._pick("multicast", weights.multicast),
            loss=self._rate("loss", weights.loss),
            duplication=self._rate("duplication", weights.duplication),
            duplication_late_s=self._pick("duplication late", weights.duplication_late_s),
            reordering=self._rate("reordering", weights.reordering),
            reordering_late_s=self._pick("reordering late", weights.reordering_late_s),
            corruption=self._rate("corruption", weights.corruption),
            messages=self._pick("messages", weights.messages),
            size_max=self._pick("size", weights.size_max),
            unicast_share=self._rate("unicasts", weights.unicast_share),
            site_share=self._rate("to the site", weights.site_share),
            batch_count_max=self._pick("batch", weights.batch_count_max),
            batch_bytes_max=self._pick("batch bytes", weights.batch_bytes_max),
            latency_target_s=self._pick("latency target", weights.latency_target_s),
            budget=self._pick("budget", weights.budget),
            faults=(),
            backlog_bytes_max=self._pick("backlog", weights.backlog_bytes_max),
            uneven=self._dice("uneven").random() < weights.uneven,
            short_ids=self._pick("short ids", weights.short_ids),
            when_split=self._pick("when split", weights.when_split),
        )
        if plan.when_split == "majority" and self._dice("locks").random() < self._weights.locks:
            plan = replace(plan, order="total", agreement="uniform")
        plan = self._with_spill(self._with_late_site(self._with_links(self._with_window(plan))))
        faults = sorted([_tidy(self._with_step(fault)) for fault in self._faults(plan)], key=lambda fault: fault.at)
        return self._with_lasting(replace(plan, faults=tuple([fault for fault in faults if fault.at < LOAD_S])))

    def _with_links(self, plan: Plan) -> Plan:
        """Routes work if a window and a frame at least may wait for a link (`relay/node/config/settings.py`)."""
        rng = self._dice("links")
        if rng.random() < self._weights.delayed:  # and no link comes up over a route of which all lines are as late as can be
            plan = replace(plan, wan_delay_s=round(draw_delay(rng) / max(1, len(plan.connections)), 4))
        compress = self._pick("compression", self._weights.compress)
        rate_max = self._pick("rate of links", self._weights.rate_max_bytes_s)
        plan = replace(plan, link=LinkConfig(compress=compress, rate_max_bytes_s=rate_max))
        if not plan.connections or rng.random() >= self._weights.narrow:
            return plan
        window, frame = rng.choice((10_000, 100_000)), plan.size_max + DATA_OVERHEAD_BYTES
        chunk_bytes, routed_bytes_max = rng.choice((1_000, 4_000)), window + frame * rng.choice((1, 1, 4))
        link = replace(plan.link, chunk_bytes=chunk_bytes, window_bytes=window, routed_bytes_max=routed_bytes_max)
        rate = rng.choice((None, 100_000.0, 400_000.0))
        slow = plan.connections if rng.random() < 0.5 else rng.sample(plan.connections, 1)
        lines = () if rate is None else tuple([(one, other, rate) for one, other in slow])
        return replace(plan, batch_count_max=1, link=link, lines=lines)

    def _with_late_site(self, plan: Plan) -> Plan:
        rng = self._dice("late")
        if rng.random() >= self._weights.late:
            return plan
        return replace(plan, late=(plan.sites[-1][0], round(rng.uniform(2.0, 12.0), 4)))

    def _with_spill(self, plan: Plan) -> Plan:
        """A spill, which has only something to do beside a small budget."""
        spill = self._pick("spill", self._weights.spill)
        if spill is None:
            return plan
        budget = self._dice("spilled").choice(SMALL_BUDGETS) if plan.budget == BufferConfig() else plan.budget
        return replace(plan, budget=replace(budget, spill=spill))

    def _with_window(self, plan: Plan) -> Plan:
        """A small window: then a site has four members at least, and a few of its frames, unicasts too, fill the window."""
        window_bytes = self._pick("window", self._weights.window_bytes)
        if window_bytes is None:
            return plan
        (first, members), *others = plan.sites
        return replace(
            plan,
            sites=((first, max(members, 4)), *others),
            window_bytes=window_bytes,
            unicast_share=max(plan.unicast_share, 0.3),
            size_max=max(200, window_bytes // 2),
        )

    def _with_lasting(self, plan: Plan) -> Plan:
        """Let lasting faults continue after the load, in some plans."""
        ends = [fault.at + fault.length for fault in plan.faults if isinstance(fault, GreyFault | Pause | WanCut)]
        if max(ends, default=0.0) < LOAD_S + LASTING_S_MIN or self._dice("lasting").random() >= self._weights.lasting:
            return plan
        return replace(plan, lasting_s=round(min(max(ends) - LOAD_S, LASTING_S_MAX), 4))

    def _with_step(self, fault: Fault) -> Fault:
        """A kill gets the step of the turn before which it happens."""
        if not isinstance(fault, Kill):
            return fault
        return replace(fault, before=self._pick(f"step of the kill at {fault.at}", self._weights.kill_before))

    def _faults(self, plan: Plan) -> list[Fault]:
        faults: list[Fault] = [] if plan.window_bytes is None else scenarios.split_amid_floods(self._dice("narrow"), plan)
        for scenario, share, times in self._weights.faults:
            rng = self._dice(scenario.__name__)
            if rng.random() < share:
                faults += [fault for _ in range(rng.choice(times)) for fault in scenario(rng, plan)]
        rng, flooded = self._dice("floods"), self._pick("flooded", self._weights.flooded)
        return faults + [_flood(rng, plan, fault) for fault in faults if _is_floodable(fault) and rng.random() < flooded]

    def _dice(self, aspect: str) -> random.Random:
        return random.Random(f"{self._kind} {self._seed} {aspect}")

    def _pick(self, aspect: str, weights: Mapping[T, float]) -> T:
        return _pick(self._dice(aspect), weights)

    def _rate(self, aspect: str, rate: Rate) -> float:
        rng = self._dice(aspect)
        return round(rng.random() * rate.most, 4) if rng.random() < rate.share else 0.0


def _pick(rng: random.Random, weights: Mapping[T, float]) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]


def _is_floodable(fault: Fault) -> bool:
    return not isinstance(fault, Flood | Reset | SlowWan | LateLetters)


def _flood(rng: random.Random, plan: Plan, fault: Fault) -> Flood:
    """A flood of messages before, during and after a fault: in a site that the fault names, or in any."""
    site = rng.choice(sites_of(fault) or (draw_site(rng, plan),))
    at = fault.at - rng.choice((0.01, 0.05, 0.3))
    return Flood(at, rng.choice((0.1, 1.0, 3.0)), site, rng.choice((8, 16, 24)), rng.choice((0.0, 0.0, 0.3)))


def _tidy(fault: Fault) -> Fault:
    numbers = {each.name: getattr(fault, each.name) for each in fields(fault)}
    numbers = {name: round(max(0.0, value), 4) for name, value in numbers.items() if isinstance(value, float)}
    return replace(fault, **numbers)
