"""Faults of a network: functions from a packet to the packets that arrive.

An empty list loses the packet, two entries duplicate it, a changed delay reorders it. Faults form a
chain; each applies to the packets that the previous one let through.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from sitestack.model.address import Physical
from sitestack.model.fast_frozen import fast_frozen


@fast_frozen
@dataclass(frozen=True, slots=True)
class Packet:
    source: Physical
    target: Physical
    data: bytes
    #: Seconds until it arrives.
    delay: float
    #: Virtual time at which it was sent.
    sent: float
    multicast: bool = False


#: A second interface of a host is on another network, at a port above this one. What harms a host harms both.
SECOND_PORTS = 8_700

PacketFault = Callable[[Packet, random.Random], list[Packet]]


def network_of(address: Physical) -> int:
    """Return which network an interface is on: 0 or 1."""
    return int(address.port > SECOND_PORTS)


def loss(rate: float) -> PacketFault:
    """Each packet is lost with this probability (F1)."""
    return lambda packet, rng: [] if rng.random() < rate else [packet]


def burst_loss(start: float, length: float) -> PacketFault:
    """Everything is lost from `start` for `length` seconds (F1)."""
    return lambda packet, rng: [] if start <= packet.sent < start + length else [packet]


def deaf(target: Physical) -> PacketFault:
    """Multicasts do not reach this socket, unicasts do: as behind a switch that forgot who listens to the group."""
    return lambda packet, rng: [] if packet.multicast and packet.target == target else [packet]


def between(one: Physical, other: Physical, start: float, length: float, rate: float, late_by: float) -> PacketFault:
    """A bad wire between two sockets for a while: it loses packets at this rate, and half of the others are late."""
    ends = ((one, other), (other, one))

    def rule(packet: Packet, rng: random.Random) -> list[Packet]:
        if not start <= packet.sent < start + length or (packet.source, packet.target) not in ends:
            return [packet]
        if rng.random() < rate:
            return []
        return [packet if rng.random() < 0.5 else _late(packet, rng, late_by)]

    return rule


def small_only(source: str | None, target: str, bytes_max: int) -> PacketFault:
    """Larger datagrams to this host vanish, from one host or from all (`source` None): a wire with a wrong MTU."""

    def rule(packet: Packet, rng: random.Random) -> list[Packet]:
        here = packet.target.host == target and source in (None, packet.source.host)
        return [] if here and len(packet.data) > bytes_max else [packet]

    return rule


def dead_interface(network: int, hosts: frozenset[str]) -> PacketFault:
    """Nothing reaches or leaves these hosts on one of their networks (0 or 1)."""

    def rule(packet: Packet, rng: random.Random) -> list[Packet]:
        ends = (packet.source, packet.target)
        return [] if any(end.host in hosts and network_of(end) == network for end in ends) else [packet]

    return rule


class Wire:
    """The wire of one host: a rate in bytes a second each way, and a queue that drops packets when full.

    A multicast passes once, whatever the number of its copies.
    """

    def __init__(self, host: str, bytes_per_s: float, queue_bytes: int) -> None:
        self._host = host
        self._bytes_per_s = bytes_per_s
        self._queue_s = queue_bytes / bytes_per_s
        self._out = self._in = 0.0
        #: The last datagram to a group, and when it has passed; None when it was lost.
        self._cast: tuple[bytes, float, float | None] | None = None

    def __call__(self, packet: Packet, rng: random.Random) -> list[Packet]:
        if packet.source.host == self._host:
            return self._late(packet, self._leave(packet))
        if packet.target.host == self._host:
            self._in, passed = self._pass(self._in, packet)
            return self._late(packet, passed)
        return [packet]

    def _leave(self, packet: Packet) -> float | None:
        if packet.multicast and self._cast is not None and self._cast[:2] == (packet.data, packet.sent):
            return self._cast[2]
        self._out, passed = self._pass(self._out, packet)
        if packet.multicast:
            self._cast = (packet.data, packet.sent, passed)
        return passed

    def _pass(self, free: float, packet: Packet) -> tuple[float, float | None]:
        """When the wire is free again, and when this packet has passed."""
        if free - packet.sent > self._queue_s:
            return free, None
        free = max(free, packet.sent) + len(packet.data) / self._bytes_per_s
        return free, free

    def _late(self, packet: Packet, passed: float | None) -> list[Packet]:
        return [] if passed is None else [replace(packet, delay=packet.delay + passed - packet.sent)]


def duplication(rate: float, late_by: float) -> PacketFault:
    """Some packets arrive twice, the second up to `late_by` seconds later (F2)."""
    return _sometimes(rate, lambda packet, rng: [packet, _late(packet, rng, late_by)])


def reordering(rate: float, late_by: float) -> PacketFault:
    """Return a fault that delays some packets beyond later ones (F3)."""
    return _sometimes(rate, lambda packet, rng: [_late(packet, rng, late_by)])


def corruption(rate: float) -> PacketFault:
    """Some packets arrive with a flipped bit, cut short, or with a tail (F4)."""
    return _sometimes(rate, lambda packet, rng: [replace(packet, data=damaged(packet.data, rng))])


def _sometimes(rate: float, fault: PacketFault) -> PacketFault:
    return lambda packet, rng: [packet] if rng.random() >= rate else fault(packet, rng)


def _late(packet: Packet, rng: random.Random, late_by: float) -> Packet:
    return replace(packet, delay=packet.delay + rng.random() * late_by)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data cut short, with a tail, or with a flipped bit that a UDP checksum would not notice."""
    kind = rng.randrange(3)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        return data + bytes([rng.randrange(256)])
    at = rng.randrange(min(len(data), 3))  # magic or version: elsewhere only authentication would notice
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
