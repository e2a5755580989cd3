"""The weights of the generator: how often a plan has what, for each kind of plan.

A plan draws each aspect by its weights here, in the order of `Weights`: sites, protocol, wire, load, budgets, faults. To add a
fault that is drawn by a new scenario, add its `Row` to `FAULTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

from relay.replica.config import BufferConfig, SpillSettings
from relay_lab.simulation import aimed, grey, scenarios
from relay_lab.simulation.dice import Scenario
from relay_lab.simulation.plan import IdWriters
from sitestack.config import Agreement, Order
from sitestack.layers.membership.config import WhenSplit
from sitestack.stack.turn import STEPS, Step

#: swarm: a few members in each of several sites, with everything turned on and off. large: a hundred members in one site.
#: routed: sites in a line or a star.
Kind = Literal["swarm", "large", "routed"]


class Topology(NamedTuple):
    """Sites, and which of them are connected. The first sites of a tree are a tree too, so that a plan can be shrunk."""

    sites: tuple[str, ...]
    #: Empty: all pairs are connected.
    connections: tuple[tuple[str, str], ...] = ()
    #: The number of members of each site. Empty: drawn.
    sizes: tuple[int, ...] = ()


class Rate(NamedTuple):
    """A rate that is 0 but for a share of the plans, where it is anything up to `most`."""

    share: float
    most: float


class Row(NamedTuple):
    """A kind of fault: its scenario, the share of plans in which it happens, and how often it happens there."""

    scenario: Scenario
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
    Row(aimed.leave_before_the_view, 0.08),
    Row(aimed.relay_dies_with_what_it_read, 0.1),
    Row(aimed.relay_dies_in_a_cut, 0.08),
    Row(aimed.relay_wakes, 0.1),
    Row(aimed.address_is_taken, 0.08),
    Row(aimed.two_relays_die, 0.08),
    Row(grey.hole, 0.2, (1, 1, 2)),
    Row(grey.holes_that_heal_one_by_one, 0.1),
    Row(grey.holes_across_a_split, 0.08),
    Row(grey.wrong_mtu, 0.1),
    Row(grey.slow_joiner, 0.1),
    Row(grey.narrow_wire, 0.06),
    Row(grey.long_pause, 0.06),
    Row(grey.slow_application, 1.0),
    Row(grey.letters_to_the_gone, 0.1),
    Row(grey.part_of_a_wan_cut, 0.1),
    Row(grey.failing_disk, 0.4),
)

#: Faults for large sites: only those that many members make different, since each member costs time.
FAULTS_AMONG_MANY = (
    Row(scenarios.pause, 1.0),
    Row(scenarios.line_dies, 1.0),
    Row(scenarios.several_die, 0.4),
    Row(scenarios.several_leave, 0.3),
    Row(scenarios.split, 0.4),
    Row(grey.hole, 0.3),
)


def _line(*sites: str) -> Topology:
    return Topology(sites, tuple(pairwise(sites)))


TWO, THREE, FOUR = [Topology(("NYC", "SFO", "LON", "TYO")[:number]) for number in (2, 3, 4)]
LINE_OF_3, LINE_OF_4 = _line("NYC", "SFO", "LON"), _line("NYC", "SFO", "LON", "TYO")
STAR = Topology(("SFO", "NYC", "LON", "TYO"), (("SFO", "NYC"), ("SFO", "LON"), ("SFO", "TYO")))

#: Budgets so small that a cut leads to gaps.
SMALL_BUDGETS = (
    *[BufferConfig(budget_entries=entries) for entries in (8, 32)],
    *[BufferConfig(budget_bytes=size) for size in (4_000, 20_000)],
    *[BufferConfig(budget_age_s=seconds) for seconds in (1.0, 4.0)],
)


#: Spills in which everything fits, then too few bytes or seconds. Segments cover a few seconds, or a kilobyte.
ROOMY, LITTLE, SHORT = SpillSettings(4 << 20, 160.0), SpillSettings(16_000, 160.0), SpillSettings(4 << 20, 6.0)


class Weights(NamedTuple):
    """The weights of a kind of plan: values with weights for each aspect, or the share of plans with it."""

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
    #: The share of plans in which everything between sites is late, for the whole run.
    delayed: float = 0.04
    #: The share of plans with routes in which little may wait for a link, and perhaps little passes a second.
    narrow: float = 0.5
    #: Whether links compress, and the bytes a second that one may write at most.
    compress: Mapping[Literal["zstd"] | None, float] = {None: 5, "zstd": 1}
    rate_max_bytes_s: Mapping[int | None, float] = {None: 8, 100_000: 1, 400_000: 1}
    messages: Mapping[int, float] = {50: 2, 150: 3, 300: 1}
    size_max: Mapping[int, float] = {20: 1, 200: 2, 5_000: 1}
    unicast_share: Rate = Rate(0.5, 0.3)
    site_share: Rate = Rate(0.5, 0.3)
    batch_count_max: Mapping[int | None, float] = {None: 3, 1: 2}
    #: Full batches and delay targets: a credit of a few batches of a few messages, which follows the rate or is constant.
    batch_bytes_max: Mapping[int | None, float] = {None: 9, 2_000: 1}
    latency_target_s: Mapping[float | None, float] = {0.005: 6, 0.1: 1, None: 1}
    #: Windows of flow control: from one frame at a time to some dozens of small frames; no run fills the default window. A site
    #: with a small window is partitioned amid floods, since that is when credit can get lost (B1).
    window_bytes: Mapping[int | None, float] = {None: 27, 1: 1, 2_000: 1, 20_000: 1}
    #: Backlog bound of an application: the default, which no run fills, or one so small that a slow application
    #: stops its site.
    backlog_bytes_max: Mapping[int | None, float] = {None: 9, 6_000: 1}
    #: The share of plans with different settings for each member, where these may differ.
    uneven: float = 0.1
    short_ids: Mapping[IdWriters, float] = {"nobody": 14, "everybody": 1, "some": 1}
    #: The share of plans with locks, of those in which only a majority continues.
    locks: float = 0.5
    when_split: Mapping[WhenSplit, float] = {"both": 9, "majority": 1}
    #: Of the plans with a lasting fault, the share that continues after the load while it lasts.
    lasting: float = 0.5
    budget: Mapping[BufferConfig, float] = {BufferConfig(): 24, **dict.fromkeys(SMALL_BUDGETS, 1)}
    #: Spill settings for batches that a small memory budget drops.
    spill: Mapping[SpillSettings | None, float] = {None: 42, ROOMY: 4, LITTLE: 1, SHORT: 1}
    #: The share of plans whose last site starts only after the load has begun.
    late: float = 0.15
    faults: tuple[Row, ...] = FAULTS
    #: The step of a turn before which a process is killed; None: between two datagrams. The first step is left out: a death
    #: before it is a death before the turn.
    kill_before: Mapping[Step | None, float] = {None: 12, **dict.fromkeys(STEPS[1:], 1)}
    #: The share of a plan's faults that come amid a flood of messages.
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
