"""The statistics of one member's channel."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.channel.driver import DriverStatistics
from sitestack.seal.seal import SealStatistics
from sitestack.transport.watch import WatchStatistics


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """All counters of one member."""

    #: The statistics of each layer by its name, and the drop counters under "drops".
    stack: dict[str, object]
    driver: DriverStatistics
    transport: object
    #: None where members are not watched.
    watch: WatchStatistics | None
    #: None without keys.
    seal: SealStatistics | None
