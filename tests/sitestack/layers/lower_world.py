"""The lower half of a stack (failure detection, discovery, resolver) on a small network in virtual time.

Hosts are addresses on the network, processes come and go on them, and every datagram is really encoded and parsed. Membership
is played by the test: it installs views.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from sitestack.layers.discovery import Discovery, DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetection, FailureDetectionConfig
from sitestack.layers.resolver import Resolver, ResolverConfig
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import Connect, Event, FindMembers, Found, Left, Suspect, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Down, Dropped, Effect, Layer, Local, Transmit
from sitestack.stack.stack import Stack


def address_of(name: str) -> Address:
    """A process called A has an address that shows as 41414141."""
    return Address(name[0].encode() * 16)


def place_of(name: str) -> Physical:
    """Where a process called A is unless the test says otherwise: a:1."""
    return Physical(name[0].lower(), 1)


def contact_of(name: str, version: int, place: Physical | None = None) -> Contact:
    """What a process called A may have said of itself."""
    return Contact(address_of(name), name, (place or place_of(name),), version)


def view_of(counter: int, names: str) -> View:
    """The view `counter` of processes with one-letter names, made by the first."""
    members = tuple(address_of(name) for name in names)
    view_id = ViewId(counter, members[0])
    return View(view_id, view_id, members, tuple(names))


def local_of(name: str) -> Local:
    """What the layers of a process are told about it."""
    return Local("site", address_of(name), name, random.Random(name))


def frame_to(source: str, dest: str, n: int, size: int = 8) -> Frame:
    """The n-th unicast of the layers above from one process to another."""
    payload = str(n).encode().ljust(size, b".")
    batch = Batch("site", address_of(source), Scope.UNICAST, n, 1, pack_body([payload]), address_of(dest), "site")
    return Frame(address_of(source), address_of(dest), (), batch, True)


class Control(Layer):
    """Stands for membership: announces what the test tells it to."""

    name = "control"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return [Announce(event)] if isinstance(event, ViewInstalled | Left) else [Down(event)]


class Process:
    """One running process: a stack, where it is, and what came out on top."""

    def __init__(self, name: str, layers: list[Layer], places: tuple[Physical, ...]) -> None:
        self.name = name
        self.address = address_of(name)
        self.places = places
        self.stack = Stack(self.address, [Control(), *layers], "site", 60_000)
        self.alive = True
        self.view: View | None = None
        self.events: list[Event] = []
        #: (sender, n) of each frame that reached the top.
        self.received: list[tuple[str, int]] = []

    def resolver(self) -> Resolver:
        layer = self.stack.layers[-1]
        assert isinstance(layer, Resolver)
        return layer

    def discovery(self) -> Discovery:
        layer = self.stack.layers[-2]
        assert isinstance(layer, Discovery)
        return layer

    def detector(self) -> FailureDetection:
        layer = self.stack.layers[-3]
        assert isinstance(layer, FailureDetection)
        return layer

    def suspects(self) -> list[str]:
        """The names of everybody reported so far, in order."""
        suspects = [event for event in self.events if isinstance(event, Suspect)]
        return [member[:1].decode() for event in suspects for member in event.members]

    def found(self) -> str:
        """The names of the peers of the last search; it must have ended."""
        found = [event for event in self.events if isinstance(event, Found)]
        return "".join(peer.address[:1].decode() for peer in found[-1].peers)

    def knows(self) -> str:
        """The names of those whose physical address is known, in order."""
        return "".join(sorted(each.address[:1].decode() for each in self.discovery()._contacts.all()))

    def collect(self, event: Event | Frame) -> None:
        if not isinstance(event, Frame):
            self.events.append(event)
            return
        assert event.batch is not None
        self.received.append((event.source[:1].decode(), event.batch.first))


class World:
    """Processes on one network. `drop(source, to, data)` may veto single copies."""

    def __init__(
        self,
        multicast: bool = True,
        discovery: DiscoveryConfig | None = None,
        detector: FailureDetectionConfig | None = None,
        resolver: ResolverConfig | None = None,
    ) -> None:
        self.multicast = multicast
        self.discovery = discovery or DiscoveryConfig()
        self.detector = detector or FailureDetectionConfig()
        self.resolver = resolver or ResolverConfig(multicast=multicast)
        self.now = 0.0
        self.delay_s = 0.001
        self.processes: dict[str, Process] = {}
        self.drop: Callable[[str, Physical, bytes], bool] = lambda source, to, data: False
        #: What was put on the wire: (source, to, kinds of the headers in it).
        self.wire: list[tuple[str, Physical | None, str]] = []
        self._queue: list[tuple[float, int, str, Physical, bytes]] = []
        self._count = 0

    def __getitem__(self, name: str) -> Process:
        return self.processes[name]

    # -- what a test does ------------------------------------------------------------------------------------------

    def start(self, name: str, *places: Physical, find: bool = True) -> Process:
        """A process starts (at its own place unless told otherwise), connects, and looks around."""
        local = local_of(name)
        layers: list[Layer] = [
            FailureDetection(local, self.detector),
            Discovery(local, self.discovery),
            Resolver(local, self.resolver),
        ]
        process = self.processes[name] = Process(name, layers, places or (place_of(name),))
        self.down(name, Connect(process.places))
        if find:
            self.down(name, FindMembers())
        return process

    def kill(self, name: str) -> None:
        """The process is gone without a word."""
        self[name].alive = False

    def move(self, name: str, *places: Physical) -> None:
        """The process is at another place from now on, and knows it."""
        self[name].places = places
        self.down(name, Connect(places))

    def down(self, name: str, event: Event | Frame) -> None:
        """Hand something to a process, as one turn of its shell."""
        self[name].stack.down(event, self.now)
        self._turn(self[name])

    def install(self, counter: int, names: str, at: str | None = None) -> View:
        """Install a view at its living members, or at some of them. A joiner is given the coordinator's states."""
        view = view_of(counter, names)
        creator = self[names[0]].stack.layers
        states = tuple(state for layer in creator if (state := layer.give_state()) is not None)
        for name in names if at is None else at:
            process = self[name]
            if process.alive:
                previous, process.view = process.view, view
                self.down(name, ViewInstalled(view, previous, () if previous or name == names[0] else states))
        return view

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        end = self.now + seconds
        while True:
            living = [each for each in self.processes.values() if each.alive]
            dues = [(due, each) for each in living if (due := each.stack.deadline()) is not None]
            due, waiting = min(dues, key=lambda each: each[0], default=(float("inf"), None))
            arrival = self._queue[0][0] if self._queue else float("inf")
            if min(due, arrival) > end:
                break
            self.now = max(self.now, min(due, arrival))
            if arrival <= due:
                self._arrive()
            elif waiting is not None:
                waiting.stack.expire(self.now)
                self._turn(waiting)
        self.now = end

    def site(self, names: str) -> View:
        """Start processes that find each other, and install their first view."""
        for name in names:
            self.start(name)
        self.run(self.discovery.join_wait_s + 0.5)
        view = self.install(1, names)
        self.run(1.0)
        return view

    # -- the network -----------------------------------------------------------------------------------------------

    def _turn(self, process: Process) -> None:
        turn = process.stack.flush(self.now)
        for event in turn.events:
            process.collect(event)
        for to, data in turn.datagrams:
            frames = process.stack.codec.decode(data).frames
            kinds = " ".join(type(each.headers[-1]).__name__ if each.headers else "data" for each in frames)
            self.wire.append((process.name, to, kinds))
            if to is not None:
                self._send(process.name, to, data)
                continue
            assert self.multicast, "there is no multicast on this network"
            places = dict.fromkeys(each.places[0] for each in self.processes.values() if each.alive and each is not process)
            for place in places:
                self._send(process.name, place, data)

    def _send(self, source: str, to: Physical, data: bytes) -> None:
        if self.drop(source, to, data):
            return
        self._count += 1
        heapq.heappush(self._queue, (self.now + self.delay_s, self._count, source, to, data))

    def _arrive(self) -> None:
        _, _, source, to, data = heapq.heappop(self._queue)
        for process in [each for each in self.processes.values() if each.alive and to in each.places]:
            process.stack.receive(data, place_of(source), self.now)
            self._turn(process)


def drops(effects: list[Effect]) -> list[str]:
    """The reasons of what was dropped."""
    return [each.reason for each in effects if isinstance(each, Dropped)]


def sent(effects: list[Effect]) -> list[tuple[Physical | None, int]]:
    """What a resolver transmits: where to, and the number of the message."""
    transmits = [each for each in effects if isinstance(each, Transmit)]
    return [(each.to, each.frame.batch.first if each.frame.batch else 0) for each in transmits]
