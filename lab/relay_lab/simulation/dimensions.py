"""The dimensions of the generator: the values of each feature of a plan, and the kinds of faults.

Every pair of values meets in some plan of each `ROWS` seeds (`covering.py`), except for pairs in `NEVER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Any, Literal, NamedTuple

from relay.replica.config import BufferConfig, SpillSettings
from relay_lab.simulation import grey, scenarios
from relay_lab.simulation.covering import Covering, Pair
from relay_lab.simulation.dice import Scenario

#: swarm: a few members in each of several sites, with everything turned on and off. large: a hundred members in one site.
#: routed: sites in a line or a star. map: as swarm, each with the map. locks: two sites with locks, and what harms members.
Kind = Literal["swarm", "large", "routed", "locks", "map"]

#: Plans in which all pairs meet: one for each seed of a block, which begins at a multiple of this number.
ROWS = 128


class Topology(NamedTuple):
    """Sites, and which of them are connected. The first sites of a tree are a tree too, so that a plan can be shrunk."""

    sites: tuple[str, ...]
    #: Empty: all pairs are connected.
    connections: tuple[tuple[str, str], ...] = ()


class Upto(NamedTuple):
    """A rate above 0."""

    most: float


class Members(NamedTuple):
    """The number of members of the first site, and of each other one."""

    first: tuple[int, ...]
    others: tuple[int, ...]


class Row(NamedTuple):
    """A kind of fault: its scenario, its weight where a plan has room for it, and how often it happens there."""

    scenario: Scenario
    weight: float
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
    Row(scenarios.router_dies, 0.2, (1, 1, 2)),
    Row(scenarios.peer_removed, 0.3, (1, 1, 2)),
    Row(scenarios.shortage, 0.6),
    Row(scenarios.slow_wan, 0.04),
    Row(scenarios.narrow_wan, 0.04),
    Row(scenarios.leave_before_the_view, 0.08),
    Row(scenarios.relay_dies_with_what_it_read, 0.1),
    Row(scenarios.relay_dies_in_a_cut, 0.08),
    Row(scenarios.relay_wakes, 0.1),
    Row(scenarios.address_is_taken, 0.08),
    Row(scenarios.two_relays_die, 0.08),
    Row(grey.hole, 0.2, (1, 1, 2)),
    Row(grey.holes_that_heal_one_by_one, 0.1),
    Row(grey.holes_across_a_split, 0.08),
    Row(grey.wrong_mtu, 0.1),
    Row(grey.slow_joiner, 0.1),
    Row(grey.narrow_wire, 0.06),
    Row(grey.long_pause, 0.06),
    Row(grey.slow_application, 0.4),
    Row(grey.letters_to_the_gone, 0.1),
    Row(grey.part_of_a_wan_cut, 0.1),
    Row(grey.failing_disk, 0.4),
    Row(grey.dead_interface, 0.3),
)

#: Faults for large sites: only those that many members make different, since each member costs time.
_AMONG_MANY = (scenarios.pause, scenarios.line_dies, scenarios.several_die, scenarios.several_leave, scenarios.split, grey.hole)
#: What makes a lock pass on.
_HARM = (
    *_AMONG_MANY,
    *(scenarios.kill, scenarios.leave, scenarios.takeover, scenarios.move, scenarios.burst),
    *(grey.holes_that_heal_one_by_one, grey.holes_across_a_split, grey.long_pause, grey.slow_application),
)


def _rows_with(chosen: Sequence[Scenario]) -> tuple[Row, ...]:
    return tuple([row for row in FAULTS if row.scenario in chosen])


def _line(*sites: str) -> Topology:
    return Topology(sites, tuple(pairwise(sites)))


TWO, THREE, FOUR = [Topology(("NYC", "SFO", "LON", "TYO")[:number]) for number in (2, 3, 4)]
LINE_OF_3, LINE_OF_4 = _line("NYC", "SFO", "LON"), _line("NYC", "SFO", "LON", "TYO")
STAR = Topology(("SFO", "NYC", "LON", "TYO"), (("SFO", "NYC"), ("SFO", "LON"), ("SFO", "TYO")))
TREES = [*[LINE_OF_3] * 3, LINE_OF_4, STAR]

#: Budgets so small that a cut leads to gaps.
SMALL_BUDGETS = {
    "entries": [BufferConfig(budget_entries=entries) for entries in (8, 32)],
    "bytes": [BufferConfig(budget_bytes=size) for size in (4_000, 20_000)],
    "age": [BufferConfig(budget_age_s=seconds) for seconds in (1.0, 4.0)],
}
#: Spills in which everything fits, then too few bytes or seconds. Segments cover a few seconds, or a kilobyte.
ROOMY, LITTLE, SHORT = SpillSettings(4 << 20, 160.0), SpillSettings(16_000, 160.0), SpillSettings(4 << 20, 6.0)

#: The fields of a value: those of the plan, and some from which the generator makes others. A list: one of these.
Fields = Mapping[str, Any]

#: Feature -> its values. The first one is the usual one.
FEATURES: dict[str, dict[str, Fields]] = {
    "sites": {
        "two": {"topology": TWO},
        "mesh": {"topology": [THREE, THREE, FOUR]},
        "routed": {"topology": TREES},
        # Little may wait for a link, and perhaps little passes a second.
        "narrow": {"topology": TREES, "is_narrow": True},
    },
    "members": {
        "three": {"members": Members((3, 3, 4), (1, 2, 3, 3))},
        "few": {"members": Members((2,), (1, 2, 2))},
        "many": {"members": Members((5, 5, 6, 7), (1, 2, 3))},
    },
    "order": {"total": {"order": "total"}, "fifo": {"order": "fifo"}},
    "agreement": {"survivors": {"agreement": "survivors"}, "uniform": {"agreement": "uniform"}},
    "multicast": {"yes": {"multicast": True}, "no": {"multicast": False}},
    "loss": {"none": {"loss": 0.0}, "some": {"loss": Upto(0.2)}},
    "duplication": {
        "none": {"duplication": 0.0, "duplication_late_s": 0.0},
        "soon": {"duplication": Upto(0.5), "duplication_late_s": [0.01, 0.5]},
        "late": {"duplication": Upto(0.5), "duplication_late_s": [10.0, 10.0, 60.0]},
    },
    "reordering": {
        "none": {"reordering": 0.0, "reordering_late_s": 0.0},
        "some": {"reordering": Upto(0.3), "reordering_late_s": [0.005, 0.05, 0.3]},
    },
    "corruption": {"none": {"corruption": 0.0}, "some": {"corruption": Upto(0.05)}},
    "wan": {"near": {}, "far": {"is_far": True}},
    "links": {
        "plain": {},
        "compressed": {"compress": "zstd"},
        "paced": {"rate_max_bytes_s": [100_000, 400_000]},
    },
    "load": {
        "usual": {"messages": 150, "size_max": [200, 5_000]},
        "many": {"messages": 300, "size_max": 20},
        "few": {"messages": 50, "size_max": [20, 5_000]},
        "huge": {"messages": 20, "size_max": 1 << 20},
    },
    "unicasts": {"some": {"unicast_share": Upto(0.3)}, "none": {"unicast_share": 0.0}},
    "to the site": {"none": {"site_share": 0.0}, "some": {"site_share": Upto(0.3)}},
    "batches": {"full": {}, "single": {"batch_count_max": 1}, "small": {"batch_bytes_max": 2_000}},
    # A credit of a few batches of a few messages, which follows the rate or is constant.
    "latency target": {
        "5 ms": {"latency_target_s": 0.005},
        "100 ms": {"latency_target_s": 0.1},
        "none": {"latency_target_s": None},
    },
    # One frame at a time up to some dozens of small frames; no run fills the default window.
    "window": {"usual": {}, "small": {"window_bytes": [1, 2_000, 20_000]}},
    "backlog": {"usual": {}, "small": {"backlog_bytes_max": 6_000}},
    "budget": {"usual": {}, **{name: {"budget": budgets} for name, budgets in SMALL_BUDGETS.items()}},
    "spill": {"none": {}, "roomy": {"spill": ROOMY}, "little": {"spill": LITTLE}, "short": {"spill": SHORT}},
    "settings": {"equal": {}, "uneven": {"uneven": True}},
    "short ids": {"nobody": {}, "everybody": {"short_ids": "everybody"}, "some": {"short_ids": "some"}},
    # Locks need a total order of uniform agreement.
    "when split": {"both": {}, "majority": {"when_split": "majority"}, "locks": {"when_split": "majority"}},
    "state": {"none": {}, **{name: {"state": name} for name in ("inside", "some", "across")}},
    "keys": {"none": {}, "alone": {"keys": "alone"}, "in batches": {"keys": "shared"}},
    "calls": {"none": {}, "used": {"calls": True}},
    "backlog policy": {name: {"backlog_policy": name} for name in ("exclude", "gap", "slow")},
    "when down": {"gap": {}, "wait": {"when_down": "wait"}},
    "bounds": {"usual": {}, "small": {"has_small_bounds": True}},
    "reload": {"none": {}, "budget": {"reloads_budget": True}},
    "map": {"none": {}, "used": {"uses_map": True}},
    "liar": {"none": {}, "linked": {"has_liar": True}},
    "lanes": {"on": {}, "off": {"lanes": "off"}, "expanded": {"lanes": "expanded"}},
    "last site": {"in time": {}, "late": {"is_late": True}, "added": {"is_late": True, "adds_late": True}},
    "addresses": {"v4": {}, "v6": {"ipv6": True}},
    "routers": {"none": {}, "one a link": {"by_router": True}},
    "interfaces": {"one": {}, "two": {"interfaces": 2}},
    # Shorter than the time in the global view, and than many cuts.
    "offline rule": {"none": {}, "soon": {"offline_after_s": [2.0, 4.0]}},
    "floods": {"none": {"flooded": 0.0}, "amid faults": {"flooded": 0.7}},
}

#: Values and faults that make no sense beside others.
NEVER: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("when split=locks",), ("order=fifo", "agreement=survivors")),
    # A spill takes the entries that a small budget drops.
    (("budget=usual",), ("spill=roomy", "spill=little", "spill=short", "shortage")),
    (("spill=none",), ("failing_disk",)),
    (("budget=entries", "budget=bytes", "budget=age"), ("slow_joiner",)),
    # A frame must fit into the bytes that may wait for a link of a route.
    (("sites=narrow",), ("batches=full", "batches=small")),
    # Little passes in the time for which a run waits.
    (("load=huge",), ("sites=narrow", "links=paced", "members=many", "narrow_wire", "narrow_wan")),
    (("load=huge",), ("backlog=small", "window=small")),
    # A few frames, unicasts too, fill the window.
    (("window=small",), ("members=few", "unicasts=none")),
    (("members=few",), ("holes_that_heal_one_by_one", "holes_across_a_split")),
    (("members=few", "members=three"), ("line_dies", "several_die", "several_leave")),
    (("multicast=no",), ("move",)),
    (("backlog=usual",), ("slow_application",)),
    (("when split=both",), ("offline rule=soon",)),
    (("sites=two",), ("wan_cuts_in_turn",)),
    (("interfaces=one",), ("dead_interface",)),
    (("routers=none",), ("router_dies",)),
    (("sites=routed", "sites=narrow"), ("narrow_wan",)),
    # A reload does not apply other routes.
    (("sites=routed", "sites=narrow"), ("last site=added",)),
)


class Space(NamedTuple):
    """What plans of a kind are drawn from: features, faults, and how many faults a plan has together."""

    features: dict[str, dict[str, Fields]]
    faults: tuple[Row, ...] = FAULTS
    together: int = 5


SPACES: dict[Kind, Space] = {
    "swarm": Space(FEATURES),
    "routed": Space({**FEATURES, "sites": {name: FEATURES["sites"][name] for name in ("routed", "narrow")}}),
    "map": Space(
        {
            **FEATURES,
            "map": {"used": FEATURES["map"]["used"]},
            "load": {name: FEATURES["load"][name] for name in ("few", "huge")},
        }
    ),
    "locks": Space(
        {
            **{feature: FEATURES[feature] for feature in ("multicast", "loss", "duplication", "reordering", "corruption")},
            **{
                feature: FEATURES[feature] for feature in ("window", "backlog", "bounds", "batches", "floods", "backlog policy")
            },
            "members": {"three": {"members": Members((3, 4), (3,))}, "many": FEATURES["members"]["many"]},
            "sites": {"two": FEATURES["sites"]["two"]},
            "guarantees": {"locks": {"order": "total", "agreement": "uniform", "when_split": "majority"}},
            "load": {"few": {"messages": 50, "size_max": 200}},
            "unicasts": {"some": {"unicast_share": Upto(0.3)}},
            "to the site": {"some": {"site_share": Upto(0.3)}},
        },
        _rows_with(_HARM),
        6,
    ),
    "large": Space(
        {
            **{feature: FEATURES[feature] for feature in ("order", "agreement", "wan", "links", "unicasts", "to the site")},
            "members": {"a hundred": {"topology": TWO, "members": Members((100,), (2,)), "multicast": True}},
            "loss": {"none": {"loss": 0.0}, "some": {"loss": Upto(0.01)}},
            "duplication": {"none": FEATURES["duplication"]["none"]},
            "corruption": {"none": FEATURES["corruption"]["none"]},
            "reordering": {
                "none": {"reordering": 0.0, "reordering_late_s": 0.0},
                "some": {"reordering": Upto(0.1), "reordering_late_s": [0.005, 0.05, 0.3]},
            },
            "load": {"few": {"messages": 50, "size_max": 200}},
        },
        _rows_with(_AMONG_MANY),
        3,
    ),
}


@cache
def covering(kind: Kind) -> Covering:
    """Return the pairs of values and faults that plans of a kind have to meet."""
    space = SPACES[kind]
    dimensions = [
        {f"{feature}={name}": 1.0 if at else 3.0 for at, name in enumerate(values)}
        for feature, values in space.features.items()
    ]
    faults = {row.scenario.__name__: row.weight for row in space.faults}
    known = {*faults, *[name for each in dimensions for name in each]}
    return Covering(dimensions, faults, [pair for pair in _never() if known.issuperset(pair)])


def _never() -> Iterator[Pair]:
    for these, those in NEVER:
        yield from product(these, those)


@lru_cache(8)
def _rows(kind: Kind, block: int) -> list[list[str]]:
    return covering(kind).rows(ROWS, SPACES[kind].together, block)


def row_of(seed: int, kind: Kind) -> list[str]:
    """Return the values and the faults of a seed's plan, by their names."""
    return _rows(kind, seed // ROWS)[seed % ROWS]
