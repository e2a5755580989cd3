"""What can be measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sitestack.config import Order, SiteConfig, TransportConfig


@dataclass(frozen=True, slots=True)
class Scenario:
    """All members of one site send as fast as credit allows, and deliver everything."""

    order: Order
    members: int = 3


SCENARIOS = {
    "local-throughput": Scenario(order="fifo"),
    "total-order": Scenario(order="total"),
}


@dataclass(frozen=True, slots=True)
class MemberTask:
    """What one process of a run is told, as JSON, on its command line."""

    name: str
    members: int
    order: Order
    multicast_group: str
    multicast_port: int
    #: Where its journal goes; empty for none.
    journal: str
    #: Whether to time the layers, which costs a lot of speed.
    profiled: bool

    def to_json(self) -> dict[str, Any]:
        """What the constructor takes."""
        return asdict(self)

    def site_config(self) -> SiteConfig:
        """On the loopback interface, with all defaults."""
        transport = TransportConfig(
            interface="127.0.0.1", multicast_group=self.multicast_group, multicast_port=self.multicast_port
        )
        return SiteConfig(site="BENCH", order=self.order, transport=transport)


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement, as JSON, on standard input of all processes at one time."""

    #: Bytes of each message.
    size: int
    #: Time to get going, not measured.
    warm_up_s: float
    #: The window that is measured.
    window_s: float
