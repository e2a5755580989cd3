"""One pair of sockets for the channels of several clusters (the shared transport of JGroups).

Every channel has a part of it, which it uses as a transport of its own: what it sends goes out by the sockets, and what arrives
is handed to the part of the cluster that it names (`sitestack/wire/cluster.py`). Nothing on the wire tells that sockets are
shared. A channel that is busy looks at the sockets itself, as with sockets of its own, and finds what is for the others, too;
for those that wait one task looks. What is sent shares the kernel's buffer, and a connection with TCP.
"""

from __future__ import annotations

import socket
from dataclasses import replace

import trio

from sitestack.config import SiteConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.level import Level
from sitestack.seal.proofs import Proofs
from sitestack.transport import Transport
from sitestack.transport.shared_part import Part, PartStatistics
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.udp import UdpTransport
from sitestack.transport.watch_desk import WatchDesk
from sitestack.wire.cluster import mark_of, marks_of

#: The channels of one transport: fewer than the multicast groups that Linux lets one socket hear (20).
CHANNELS_MAX = 16
#: Seconds for which nothing is read for those that wait, after all that arrived was for others or for nobody: they read
#: themselves, and to wake up for each datagram of a flood costs fifty times as much as to drop it.
OTHERS_PAUSE_S = 0.001


class SharedTransport:
    """The sockets of one process, for the channels of several clusters. Made by `open_transport`."""

    def __init__(self, config: SiteConfig, carrier: Transport) -> None:
        """`carrier` has the sockets; it was opened with this configuration, and is closed with this transport."""
        self.carrier = carrier
        self.is_closed = False
        self._config = config
        self._parts: dict[bytes, Part] = {}
        #: Whether the channels have keys: as the first one, for ever.
        self._secured: bool | None = None
        self._used = trio.Event()
        self._unclaimed = 0
        places = carrier.physical()
        #: Where this process is reached, for the names of tasks.
        self.place = places[0]
        listener = carrier.listener()
        self.desk: WatchDesk | None = None
        if isinstance(listener, socket.socket):
            self.desk = WatchDesk(listener, f"the transport at {self.place}", places)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that have a channel now, in the order of their opening."""
        return tuple(dict.fromkeys([part.cluster for part in self._parts.values()]))

    def open(self, config: SiteConfig, proofs: Proofs | None) -> Part:
        """The part of one more channel, which its end closes. Raises ConfigurationError."""
        if why := self._why_not(config, proofs):
            raise ConfigurationError(why)
        has_groups = isinstance(self.carrier, UdpTransport) and config.transport.multicast
        part = Part(self, config, proofs, config.transport.group(config.site) if has_groups else None)
        self._enter(part)
        self._parts.update(dict.fromkeys(marks_of(part.cluster), part))
        self._secured = proofs is not None
        self._used.set()
        return part

    def _why_not(self, config: SiteConfig, proofs: Proofs | None) -> str:
        """Why such a channel cannot have a part, in one sentence; empty when it can."""
        site, mine, theirs = config.site, self._config, config
        if self.is_closed:
            return f"transport: {site} cannot share a transport that is closed."
        if site in self.clusters:
            return (
                f"site: {site} has a member on this transport already; a second one in a process takes a transport of its own."
            )
        if len(self.clusters) == CHANNELS_MAX:
            return f"transport: {CHANNELS_MAX} channels share this one, and no more can; open another one for {site}."
        if not self._parts.keys().isdisjoint(marks_of(site)):
            return (
                f"site: {site} cannot share a transport with {self.clusters}, as their sealed datagrams look alike; rename it."
            )
        if replace(mine.transport, multicast_group="") != replace(theirs.transport, multicast_group=""):
            return f"transport: {site} is configured with other settings than the transport that it is to share."
        if mine.protocols.failure_detection.watch is not theirs.protocols.failure_detection.watch:
            return f"protocols.failure_detection.watch: {site} must say the same as the transport that it is to share."
        if self._secured is not None and self._secured is not (proofs is not None):
            return f"security.keys: of the channels that share a transport all have keys or none has; {site} differs."
        return ""

    def _enter(self, part: Part) -> None:
        carrier = self.carrier
        if isinstance(carrier, UdpTransport) and part.group is not None and not self._hears(part.group):
            carrier.join(part.group)
        if isinstance(carrier, TcpTransport) and part.proofs is not None:
            carrier.greeting.add(part.proofs)

    def leave(self, part: Part) -> None:
        """Nothing is for this part any more. The others go on, and connections stay until they are idle (LA-25)."""
        for mark in marks_of(part.cluster):
            del self._parts[mark]
        carrier = self.carrier
        if self.is_closed:
            return
        if isinstance(carrier, UdpTransport) and part.group is not None and not self._hears(part.group):
            carrier.leave(part.group)
        if isinstance(carrier, TcpTransport) and part.proofs is not None:
            carrier.greeting.remove(part.proofs)

    def _hears(self, group: Physical) -> bool:
        return any(part.group == group for part in self._parts.values())

    async def run(self) -> None:
        """Hand what arrives to the channels that wait for it, until cancelled."""
        await self._used.wait()  # before, nobody knows who is to be let in
        async with trio.open_nursery() as nursery:
            if self.desk is not None:
                nursery.start_soon(self.desk.run, bool(self._secured), name=f"watchers of the transport at {self.place}")
            while True:
                await self.carrier.wait()
                if not self.poll():
                    await trio.sleep(OTHERS_PAUSE_S)

    def poll(self) -> bool:
        """Look at the sockets, and hand out what is there. Returns whether anybody has waited for it."""
        arrived = self.carrier.receive()
        awaited = not arrived
        parts = self._parts
        for datagram in arrived:
            part = parts.get(mark_of(datagram[0]))
            if part is None:
                self._unclaimed += 1
            else:
                part.take(datagram)
                awaited = awaited or part.waits
        return awaited

    def close(self) -> None:
        """Close the sockets. A channel that is still open fails with ChannelClosed. Closing twice is allowed."""
        self.is_closed = True
        for part in self._parts.values():
            part.end()
        self.carrier.close()

    def statistics(self) -> PartStatistics:
        """What the sockets have seen, and what was for nobody."""
        return PartStatistics(unclaimed_datagrams=self._unclaimed, carrier=self.carrier.statistics())

    def levels(self) -> dict[str, Level]:
        """Those of the sockets, and how many channels there are."""
        why = "each has its part of the transport until it is closed"
        return {"channels": Level.of(len(self.clusters), CHANNELS_MAX, why), **self.carrier.levels()}
