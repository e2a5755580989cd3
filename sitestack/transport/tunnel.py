"""TUNNEL of JGroups: all datagrams go through gossip routers, over connections that the members open.

A member's physical address is its uuid: the router knows it by the connection of its registration.
A unicast goes through the first router that knows its target, a multicast through the fewest
routers that reach all members. For the layers above this is as unreliable as UDP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sitestack.config import TransportConfig
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.level import Level
from sitestack.transport import TrafficStatistics
from sitestack.transport.router_link import Registrant, RouterLink, RouterLinks
from sitestack.wire import routing
from sitestack.wire.routing import Entry, framed

#: The port in a physical address that is a uuid; routers ignore it.
TUNNEL_PORT = 1
_DATA_START = 1 + UUID_BYTES


@dataclass(slots=True)
class TunnelStatistics(TrafficStatistics):
    #: Dropped datagrams: no router knows the member, or the router's queue was full.
    unsent_datagrams: int = 0


def place_of(member: Address) -> Physical:
    """Return the physical address of a member that is reached through a tunnel."""
    return Physical(bytes(member).hex(), TUNNEL_PORT)


class TunnelTransport:
    def __init__(self, config: TransportConfig, routers: Sequence[Physical], registrant: Registrant) -> None:
        """Connect at the first `receive`."""
        me = registrant.entry.address
        self._physical = place_of(me)
        registered = replace(registrant, entry=Entry(me, registrant.entry.name, (self._physical,)))
        self.links = RouterLinks(routers, registered, config.send_queue_bytes_max, self._take)
        #: Bounded by one turn's reading.
        self._arrived: deque[tuple[bytes, Physical]] = deque()
        #: The routers that a multicast goes to, and the one for each member.
        self._casting: list[RouterLink] = []
        self._ways: dict[str, RouterLink] = {}
        #: Called with members that no router knows any more.
        self.report: Callable[[Address], None] = lambda _member: None
        self._seen = TunnelStatistics()

    def physical(self) -> tuple[Physical, ...]:
        """Return the uuid in the form of an address, which accepts no connections."""
        return (self._physical,)

    def listener(self) -> None:
        """Return None: no member can connect to watch."""

    async def wait(self) -> None:
        await self.links.wait()

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return arrived datagrams, at most one reading per router."""
        if self.links.poll():
            self._find_ways()
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def _take(self, _link: RouterLink, frame: bytes) -> None:
        source = frame[1:_DATA_START]
        if len(source) < UUID_BYTES:
            return
        self._seen.received_datagrams += 1
        self._seen.received_bytes += len(frame) - _DATA_START
        self._arrived.append((frame[_DATA_START:], place_of(Address(source))))

    def _find_ways(self) -> None:
        before, self._ways, self._casting = self._ways, {}, []
        for link in self.links.up():
            new = [each for each in link.others if bytes(each).hex() not in self._ways]
            self._ways.update(dict.fromkeys([bytes(each).hex() for each in new], link))
            if new:
                self._casting.append(link)
        if self.links.has_answer():  # else this member has lost the routers
            for gone in before:
                if gone not in self._ways:
                    self.report(Address(bytes.fromhex(gone)))

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        seen = self._seen
        for to, data in datagrams:
            if to is None:
                # without other members there is no target
                seen.unsent_datagrams += not self.links.up()
                for link in self._casting:
                    self._count(link.send(framed(routing.CAST, data)), data)
                continue
            way = self._ways.get(to.host)
            if way is None:
                seen.unsent_datagrams += 1
            else:
                self._count(way.send(framed(routing.SEND, bytes.fromhex(to.host), data)), data)
        self.links.flush()

    def _count(self, sent: bool, data: bytes) -> None:
        if sent:
            self._seen.sent_datagrams += 1
            self._seen.sent_bytes += len(data)
        else:
            self._seen.unsent_datagrams += 1

    def close(self) -> None:
        self.links.close()

    def statistics(self) -> TunnelStatistics:
        return replace(self._seen)

    def levels(self) -> dict[str, Level]:
        return self.links.levels()
