"""Whole stacks of NAKACK (and STABLE) over a lossy wire in virtual time: every datagram is really encoded and parsed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.stability import Stability, StabilityConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Transmit, Up
from sitestack.stack.stack import Stack


def address_of(name: str) -> Address:
    """A member called A has an address that shows as 41414141."""
    return Address(name[0].encode() * 16)


def view_of(counter: int, names: str) -> View:
    """The view `counter` of members with one-letter names, made by the first."""
    members = tuple(address_of(name) for name in names)
    view_id = ViewId(counter, members[0])
    return View(view_id, view_id, members, tuple(names))


def frame_of(sender: str, n: int, size: int = 20) -> Frame:
    """Message n of a sender's application, as the layers above NAKACK hand it down."""
    payload = f"{sender}{n}".encode().ljust(size, b".")
    return Frame(address_of(sender), None, (), Batch("site", address_of(sender), Scope.ALL, n, 1, pack_body([payload])))


A, B, C, X = (address_of(name) for name in "ABCX")
V1, V2 = view_of(1, "ABC"), view_of(2, "ABC")


def layer_of(name: str, config: NakAckConfig | None = None) -> NakAck:
    """One layer alone, for what is best seen effect by effect."""
    return NakAck(Local("site", address_of(name), name, random.Random(1)), config or NakAckConfig())


def member_of_v1(name: str, config: NakAckConfig | None = None) -> NakAck:
    layer = layer_of(name, config)
    assert layer.up(ViewInstalled(V1, None), 0.0) == []
    return layer


def cast_of(owner: str, seqno: int, counter: int = 1, size: int = 20) -> Frame:
    """A multicast as it arrives from the wire."""
    frame = frame_of(owner, seqno, size)
    return frame.push(Cast(view_of(counter, "ABC").id, address_of(owner), seqno))


def delivery_of(owner: str, seqno: int, size: int = 20) -> Up:
    return Up(replace(frame_of(owner, seqno, size), seqno=seqno))


def numbers(effects: list[Effect]) -> list[int]:
    """The numbers in the stream of what is handed up."""
    return [effect.event.seqno for effect in effects if isinstance(effect, Up) and isinstance(effect.event, Frame)]


class Control(Layer):
    """Stands for membership: announces what the test tells it to."""

    name = "control"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return [Announce(event)] if isinstance(event, ViewInstalled | Blocked) else [Down(event)]


class Wire(Layer):
    """Stands for the resolver: the physical address of a member is its address in hexadecimal."""

    name = "wire"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if not isinstance(event, Frame):
            return []
        assert not isinstance(event.dest, Physical)
        return [Transmit(None if event.dest is None else Physical(event.dest.hex(), 1), event)]


