"""A pure network of sockets and multicast groups on a virtual clock.

Datagrams really are bytes, so every simulated run also exercises the codec.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from relay_lab.sim.network_faults import Packet, PacketFault, network_of
from relay_lab.sim.schedule import Schedule
from sitestack.model.address import Address, Physical

Receive = Callable[[bytes, Physical], None]


@dataclass(slots=True)
class Latency:
    base: float = 0.0005
    jitter: float = 0.001

    def draw(self, rng: random.Random) -> float:
        return self.base + self.jitter * rng.random()


class Network:
    """Carries datagrams. A process listens at a physical address and belongs to the multicast group of its site."""

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.faults: list[PacketFault] = []
        self.latency = Latency()
        #: Broken routes: nothing gets from the first hosts to the second ones.
        self.cuts: list[tuple[frozenset[str], frozenset[str]]] = []
        self.lost = 0
        self.sent = 0
        self._schedule = schedule
        self._rng = rng
        self._sockets: dict[Physical, Receive] = {}
        self._groups: dict[tuple[str, int], list[Physical]] = {}
        self._members: dict[Physical, Address] = {}
        #: Watcher's address -> the processes that it watches, and what to call when one of them is gone for good.
        self._watches: dict[Physical, tuple[dict[Physical, Address], Callable[[Address], None]]] = {}
        #: Addresses that processes have left by moving: no host answers there, not even to refuse a connection.
        self._vacated: set[Physical] = set()

    def attach(self, address: Physical, group: str, member: Address, receive: Receive) -> None:
        """Open a process's socket, in place of an earlier one at the same address."""
        self._sockets[address] = receive
        self._members[address] = member
        self._vacated.discard(address)
        members = self._groups.setdefault((group, network_of(address)), [])
        if address not in members:
            members.append(address)

    def detach(self, address: Physical, receive: Receive) -> None:
        if self._sockets.get(address) == receive:  # not `is`: a bound method is a new one each time
            del self._sockets[address]
            del self._members[address]
            self._watches.pop(address, None)
            for watcher in list(self._watches):
                self._look(watcher)
            for members in self._groups.values():
                if address in members:
                    members.remove(address)

    def move(self, old: Physical, new: Physical, group: str, member: Address, receive: Receive) -> None:
        """Move a process to another address. The old one answers nothing, not even a refusal: watchers learn nothing."""
        self.attach(new, group, member, receive)
        self._vacated.add(old)
        self.detach(old, receive)

    def watch(self, watcher: Physical, targets: dict[Physical, Address], gone: Callable[[Address], None]) -> None:
        """Keep connections to exactly these processes; `gone` is called when one has ended."""
        self._watches[watcher] = (targets, gone)
        self._look(watcher)

    def _look(self, watcher: Physical) -> None:
        targets, gone = self._watches[watcher]
        for target, member in list(targets.items()):
            silent = target in self._vacated or self.separated(watcher, target)
            if self._members.get(target) != member and not silent:
                del targets[target]
                self._schedule.after(2 * self.latency.draw(self._rng), partial(gone, member))

    def separated(self, one: Physical, other: Physical) -> bool:
        """Return whether packets are cut off in either direction, so that a watcher notices no closed connection."""
        return any((one.host in a and other.host in b) or (other.host in a and one.host in b) for a, b in self.cuts)

    def send(self, source: Physical, to: Physical | None, group: str, data: bytes) -> None:
        group_members = self._groups.get((group, network_of(source)), ())
        targets = [to] if to is not None else [member for member in group_members if member != source]
        self.sent += len(targets)
        for target in targets:
            self._route(Packet(source, target, data, self.latency.draw(self._rng), self._schedule.now, to is None))

    def _route(self, packet: Packet) -> None:
        if self.cuts and any(packet.source.host in a and packet.target.host in b for a, b in self.cuts):
            self.lost += 1
            return
        packets = [packet]
        for rule in self.faults:
            if len(packets) == 1:
                packets = rule(packets[0], self._rng)
            else:
                packets = [after for before in packets for after in rule(before, self._rng)]
        if not packets:
            self.lost += 1
        for each in packets:
            self.deliver(each)

    def deliver(self, packet: Packet) -> None:
        """Let a packet arrive after its delay, past all faults: one that a rule has held back, for instance."""
        self._schedule.after(packet.delay, partial(self._arrive, packet))

    def _arrive(self, packet: Packet) -> None:
        receive = self._sockets.get(packet.target)
        if receive is not None:
            receive(packet.data, packet.source)
