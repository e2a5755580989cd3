"""A plan: sites, their load, and a list of faults. Plain data, so it can be stored, read and shrunk.

`generator.py` draws plans from seeds, `plan_json.py` writes and reads them, `run.py` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from relay.gateway.config import LinkConfig, RoutesConfig
from relay.replica.config import BufferConfig
from relay_lab.simulation.faults import Fault, SlowApplication
from sitestack.config import Agreement, Order
from sitestack.layers.membership.config import WhenSplit
from sitestack.model.address import Physical

#: Members of a site that write short ids.
IdWriters = Literal["nobody", "everybody", "some"]
#: How lanes are used.
LaneUse = Literal["on", "off", "expanded"]
#: Members that share a state: none, all, some, or all, whose sites take those of other sites.
StateUse = Literal["none", "inside", "some", "across"]

#: Virtual seconds in which messages are sent and faults happen.
LOAD_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. A new field needs a default, or stored plans become unreadable."""

    #: Seeds all randomness of the run itself: latencies, losses, senders.
    seed: int
    sites: tuple[tuple[str, int], ...]
    order: Order
    agreement: Agreement
    #: Whether members find and reach each other by multicast; else by configured addresses.
    multicast: bool
    #: Shares of all datagrams that are lost, duplicated, delayed or corrupted; `_late_s` is by how much at most.
    loss: float
    duplication: float
    duplication_late_s: float
    reordering: float
    reordering_late_s: float
    corruption: float
    faults: tuple[Fault, ...]
    #: The number of all messages, and the largest size in bytes.
    messages: int
    size_max: int
    #: The shares of messages that go to one member, and to the own site only.
    unicast_share: float
    site_share: float
    #: The most messages in a batch; None for the product's default.
    batch_count_max: int | None = None
    #: Bytes of a full batch; None for the product's default, which no run fills. Small ones let the send credit vary.
    batch_bytes_max: int | None = None
    #: The delay target of the send credit; None: the credit is constant.
    latency_target_s: float | None = 0.005
    window_bytes: int | None = None
    budget: BufferConfig = field(default_factory=BufferConfig)
    #: A site that starts late, and its seconds after the load has begun.
    late: tuple[str, float] | None = None
    #: Whether the others add the late site to their peers about when it starts.
    adds_late: bool = False
    #: The connected pairs of sites, a tree; other pairs reach each other by routes. Empty: all pairs are connected.
    connections: tuple[tuple[str, str], ...] = ()
    link: LinkConfig = field(default_factory=LinkConfig)
    #: Slow connections: two sites, and the bytes per second that pass in each direction.
    lines: tuple[tuple[str, str, float], ...] = ()
    #: Extra delay in seconds of everything between sites, for the whole run.
    wan_delay_s: float = 0.0
    #: Seconds after the load in which lasting faults continue, with few messages and no other fault.
    lasting_s: float = 0.0
    #: Unread bytes of an application before senders wait; None: the product's default.
    backlog_bytes_max: int | None = None
    #: Whether members of a site have different settings where allowed.
    uneven: bool = False
    short_ids: IdWriters = "nobody"
    #: Whether unicasts travel on lanes; expanded: every frame of a lane walks through the layers.
    lanes: LaneUse = "on"
    #: Whose applications share a state, and take that of another site.
    state: StateUse = "none"
    #: Whether members of all sites write to one map.
    uses_map: bool = False
    #: Whether a further site, linked to the others or to one in between, lies.
    has_liar: bool = False
    #: Effect of a split on its parts.
    when_split: WhenSplit = "both"
    #: Whether applications send messages with keys, one in a batch or several.
    keys: Literal["none", "alone", "shared"] = "none"
    #: Whether applications call each other, and wait until their messages have arrived.
    calls: bool = False
    #: Policy for a member whose application reads nothing.
    backlog_policy: Literal["exclude", "gap", "slow"] = "exclude"
    #: Whether senders wait for a site that is down.
    when_down: Literal["gap", "wait"] = "gap"
    #: Whether bounds of containers, which no run reaches otherwise, are small.
    has_small_bounds: bool = False
    #: Whether the budget is doubled while members run, and halved again.
    reloads_budget: bool = False
    #: Whether all hosts have IPv6 addresses.
    ipv6: bool = False
    #: Of each member: 1, or 2 on separate networks.
    interfaces: int = 1
    #: Whether each link is a connection through a gossip router, one for each pair of connected sites.
    by_router: bool = False
    #: Seconds without a link after which a relay takes another site offline; None: never.
    offline_after_s: float | None = None

    @property
    def has_channels(self) -> bool:
        """Whether an application reads from a channel at each member."""
        is_slow = any(isinstance(fault, SlowApplication) for fault in self.faults)
        return self.state != "none" or self.keys != "none" or self.calls or is_slow

    def pairs(self) -> tuple[tuple[str, str], ...]:
        return self.connections or tuple(combinations([name for name, _ in self.sites], 2))

    def between(self) -> list[str]:
        """Return the sites that messages of others pass through: all that are no end of a tree."""
        return [name for name, _ in self.sites if len(self._neighbours(name)) > 1]

    @property
    def liar_peer(self) -> str:
        """The site that a lying site is linked to where the sites form a tree."""
        return next(iter(self.between()), self.sites[0][0])

    def router_between(self, one: str, other: str) -> Physical:
        """Return the place of the gossip router of two sites."""
        names = [name for name, _ in self.sites]
        first, second = sorted([names.index(one), names.index(other)])
        return Physical(f"10.251.{first}.{second}", 7900)

    def routes_of(self, site: str) -> RoutesConfig:
        """Return the routes of a site: the next hop to every site without a connection, and whose data it forwards."""
        if not self.connections:
            return RoutesConfig()
        neighbours = self._neighbours(site)
        via: dict[str, str] = {}
        for neighbour in neighbours:
            behind = [neighbour]
            for each in behind:  # it grows: all that is reached through this neighbour
                behind += [further for further in self._neighbours(each) if further not in (site, *behind)]
            via |= dict.fromkeys(behind[1:], neighbour)
        others = tuple([name for name, _ in self.sites if name != site])
        return RoutesConfig(via, others if len(neighbours) > 1 else ())

    def _neighbours(self, site: str) -> list[str]:
        return [other for pair in self.connections if site in pair for other in pair if other != site]
