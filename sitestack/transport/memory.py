"""Datagrams inside one process: a network for tests. Delivery is immediate and in order unless `allow` loses a datagram."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import trio

from sitestack.model.address import Physical
from sitestack.model.level import Level

#: Returns whether a datagram from the first address to the second arrives.
Allow = Callable[[Physical, Physical], bool]

#: Excess datagrams are lost.
QUEUED_DATAGRAMS_MAX = 4_096


@dataclass(slots=True)
class MemoryStatistics:
    received_datagrams: int = 0
    sent_datagrams: int = 0
    overrun_datagrams: int = 0


class MemoryNetwork:
    """A network that connects all transports it opened, with multicast."""

    def __init__(self, allow: Allow | None = None) -> None:
        self.allow = allow or (lambda source, to: True)
        self._members: dict[Physical, MemoryTransport] = {}
        self._opened = 0

    def open(self) -> MemoryTransport:
        self._opened += 1
        transport = MemoryTransport(self, Physical("memory", self._opened))
        self._members[transport.address] = transport
        return transport

    def carry(self, source: Physical, to: Physical | None, data: bytes) -> None:
        """Deliver a datagram to one member, or to all. Multicasts loop back to the sender."""
        for address in list(self._members) if to is None else [to]:
            member = self._members.get(address)
            if member is not None and self.allow(source, address):
                member.queue_datagram(data, source)

    def remove(self, address: Physical) -> None:
        self._members.pop(address, None)


class MemoryTransport:
    def __init__(self, network: MemoryNetwork, address: Physical) -> None:
        self.address = address
        self._network = network
        self._queue: deque[tuple[bytes, Physical]] = deque()
        self._arrival = trio.Event()
        self._seen = MemoryStatistics()

    def physical(self) -> tuple[Physical, ...]:
        return (self.address,)

    def listener(self) -> None:
        """Return None: members inside one process need not be watched."""

    async def wait(self) -> None:
        await self._arrival.wait()

    def receive(self) -> list[tuple[bytes, Physical]]:
        arrived = list(self._queue)
        self._queue.clear()
        if self._arrival.is_set():
            self._arrival = trio.Event()
        self._seen.received_datagrams += len(arrived)
        return arrived

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        self._seen.sent_datagrams += len(datagrams)
        for to, data in datagrams:
            self._network.carry(self.address, to, data)

    def queue_datagram(self, data: bytes, source: Physical) -> None:
        if len(self._queue) == QUEUED_DATAGRAMS_MAX:
            self._seen.overrun_datagrams += 1
            return
        self._queue.append((data, source))
        self._arrival.set()

    def close(self) -> None:
        self._network.remove(self.address)

    def statistics(self) -> MemoryStatistics:
        return replace(self._seen)

    def levels(self) -> dict[str, Level]:
        return {"queued_datagrams": Level.of(len(self._queue), QUEUED_DATAGRAMS_MAX)}
