"""Groups of processes that start, die and move, with failure detection, DISCOVERY and resolver; the test plays membership."""

from __future__ import annotations

from sitestack.layers.discovery import Discovery, DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetection, FailureDetectionConfig
from sitestack.layers.resolver import Resolver, ResolverConfig
from sitestack.model.address import Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import Connect, FindMembers, Found, Suspect
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Effect, Layer, Local, Transmit
from tests.harness.addresses import address, name_of, place, view_of
from tests.harness.group import Group, Member
from tests.harness.messages import unicast_of


class Hosts(Group):
    """Processes on one network, with multicast or without."""

    def __init__(self, multicast: bool = True, discovery: DiscoveryConfig | None = None) -> None:
        self.multicast = multicast
        self.discovery = discovery or DiscoveryConfig()

        def layers(local: Local) -> list[Layer]:
            detection = FailureDetection(local, FailureDetectionConfig())
            return [detection, Discovery(local, self.discovery), Resolver(local, ResolverConfig(multicast=multicast))]

        super().__init__("", layers, datagram_bytes_max=60_000)

    def start(self, name: str, *places: Physical, find: bool = True) -> Member:
        """Start a process at its default place or at these; it connects, and searches for others if `find`."""
        member = self.add(name, *places)
        self.down(name, Connect(tuple(member.places)))
        if find:
            self.down(name, FindMembers())
        return member

    def say(self, source: str, dest: str, n: int, within: float) -> None:
        """Send the n-th frame of one process to another, and let so much time pass."""
        self.down(source, frame_to(source, dest, n))
        self.run(within)

    def move(self, name: str, *places: Physical) -> None:
        """The process is at another place from now on, and knows it."""
        self[name].places = places
        self.down(name, Connect(places))

    def view(self, counter: int, names: str, at: str = "") -> View:
        """Install a view at its living members, or at some of them."""
        return self.install(view_of(counter, names), at)

    def site(self, names: str) -> View:
        """Start processes that find each other, and install their first view."""
        for name in names:
            self.start(name)
        self.run(self.discovery.join_wait_s + 0.5)
        view = self.view(1, names)
        self.run(1.0)
        return view

    def suspects(self, name: str) -> list[str]:
        """Return the names of all members that a process was ordered to suspect, in order."""
        return [name_of(member) for event in self[name].of(Suspect) for member in event.members]

    def found(self, name: str) -> str:
        """The names of the peers of a process's last search; it must have ended."""
        return "".join(name_of(peer.address) for peer in self[name].of(Found)[-1].peers)

    def knows(self, name: str) -> str:
        """The names of those whose physical address a process knows, in order."""
        contacts = self[name].layer(Discovery)._contacts
        return "".join(sorted(name_of(each.address) for each in contacts.all()))

    def received(self, name: str) -> list[tuple[str, int]]:
        """(sender, number) of each frame that reached the top of a process."""
        return [(name_of(each.source), each.batch.first) for each in self[name].frames if each.batch is not None]

    def story(self) -> list[tuple[str, Physical | None, str]]:
        """The packets put on the wire since the last call: sender, destination and headers."""
        lines = [(packet.source, packet.to, packet.kinds) for packet in self.wire.sent]
        self.wire.sent.clear()
        return lines


def contact_of(name: str, version: int, at: Physical | None = None) -> Contact:
    """The contact with which a process announces itself."""
    return Contact(address(name), name, (at or place(name),), version)


def frame_to(source: str, dest: str, n: int, size: int = 8) -> Frame:
    """The n-th unicast of the layers above from one process to another."""
    return unicast_of(source, dest, n, bytes(size), unreliable=True)


def sent(effects: list[Effect]) -> list[tuple[Physical | None, int]]:
    """Return a resolver's transmissions: each destination, with the number of the message."""
    transmits = [each for each in effects if isinstance(each, Transmit)]
    return [(each.to, each.frame.batch.first if each.frame.batch else 0) for each in transmits]