@dataclass
class Faults:
    """What the wire does to each copy of a datagram. A duplicate comes up to `late_s` later."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: float = 0.001
    spread_s: float = 0.0
    late_s: float = 0.5


class Member:
    """One stack, and what came out of it."""

    def __init__(self, name: str, layers: Sequence[Layer]) -> None:
        self.name = name
        self.address = address_of(name)
        self.stack = Stack(self.address, [Control(), *layers, Wire()], "site", 1_400)
        self.alive = True
        self.sent = 0
        self.events: list[Event] = []
        #: (owner, seqno, n) of each delivery, since the last view.
        self.delivered: list[tuple[str, int, int]] = []

    def collect(self, event: Event | Frame) -> None:
        """Something came out on top."""
        if not isinstance(event, Frame):
            self.events.append(event)
            return
        assert event.batch is not None
        assert event.dest is None
        assert not event.headers
        owner = event.source[:1].decode()
        size = len(event.batch.body) - 4
        assert event == Frame(event.source, None, (), frame_of(owner, event.batch.first, size).batch, False, event.seqno)
        self.delivered.append((owner, event.seqno, event.batch.first))

    def of(self, owner: str) -> list[int]:
        """The numbers delivered of one owner."""
        return [n for name, _, n in self.delivered if name == owner]


class World:
    """Members on one wire. `drop(source, dest, data)` may veto single copies; everything else is up to the seed."""

    def __init__(
        self,
        names: str,
        seed: int = 0,
        faults: Faults | None = None,
        nakack: NakAckConfig | None = None,
        stability: StabilityConfig | None = None,
        fragment: FragmentConfig | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.nakack = nakack or NakAckConfig()
        self.stability = stability
        self.fragment = fragment
        self.now = 0.0
        self.datagrams = 0
        self.drop: Callable[[str, str, bytes], bool] = lambda source, dest, data: False
        #: What went over the wire, a line a frame, when this is a list.
        self.story: list[str] | None = None
        self._queue: list[tuple[float, int, str, str, bytes]] = []
        self._count = 0
        self.members = {name: self._member(name) for name in names}

    def _member(self, name: str) -> Member:
        local = Local("site", address_of(name), name, random.Random(self.rng.random()))
        layers: list[Layer] = [NakAck(local, self.nakack)]
        if self.fragment is not None:
            layers.insert(0, Fragment(local, self.fragment))
        if self.stability is not None:
            layers.insert(0, Stability(local, self.stability))
        member = Member(name, layers)
        for layer in layers:
            if isinstance(layer, Fragment):
                layer.bind(member.stack.codec)
        return member

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def living(self) -> Iterator[Member]:
        """The members that have not been killed."""
        return (member for member in self.members.values() if member.alive)

    def nak(self, name: str) -> NakAck:
        """The NAKACK layer of a member."""
        layer = self[name].stack.layers[-2]
        assert isinstance(layer, NakAck)
        return layer

    # -- what a test does ------------------------------------------------------------------------------------------

    def down(self, name: str, event: Event | Frame) -> None:
        """Hand something to a member's stack, as one turn of its shell."""
        member = self[name]
        member.stack.down(event, self.now)
        self._turn(member)

    def install(self, view: View, names: str | None = None, blocked: bool = False) -> None:
        """Install a view at these members (all living ones of the view if not given)."""
        for name in names if names is not None else "".join(view.names):
            if self[name].alive:
                self[name].delivered.clear()
                self.down(name, ViewInstalled(view, None, blocked=blocked))

    def send(self, name: str, count: int = 1, size: int = 20) -> None:
        """Multicast the next `count` messages of a member, each in a turn of its own."""
        for _ in range(count):
            self[name].sent += 1
            self.down(name, frame_of(name, self[name].sent, size))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        end = self.now + seconds
        while True:
            dues = [(due, member) for member in self.living() if (due := member.stack.deadline()) is not None]
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

    # -- the wire --------------------------------------------------------------------------------------------------

    def _turn(self, member: Member) -> None:
        turn = member.stack.flush(self.now)
        for event in turn.events:
            member.collect(event)
        for to, data in turn.datagrams:
            self.datagrams += 1
            if self.story is not None:
                self.story += [self._tell(member, frame) for frame in member.stack.codec.decode(data).frames]
            for other in self.living():
                if other is not member and to in (None, Physical(other.address.hex(), 1)):
                    self._send(member.name, other.name, data)

    def _tell(self, member: Member, frame: Frame) -> str:
        """Who says what to whom, and when: addresses and views shortened to a letter and a counter."""
        assert not isinstance(frame.dest, Physical)
        said = repr(frame.headers[-1]).replace(", creator=", "|").replace("ViewId(counter=", "(")
        for name, other in self.members.items():
            said = said.replace(repr(other.address), name)
        return f"{self.now * 1000:4.0f} ms {member.name} -> {'all' if frame.dest is None else frame.dest[:1].decode()}: {said}"

    def _send(self, source: str, dest: str, data: bytes) -> None:
        faults, rng = self.faults, self.rng
        if self.drop(source, dest, data):
            return
        if rng.random() >= faults.loss:
            self._push(faults.delay_s + rng.random() * faults.spread_s, source, dest, data)
        if rng.random() < faults.duplication:
            self._push(faults.delay_s + rng.random() * faults.late_s, source, dest, data)

    def _push(self, delay_s: float, source: str, dest: str, data: bytes) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay_s, self._count, source, dest, data))

    def _arrive(self) -> None:
        _, _, source, dest, data = heapq.heappop(self._queue)
        member = self[dest]
        if member.alive:
            member.stack.receive(data, Physical(address_of(source).hex(), 1), self.now)
            self._turn(member)
