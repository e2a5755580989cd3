from __future__ import annotations

from dataclasses import dataclass

from relay.node.bridge.bridge import BridgeConfig
from relay.node.config.settings import NodeConfig, RelaySettings
from relay_lab.bench.round_trips import Trip
from sitestack.config import Order, ProtocolsConfig, SiteConfig, TransportConfig
from sitestack.layers.short_ids import ShortIdsConfig
from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class Scenario:
    """All members of one site send, and deliver everything."""

    order: Order
    #: One sentence on the measured figure.
    about: str
    members: int = 3
    #: Whether another site takes part, whose connection is cut in every other run (X11).
    cuts_wan: bool = False
    #: The round trip to measure, one at a time; None: measure throughput.
    trip: Trip | None = None
    #: Whether another site takes part, to which messages are relayed.
    relayed: bool = False
    #: Round trips (ms) of the connection to it, one after another; none: that of the loopback interface.
    round_trips_ms: tuple[int, ...] = ()
    #: Whether latency at the full rate and at half of it is compared.
    halves: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether members only send, and may do so with keys."""
        return not (self.cuts_wan or self.trip or self.relayed or self.halves)


SCENARIOS = {
    "local-throughput": Scenario(
        order="fifo",
        about="Three members of one site send as fast as they may, and deliver everything; the order of each sender is kept.",
    ),
    "total-order": Scenario(order="total", about="The same with one order for all messages, through the coordinator."),
    "site-autonomy": Scenario(
        order="total",
        about="A steady load in one site, with the connection to another site and with that cut, in turns.",
        cuts_wan=True,
    ),
    "unicast-rtt": Scenario(
        order="total", about="One member asks another one of its site, one question at a time.", members=2, trip="unicast"
    ),
    "own-delivery": Scenario(
        order="total",
        about="How soon a member that does not coordinate is delivered its own multicast in the total order.",
        members=2,
        trip="own",
    ),
    "relay-rtt": Scenario(
        order="total",
        about="One member multicasts a question to two sites, and a member of the other site answers by unicast.",
        members=2,
        trip="relay",
    ),
    "relay-flat-out": Scenario(
        order="total",
        about="One member that does not relay sends as fast as it may, all of both sites deliver; rates are the other site's.",
        members=2,
        relayed=True,
    ),
    "wan": Scenario(
        order="total",
        about="The load of relay-flat-out with round trips from 0 to 300 ms between the sites; ratios are 300 ms to 0.",
        members=2,
        relayed=True,
        round_trips_ms=(0, 100, 200, 300),
    ),
    "latency-at-load": Scenario(
        order="fifo",
        about="The latency of local-throughput at its full rate, and at half of it; ratios are full to half.",
        halves=True,
    ),
}


@dataclass(frozen=True, slots=True)
class MemberTask:
    name: str
    members: int
    order: Order
    multicast_group: str
    multicast_port: int
    site: str = "BENCH"
    #: The port of this member's bridge; 0: the member does not listen.
    bind_port: int = 0
    #: Another site and the port of its bridge; empty for none.
    peer: str = ""
    peer_port: int = 0
    #: The directory with the keys of the site; empty for none.
    keys: str = ""
    trips: bool = False
    short_ids: bool = False

    def site_config(self) -> SiteConfig:
        """On the loopback interface, with all defaults but for the short ids."""
        transport = TransportConfig(
            interface="127.0.0.1", multicast_group=self.multicast_group, multicast_port=self.multicast_port
        )
        protocols = ProtocolsConfig(short_ids=ShortIdsConfig(self.short_ids))
        return SiteConfig(site=self.site, order=self.order, transport=transport, protocols=protocols)

    def node_config(self) -> NodeConfig:
        """The same with a bridge, which is dialed again soon after a cut."""
        site = self.site_config()
        bind = Physical("127.0.0.1", self.bind_port) if self.bind_port else None
        bridge = BridgeConfig(bind=bind, peers={self.peer: (Physical("127.0.0.1", self.peer_port),)})
        relay = RelaySettings(bridge=bridge, dial_s_max=0.5)
        return NodeConfig(site=site.site, order=site.order, transport=site.transport, relay=relay)


@dataclass(frozen=True, slots=True)
class Workload:
    """One measurement, which is passed to all processes on standard input as JSON."""

    size: int
    #: Seconds of load before the window.
    warm_up_s: float
    #: Seconds of load that are measured.
    window_s: float
    #: Messages a second of each member; None: as fast as credit allows.
    rate: float | None = None
    #: The questions of an asking member; None for a member that reports its costs.
    trip: Trip | None = None
