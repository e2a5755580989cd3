"""What one channel has of a shared transport (`shared.py`).

What it has not read is bounded as a kernel bounds a socket; beyond, what is for it is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from sitestack.config import SiteConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed
from sitestack.model.level import Level
from sitestack.seal.proofs import Proofs

if TYPE_CHECKING:
    from sitestack.transport.shared import SharedTransport
    from sitestack.transport.watch_desk import WatchDesk

#: What a queued datagram counts besides its bytes: about what it takes in memory.
OVERHEAD_BYTES = 256


@dataclass(slots=True)
class PartStatistics:
    """What one channel has seen of a shared transport, and what the sockets have."""

    received_datagrams: int = 0
    received_bytes: int = 0
    sent_datagrams: int = 0
    sent_bytes: int = 0
    #: Datagrams dropped because this channel had not read the ones before.
    overrun_datagrams: int = 0
    #: Datagrams for clusters that have no channel on the transport.
    unclaimed_datagrams: int = 0
    carrier: object = None


class Part:
    """What one channel has of a shared transport: a transport."""

    def __init__(self, shared: SharedTransport, config: SiteConfig, proofs: Proofs | None, group: Physical | None) -> None:
        """`group` is where the cluster's multicasts go; None where the carrier knows, or has no multicast."""
        self.cluster = config.site
        self.proofs = proofs
        self.group = group
        #: Whether its channel waits for something to arrive.
        self.waits = False
        self._shared = shared
        self._is_open = True
        self._queue: deque[tuple[bytes, Physical]] = deque()
        self._queued_bytes = Level(config.transport.receive_buffer_bytes)
        self._received_max = config.transport.receive_datagrams_max
        self._arrival = trio.Event()
        self._seen = PartStatistics()

    def physical(self) -> tuple[Physical, ...]:
        """Those of the sockets: the members of a process differ in their UUIDs, and not in their addresses."""
        return self._shared.carrier.physical()

    def listener(self) -> WatchDesk | None:
        """The desk at which all members of the transport are watched."""
        return self._shared.desk

    async def wait(self) -> None:
        """Wait until something is here. Raises ChannelClosed when the transport was closed first."""
        self.waits = True
        try:
            await self._arrival.wait()
        finally:
            self.waits = False
        if self._shared.is_closed:
            raise ChannelClosed(f"the transport at {self._shared.place} was closed before the channel of {self.cluster}")

    def take(self, datagram: tuple[bytes, Physical]) -> None:
        """Queue what has arrived for this channel, if there is room."""
        size = len(datagram[0]) + OVERHEAD_BYTES
        if not self._queued_bytes.fits(size):
            self._seen.overrun_datagrams += 1
            return
        self._queued_bytes.add(size)
        self._queue.append(datagram)
        self._arrival.set()

    def receive(self) -> list[tuple[bytes, Physical]]:
        """What has arrived, at most `receive_datagrams_max`. When nothing has, it looks at the sockets first."""
        if not self._queue and not self._shared.is_closed:
            self._shared.poll()
        count = min(len(self._queue), self._received_max)
        arrived = [self._queue.popleft() for _ in range(count)]
        size = sum([len(data) for data, _ in arrived])
        self._queued_bytes.now -= size + count * OVERHEAD_BYTES
        if not self._queue and self._arrival.is_set():
            self._arrival = trio.Event()
        self._seen.received_datagrams += count
        self._seen.received_bytes += size
        return arrived

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Send to the members of this cluster."""
        if not self._is_open or self._shared.is_closed:
            return  # what leaves a transport that is gone is lost, as in a network
        if (group := self.group) is not None:
            datagrams = [(to or group, data) for to, data in datagrams]
        self._seen.sent_datagrams += len(datagrams)
        self._seen.sent_bytes += sum([len(data) for _, data in datagrams])
        self._shared.carrier.send(datagrams)

    def end(self) -> None:
        """Wake the channel: the sockets are gone."""
        self._arrival.set()

    def close(self) -> None:
        """Give the part back; the sockets stay open. Closing twice is allowed."""
        if self._is_open:
            self._is_open = False
            self._queue.clear()
            self._queued_bytes.now = 0
            self._shared.leave(self)

    def statistics(self) -> PartStatistics:
        """What this channel has seen, and what the sockets have."""
        shared = self._shared.statistics()
        return replace(self._seen, unclaimed_datagrams=shared.unclaimed_datagrams, carrier=shared.carrier)

    def levels(self) -> dict[str, Level]:
        """Those of the transport, and what this channel has not read."""
        return {"arrived_bytes": self._queued_bytes, **self._shared.levels()}
