"""One pair of sockets for the channels of several clusters (the shared transport of JGroups).

Arriving datagrams go to the part of the cluster that they name (`sitestack/wire/cluster.py`). A
busy channel reads the sockets itself and queues datagrams for the others; one task reads for
waiting channels.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import trio

from sitestack.config import SiteConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed, ConfigurationError
from sitestack.model.level import Level
from sitestack.seal.proofs import Proofs
from sitestack.transport import TrafficStatistics, Transport
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.udp import UdpTransport
from sitestack.transport.watch import WatchDesk
from sitestack.wire.cluster import mark_of, marks_of

#: Maximum channels of a transport, below the multicast groups that Linux allows a socket (20).
CHANNELS_MAX = 16
#: Seconds without reading after no arrived datagram was for a waiting channel.
OTHERS_PAUSE_S = 0.001
#: Interval of the search for idle connections (s).
IDLE_CHECK_S = 1.0
#: Overhead of a queued datagram in bytes: about its size in memory.
OVERHEAD_BYTES = 256


@dataclass(slots=True)
class PartStatistics(TrafficStatistics):
    """Counters of one channel on a shared transport, and of the sockets."""

    overrun_datagrams: int = 0
    #: Datagrams for clusters without a channel on the transport.
    unclaimed_datagrams: int = 0
    carrier: object = None


class TransportPart:
    """The transport of one channel over shared sockets. Excess datagrams of its bounded queue are dropped and counted."""

    def __init__(self, shared: SharedTransport, config: SiteConfig, proofs: Proofs | None, group: Physical | None) -> None:
        """`group`: destination of multicasts; None if the carrier knows it, or has no multicast."""
        self.cluster = config.site
        self.proofs = proofs
        self.group = group
        self.waits = False
        self._shared = shared
        self._is_open = True
        self._queue: deque[tuple[bytes, Physical]] = deque()
        self._queued_bytes = Level(config.transport.receive_buffer_bytes)
        self._received_max = config.transport.receive_datagrams_max
        self._arrival = trio.Event()
        self._seen = PartStatistics()

    def physical(self) -> tuple[Physical, ...]:
        return self._shared.carrier.physical()

    def listener(self) -> WatchDesk | None:
        """Return the desk at which all members of the transport are watched."""
        return self._shared.desk

    async def wait(self) -> None:
        """Wait for a datagram. Raises ChannelClosed if the transport closes first."""
        self.waits = True
        try:
            await self._arrival.wait()
        finally:
            self.waits = False
        if self._shared.is_closed:
            raise ChannelClosed(f"the transport at {self._shared.place} was closed before the channel of {self.cluster}")

    def queue_datagram(self, datagram: tuple[bytes, Physical]) -> None:
        size = len(datagram[0]) + OVERHEAD_BYTES
        if not self._queued_bytes.fits(size):
            self._seen.overrun_datagrams += 1
            return
        self._queued_bytes.add(size)
        self._queue.append(datagram)
        self._arrival.set()

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return at most `receive_datagrams_max` datagrams. If the queue is empty, poll the sockets first."""
        if not self._queue and not self._shared.is_closed:
            self._shared.poll()
        count = min(len(self._queue), self._received_max)
        arrived = [self._queue.popleft() for _ in range(count)]
        size = sum([len(data) for data, _ in arrived])
        self._queued_bytes.now -= size + count * OVERHEAD_BYTES
        if not self._queue and self._arrival.is_set() and not self._shared.is_closed:
            self._arrival = trio.Event()
        self._seen.received_datagrams += count
        self._seen.received_bytes += size
        return arrived

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        if not self._is_open or self._shared.is_closed:
            return  # datagrams on a closed transport are lost, as in a network
        if (group := self.group) is not None:
            datagrams = [(to or group, data) for to, data in datagrams]
        self._seen.sent_datagrams += len(datagrams)
        self._seen.sent_bytes += sum([len(data) for _, data in datagrams])
        self._shared.carrier.send(datagrams)

    def wake(self) -> None:
        self._arrival.set()

    def close(self) -> None:
        """Leave the shared transport; the sockets stay open. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._queue.clear()
            self._queued_bytes.now = 0
            self._shared.leave(self)

    def statistics(self) -> PartStatistics:
        shared = self._shared.statistics()
        return replace(self._seen, unclaimed_datagrams=shared.unclaimed_datagrams, carrier=shared.carrier)

    def levels(self) -> dict[str, Level]:
        return {"arrived_bytes": self._queued_bytes, **self._shared.levels()}


class SharedTransport:
    """The sockets of one process, for the channels of several clusters. Made by `open_transport`."""

    def __init__(self, config: SiteConfig, carrier: Transport) -> None:
        """`carrier` is closed with this transport."""
        self.carrier = carrier
        self.is_closed = False
        self._config = config
        self._parts: dict[bytes, TransportPart] = {}
        #: Whether the channels have keys; fixed by the first one.
        self._secured: bool | None = None
        self._used = trio.Event()
        self._unclaimed = 0
        places = carrier.physical()
        self.place = places[0]
        listener = carrier.listener()
        self.desk: WatchDesk | None = None
        if isinstance(listener, socket.socket):
            self.desk = WatchDesk(listener, f"the transport at {self.place}", places)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters with a channel now, in the order of their opening."""
        return tuple(dict.fromkeys([part.cluster for part in self._parts.values()]))

    def open(self, config: SiteConfig, proofs: Proofs | None) -> TransportPart:
        """Open a part for another channel, which closes it. Raises ConfigurationError."""
        if why := self._why_not(config, proofs):
            raise ConfigurationError(why)
        has_groups = isinstance(self.carrier, UdpTransport) and config.transport.multicast
        part = TransportPart(self, config, proofs, config.transport.group(config.site) if has_groups else None)
        self._enter(part)
        self._parts.update(dict.fromkeys(marks_of(part.cluster), part))
        self._secured = proofs is not None
        self._used.set()
        return part

    def _why_not(self, config: SiteConfig, proofs: Proofs | None) -> str:
        """Return why such a channel cannot share, in one sentence; empty if it can."""
        site, mine, theirs = config.site, self._config, config
        if self.is_closed:
            return f"transport: {site} cannot share a transport that is closed."
        if site in self.clusters:
            return f"site: {site} has a member on this transport already; a second one in a process needs another transport."
        if len(self.clusters) == CHANNELS_MAX:
            return f"transport: {CHANNELS_MAX} channels share this one, and no more can; open another one for {site}."
        if not self._parts.keys().isdisjoint(marks_of(site)):
            return (
                f"site: {site} cannot share a transport with {self.clusters}, as their sealed datagrams look alike; rename it."
            )
        if replace(mine.transport, multicast_group="") != replace(theirs.transport, multicast_group=""):
            return f"transport: {site} is configured with other settings than the transport that it is to share."
        if mine.protocols.failure_detection.watch is not theirs.protocols.failure_detection.watch:
            return f"protocols.failure_detection.watch: {site} must equal that of the shared transport."
        if self._secured is not None and self._secured is not (proofs is not None):
            return f"security.keys: of the channels that share a transport all have keys or none has; {site} differs."
        return ""

    def _enter(self, part: TransportPart) -> None:
        carrier = self.carrier
        if isinstance(carrier, UdpTransport) and part.group is not None and not self._hears(part.group):
            carrier.join(part.group)
        if isinstance(carrier, TcpTransport) and part.proofs is not None:
            carrier.greeting.add(part.proofs)

    def leave(self, part: TransportPart) -> None:
        """Remove this part. The others continue, and connections stay until they are idle (LA-25)."""
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
        """Queue datagrams for waiting channels."""
        await self._used.wait()  # before the first channel it is unknown whom to admit
        async with trio.open_nursery() as nursery:
            if self.desk is not None:
                nursery.start_soon(self.desk.run, bool(self._secured), name=f"watchers of the transport at {self.place}")
            while True:
                with trio.move_on_after(IDLE_CHECK_S):
                    await self.carrier.wait()
                if not self.poll():
                    await trio.sleep(OTHERS_PAUSE_S)

    def poll(self) -> bool:
        """Read the sockets and queue the datagrams. Return whether a channel waited for one."""
        arrived = self.carrier.receive()
        awaited = not arrived
        for datagram in arrived:
            if (part := self._parts.get(mark_of(datagram[0]))) is None:
                self._unclaimed += 1
            else:
                part.queue_datagram(datagram)
                awaited = awaited or part.waits
        return awaited

    def close(self) -> None:
        """Close the sockets. A channel that is still open fails with ChannelClosed. Idempotent."""
        self.is_closed = True
        for part in self._parts.values():
            part.wake()
        self.carrier.close()

    def statistics(self) -> PartStatistics:
        return PartStatistics(unclaimed_datagrams=self._unclaimed, carrier=self.carrier.statistics())

    def levels(self) -> dict[str, Level]:
        why = "each has its part of the transport until it is closed"
        return {"channels": Level.of(len(self.clusters), CHANNELS_MAX, why), **self.carrier.levels()}
