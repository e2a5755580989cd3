"""The generator: what a seed stands for, drawn by weight.

Swarm style: each seed turns some kinds of fault on and others off, at rates of its own, so that a run is not the average of
everything. The weights stand in the tables below, in the order in which a plan is drawn: sites, protocol, wire, load, budgets,
faults. Every aspect and every scenario has dice of its own, so that a new one leaves the others as they were; but what a seed
stands for is no promise. A plan that is worth keeping is stored (`plan_json.py`).

To add a kind of fault: a function in `scenarios.py` that draws it, and its row in `FAULTS`. (One that is new in itself has a
dataclass in `faults.py` too, an arm in `nemesis.py` that carries it out and counts it, and that count in `coverage.py`.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

from relay.gateway.session import LinkConfig
from relay.gateway.wire import DATA_OVERHEAD_BYTES
from relay.instruments.simulation import scenarios
from relay.instruments.simulation.faults import Fault, Flood, Kill, Reset, SlowWan, sites_of
from relay.instruments.simulation.plan import LOAD_S, Plan
from relay.replica.buffer import BufferConfig
from sitestack.config import Agreement, Order
from sitestack.stack.turn import STEPS, Step

T = TypeVar("T")

#: A few members in each of several sites with everything turned on and off; a hundred in one; sites in a line or a star.
Kind = Literal["swarm", "large", "routed"]


class Topology(NamedTuple):
    """Sites, and which of them are connected. Every first few of a tree are a tree too, so that a plan can be shrunk."""

    sites: tuple[str, ...]
    #: Empty: each with each.
    connections: tuple[tuple[str, str], ...] = ()
    #: How many members each site has. Empty: that is drawn.
    sizes: tuple[int, ...] = ()


class Rate(NamedTuple):
    """Nothing in most plans; in this share of them anything up to the most."""

    share: float
    most: float


class Row(NamedTuple):
    """A kind of fault: what draws it, in which share of the plans it happens, and how often then."""

    scenario: scenarios.Scenario
    share: float
    times: tuple[int, ...] = (1,)


FAULTS = (
    Row(scenarios.kill, 0.8, (1, 1, 2, 3)),
    Row(scenarios.leave, 0.4),
    Row(scenarios.pause, 0.35),
    Row(scenarios.move, 0.15, (1, 2)),
    Row(scenarios.takeover, 0.3, (1, 1, 2)),
    Row(scenarios.line_dies, 0.3),
    Row(scenarios.several_die, 0.3),
    Row(scenarios.several_leave, 0.3),
    Row(scenarios.site_dies, 0.05),
    Row(scenarios.burst, 0.3),
    Row(scenarios.split, 0.45, (1, 1, 2)),
    Row(scenarios.resets, 0.2),
    Row(scenarios.cut_stream, 0.5, (1, 3, 4)),
    Row(scenarios.wan_cut, 0.35),
    Row(scenarios.wan_cuts_in_turn, 0.15),
    Row(scenarios.shortage, 0.6),
    Row(scenarios.slow_wan, 0.04),
    Row(scenarios.narrow_wan, 0.04),
    Row(scenarios.leave_before_the_view, 0.08),
    Row(scenarios.relay_dies_with_what_it_read, 0.1),
    Row(scenarios.relay_dies_in_a_cut, 0.08),
    Row(scenarios.relay_wakes, 0.1),
    Row(scenarios.address_is_taken, 0.08),
    Row(scenarios.two_relays_die, 0.08),
)

#: What only shows when there are many members, and little else: each member costs.
FAULTS_AMONG_MANY = (
    Row(scenarios.pause, 1.0),
    Row(scenarios.line_dies, 1.0),
    Row(scenarios.several_die, 0.4),
    Row(scenarios.several_leave, 0.3),
    Row(scenarios.split, 0.4),
)


def _line(*sites: str) -> Topology:
    return Topology(sites, tuple(pairwise(sites)))


TWO, THREE, FOUR = [Topology(("NYC", "SFO", "LON", "TYO")[:number]) for number in (2, 3, 4)]
LINE_OF_3, LINE_OF_4 = _line("NYC", "SFO", "LON"), _line("NYC", "SFO", "LON", "TYO")
STAR = Topology(("SFO", "NYC", "LON", "TYO"), (("SFO", "NYC"), ("SFO", "LON"), ("SFO", "TYO")))

#: So little that a cut costs something.
SMALL_BUDGETS = (
    *[BufferConfig(budget_entries=entries) for entries in (8, 32)],
    *[BufferConfig(budget_bytes=size) for size in (4_000, 20_000)],
    *[BufferConfig(budget_age_s=seconds) for seconds in (1.0, 4.0)],
)


class Weights(NamedTuple):
    """What the plans of a kind are made of: the values of each aspect with their weights, or how many plans have it."""

    topology: Mapping[Topology, float] = {TWO: 80, THREE: 9, FOUR: 6, LINE_OF_3: 3, LINE_OF_4: 1, STAR: 1}
    members: Mapping[int, float] = {1: 12, 2: 18, 3: 30, 4: 9, 5: 1, 6: 1, 7: 1}
    order: Mapping[Order, float] = {"total": 4, "fifo": 1}
    agreement: Mapping[Agreement, float] = {"survivors": 6, "uniform": 1}
    multicast: Mapping[bool, float] = {True: 7, False: 3}
    loss: Rate = Rate(0.6, 0.2)
    duplication: Rate = Rate(0.4, 0.5)
    duplication_late_s: Mapping[float, float] = {0.01: 1, 0.5: 1, 10.0: 1}
    reordering: Rate = Rate(0.5, 0.3)
    reordering_late_s: Mapping[float, float] = {0.005: 1, 0.05: 1, 0.3: 1}
    corruption: Rate = Rate(0.35, 0.05)
    #: Everything between sites is late, from the beginning to the end.
    delayed: float = 0.04
    #: Of the plans with routes: little may wait for a link, and perhaps little passes a second.
    narrow: float = 0.5
    messages: Mapping[int, float] = {50: 2, 150: 3, 300: 1}
    size_max: Mapping[int, float] = {20: 1, 200: 2, 5_000: 1}
    unicast_share: Rate = Rate(0.5, 0.3)
    site_share: Rate = Rate(0.5, 0.3)
    batch_count_max: Mapping[int | None, float] = {None: 3, 1: 2}
    #: Of flow control: from one frame at a time to some dozens of the smaller ones. No run sends enough to fill a usual one.
    #: Who has little falls apart amid floods, since that is when credit can get lost (B1).
    window_bytes: Mapping[int | None, float] = {None: 27, 1: 1, 2_000: 1, 20_000: 1}
    budget: Mapping[BufferConfig, float] = {BufferConfig(): 24, **dict.fromkeys(SMALL_BUDGETS, 1)}
    #: The last site starts when the load has begun.
    late: float = 0.15
    faults: tuple[Row, ...] = FAULTS
    #: Before which step of its turn a process is killed; None: between two datagrams. Before the first step it might as well
    #: have died before its turn.
    kill_before: Mapping[Step | None, float] = {None: 12, **dict.fromkeys(STEPS[1:], 1)}
    #: Of the faults of a plan, how many come amid a flood of sends.
    flooded: Mapping[float, float] = {0.0: 1, 0.7: 1}


KINDS: dict[Kind, Weights] = {
    "swarm": Weights(),
    "routed": Weights(
        topology={LINE_OF_3: 5, LINE_OF_4: 2, STAR: 2},
        members={1: 1, 2: 2, 3: 1},
        loss=Rate(0.4, 0.1),
        corruption=Rate(0.1, 0.05),
        unicast_share=Rate(0.7, 0.3),
        flooded={0.0: 1, 0.7: 3},
    ),
    "large": Weights(
        topology={Topology(TWO.sites, sizes=(100, 2)): 1},
        multicast={True: 1},
        window_bytes={None: 1},
        loss=Rate(0.5, 0.01),
        duplication=Rate(0.0, 0.0),
        reordering=Rate(0.5, 0.1),
        corruption=Rate(0.0, 0.0),
        messages={50: 1},
        size_max={200: 1},
        faults=FAULTS_AMONG_MANY,
    ),
}


def draw(seed: int, kind: Kind = "swarm") -> Plan:
    """The plan of a seed."""
    return _Draw(seed, kind).plan()


class _Draw:
    """One plan being drawn."""

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
            budget=self._pick("budget", weights.budget),
            faults=(),
        )
        plan = self._with_late_site(self._with_links(self._with_window(plan)))
        faults = sorted([_tidy(self._with_step(fault)) for fault in self._faults(plan)], key=lambda fault: fault.at)
        return replace(plan, faults=tuple([fault for fault in faults if fault.at < LOAD_S]))

    def _with_links(self, plan: Plan) -> Plan:
        """A window and a frame are the least that may wait for a link with which routes work (`relay/node/settings.py`)."""
        rng = self._dice("links")
        if rng.random() < self._weights.delayed:  # and no link comes up over a route of which all lines are as late as can be
            plan = replace(plan, wan_delay_s=round(scenarios.draw_delay(rng) / max(1, len(plan.connections)), 4))
        if not plan.connections or rng.random() >= self._weights.narrow:
            return plan
        window, frame = rng.choice((10_000, 100_000)), plan.size_max + DATA_OVERHEAD_BYTES
        link = LinkConfig(
            chunk_bytes=rng.choice((1_000, 4_000)), window_bytes=window, routed_bytes_max=window + frame * rng.choice((1, 1, 4))
        )
        rate = rng.choice((None, 100_000.0, 400_000.0))
        slow = plan.connections if rng.random() < 0.5 else rng.sample(plan.connections, 1)
        lines = () if rate is None else tuple([(one, other, rate) for one, other in slow])
        return replace(plan, batch_count_max=1, link=link, lines=lines)

    def _with_late_site(self, plan: Plan) -> Plan:
        rng = self._dice("late")
        if rng.random() >= self._weights.late:
            return plan
        return replace(plan, late=(plan.sites[-1][0], round(rng.uniform(2.0, 12.0), 4)))

    def _with_window(self, plan: Plan) -> Plan:
        """A site of four at least sends unicasts too, in frames of which a few fill the window."""
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
    return not isinstance(fault, Flood | Reset | SlowWan)


def _flood(rng: random.Random, plan: Plan, fault: Fault) -> Flood:
    """Sends before, during and after a fault: in a site that it names, or in any."""
    site = rng.choice(sites_of(fault) or (scenarios.draw_site(rng, plan),))
    at = fault.at - rng.choice((0.01, 0.05, 0.3))
    return Flood(at, rng.choice((0.1, 1.0, 3.0)), site, rng.choice((8, 16, 24)), rng.choice((0.0, 0.0, 0.3)))


def _tidy(fault: Fault) -> Fault:
    """With no more digits than anybody wants to read, and not before the load begins."""
    numbers = {each.name: getattr(fault, each.name) for each in fields(fault)}
    numbers = {name: round(max(0.0, value), 4) for name, value in numbers.items() if isinstance(value, float)}
    return replace(fault, **numbers)
