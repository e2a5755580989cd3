"""A group of [Batching, Sequencer, FlowControl] over a fake that stands for everything from Membership down.

The fake gives what those layers promise: numbered FIFO streams per view, reliable FIFO unicasts that mean something in their
view only, and views that come after a flush. Frames travel as bytes, through the real codec. A link can be held, a member
can crash with what it sent last still on the way, and the test says when a view changes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from sitestack.layers.batching import Batching, BatchingConfig
from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.sequencer import Sequencer, SequencerConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Event, Sent, Stable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Down, Dropped, Effect, Layer, Local, Transmit, Up
from sitestack.stack.stack import Stack

SITE = "NYC"


@dataclass(frozen=True, slots=True)
class Numbered(Header):
    """A place in a sender's stream of one view; number 0 marks a unicast of that view."""

    view: int
    number: int


@dataclass(frozen=True, slots=True)
class Do(Event):
    """From the test to the fake: these effects are yours."""

    effects: tuple[Effect, ...]


class FakeGroup(Layer):
    """Membership, NAKACK and UNICAST as the layers above see them."""

    name = "fake"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x01: Numbered}

    def __init__(self, local: Local) -> None:
        self.me = local.address
        self.view = 0
        self.blocked = False
        #: Per stream of this view, what this member has.
        self.log: dict[Address, list[Frame]] = {}
        self.early: list[Frame] = []
        self.left = False
        self.casts = 0
        self.unicasts = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Do):
            return list(event.effects)
        if not isinstance(event, Frame):
            return [Down(event)]
        if isinstance(event.dest, Physical) or event.unreliable:
            return [Down(event)]
        if event.dest is None:
            assert not self.blocked, "a multicast during a flush"
            assert self.view, "a multicast before the first view"
            self.casts += 1
            stream = self.log.setdefault(self.me, [])
            own = Frame(self.me, None, event.headers, event.batch, False, len(stream) + 1)
            stream.append(own)
            return [Transmit(None, own.push(Numbered(self.view, own.seqno))), Up(own)]
        if event.dest == self.me:
            return [Up(event)]
        self.unicasts += 1
        application = event.batch is not None and event.batch.target is not None
        tagged = event if application else event.push(Numbered(self.view, 0))
        return [Transmit(physical(event.dest), tagged)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, ViewInstalled):
            self.view, self.blocked = event.view.id.counter, event.blocked
            self.log = {}
            early, self.early = self.early, []
            return [effect for frame in early for effect in self.receive(frame)]
        if isinstance(event, Blocked):
            self.blocked = True
        return self.receive(event) if isinstance(event, Frame) else []

    def receive(self, frame: Frame) -> list[Effect]:
        tag = frame.top(Numbered)
        if tag is None:
            return [Up(frame)]
        if tag.view > self.view:
            self.early.append(frame)
            return []
        if tag.view < self.view:
            return [Dropped("old_view")]
        if tag.number == 0:
            return [Up(frame.pop())]
        if self.blocked:
            return [Dropped("beyond_the_cut")]
        return self.append(Frame(frame.source, None, frame.headers[:-1], frame.batch, False, tag.number))

    def append(self, frame: Frame) -> list[Effect]:
        stream = self.log.setdefault(frame.source, [])
        assert frame.seqno == len(stream) + 1, "the stream is FIFO"
        stream.append(frame)
        return [Up(frame)]


def physical(member: Address) -> Physical:
    return Physical(bytes(member).hex(), 1)


def address(name: str) -> Address:
    return Address(name.encode() * 16)


def view_of(counter: int, names: str) -> View:
    members = tuple(map(address, names))
    view_id = ViewId(counter, members[0])
    return View(view_id, view_id, members, tuple(names))


def batch_of(origin: str, first: int, count: int = 1, scope: Scope = Scope.ALL, site: str = SITE) -> Batch:
    """Messages like b"B7"."""
    payloads = [f"{origin}{n}".encode() for n in range(first, first + count)]
    return Batch(site, address(origin), scope, first, count, pack_body(payloads))


def sequencer_of(name: str, config: SequencerConfig | None = None) -> Sequencer:
    """A sequencer alone."""
    return Sequencer(Local(SITE, address(name), name, random.Random(0)), config or SequencerConfig())


def firsts(effects: list[Effect]) -> list[int]:
    """The first numbers of the batches that are sent."""
    frames = [effect.event for effect in effects if isinstance(effect, Down) and isinstance(effect.event, Frame)]
    return [frame.batch.first for frame in frames if frame.batch is not None]


@dataclass(frozen=True, slots=True)
class Configs:
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    sequencer: SequencerConfig = field(default_factory=SequencerConfig)
    flow_control: FlowControlConfig = field(default_factory=FlowControlConfig)


class Node:
    """One member."""

    def __init__(self, name: str, configs: Configs) -> None:
        local = Local(SITE, address(name), name, random.Random(0))
        self.name = name
        self.address = local.address
        self.batching = Batching(local, configs.batching)
        self.sequencer = Sequencer(local, configs.sequencer)
        self.flow_control = FlowControl(local, configs.flow_control)
        self.fake = FakeGroup(local)
        layers = (self.batching, self.sequencer, self.flow_control, self.fake)
        self.stack = Stack(local.address, layers, SITE, 1400)
        self.events: list[Event | Frame] = []
        #: What left, by destination, since the test last looked.
        self.inbox: deque[tuple[Address, bytes]] = deque()

    def send(self, *payloads: bytes, scope: Scope = Scope.ALL, to: Address | None = None) -> bool:
        going = [self.batching.append(each, Scope.UNICAST if to is not None else scope, to) for each in payloads]
        return going[-1]

    @property
    def frames(self) -> list[Frame]:
        return [each for each in self.events if isinstance(each, Frame)]

    @property
    def batches(self) -> list[Batch]:
        return [each.batch for each in self.frames if each.batch is not None]

    @property
    def delivered(self) -> list[tuple[str, bytes]]:
        """(sender, payload) in order of delivery."""
        frames = [(frame, frame.batch) for frame in self.frames]
        return [(chr(frame.source[0]), payload) for frame, batch in frames if batch is not None for payload in batch.payloads()]

    def payloads(self, sender: str) -> list[bytes]:
        return [payload for source, payload in self.delivered if source == sender]

    def states(self) -> tuple[Header, ...]:
        """What the layers give."""
        return tuple(state for layer in self.stack.layers if (state := layer.give_state()) is not None)

    @property
    def table(self) -> tuple[int, int]:
        """(undelivered, unstable) batches in the forward-table."""
        levels = self.sequencer.levels()
        assert bool(levels["undelivered"].now) is bool(levels["undelivered_bytes"].now)
        return levels["undelivered"].now, levels["unstable"].now

    @property
    def sent(self) -> list[Batch]:
        return [each.batch for each in self.events if isinstance(each, Sent)]

    @property
    def drops(self) -> dict[str, int]:
        return self.stack.drops


class Group:
    """The members, and the network between them."""

    def __init__(self, names: str, configs: Configs | None = None, install: bool = True) -> None:
        self.configs = configs or Configs()
        self.nodes = {name: Node(name, self.configs) for name in names}
        self.now = 0.0
        self.counter = 0
        #: (from, to) -> datagrams that do not arrive yet.
        self.held: dict[tuple[str, str], list[bytes]] = {}
        if install:
            self.install(names)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    # -- the network -------------------------------------------------------------------------------------------------

    def hold(self, source: str, dest: str) -> None:
        """From now on nothing arrives over this link."""
        self.held.setdefault((source, dest), [])

    def release(self, source: str, dest: str) -> None:
        """What was held arrives, and what follows too."""
        for data in self.held.pop((source, dest), []):
            self.nodes[dest].inbox.append((address(source), data))

    def crash(self, name: str) -> None:
        """It is gone, and what is on its way over held links with it."""
        del self.nodes[name]
        self.held = {link: data for link, data in self.held.items() if name not in link}

    def turn(self, node: Node) -> bool:
        """One turn of a member's shell; False when nothing happened."""
        arrived = bool(node.inbox)
        while node.inbox:
            source, data = node.inbox.popleft()
            node.stack.receive(data, physical(source), self.now)
        node.stack.expire(self.now)
        turn = node.stack.flush(self.now)
        node.events += turn.events
        for to, data in turn.datagrams:
            for other in list(self.nodes.values()):
                if other is not node and to in (None, physical(other.address)):
                    self._carry(node.name, other, data)
        return arrived or bool(turn.events or turn.datagrams)

    def _carry(self, source: str, other: Node, data: bytes) -> None:
        link = (source, other.name)
        if link in self.held:
            self.held[link].append(data)
        else:
            other.inbox.append((address(source), data))

    def settle(self) -> None:
        """Turns, until nothing moves."""
        for _ in range(10_000):
            if not [node for node in self.nodes.values() if self.turn(node)]:
                return
        raise AssertionError("the group never rests")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    # -- what the fake does ------------------------------------------------------------------------------------------

    def do(self, name: str, *effects: Effect) -> None:
        """The fake of this member says this."""
        self.nodes[name].stack.down(Do(effects), self.now)

    def block(self, names: Iterable[str]) -> None:
        for name in names:
            self.do(name, Announce(Blocked()))

    def equalise(self, names: str) -> None:
        """What the flush does: all deliver the longest prefix of each stream that one of them has."""
        logs = [self[name].fake.log for name in names if name in self.nodes]
        for owner in sorted({owner for log in logs for owner in log}):
            longest = max((log.get(owner, []) for log in logs), key=len)
            for name in names:
                fake = self[name].fake
                for frame in longest[len(fake.log.get(owner, [])) :]:
                    self.do(name, *fake.append(frame))

    def install(self, names: str, **options: bool) -> View:
        """The members stand in a new view; who has none yet gets the state of the first member that has one."""
        self.counter += 1
        view = view_of(self.counter, names)
        old = {name: self[name].fake.view for name in names}
        giver = next((self[name] for name in names if old[name]), None)
        states = () if giver is None else giver.states()
        for name in names:
            joins = old[name] == 0
            event = ViewInstalled(view, None if joins else view, states if joins else (), **options)
            self.do(name, Announce(event))
        return view

    def split(self, *parts: str) -> None:
        """Each part goes on without the others, and nothing arrives from one in another."""
        for part in parts:
            for name in part:
                for other in "".join(parts):
                    if other not in part:
                        self.hold(name, other)
        for part in parts:
            self.change_view(part)

    def merge(self, *parts: str) -> None:
        """One view again: each part brings along what its layers hold. What was on its way between them is lost."""
        self.held.clear()
        self.counter += 1
        view = view_of(self.counter, "".join(parts))
        for part in parts:
            self.block(part)
            self.equalise(part)
        states = {part: self[part[0]].states() for part in parts}
        for part in parts:
            others = tuple(state for other in parts if other != part for state in states[other])
            for name in part:
                self.do(name, Announce(ViewInstalled(view, view, others)))

    def change_view(self, names: str) -> None:
        """A whole flush, from the block to the next view."""
        for name in names:
            if name not in self.nodes:
                self.nodes[name] = Node(name, self.configs)
        old = "".join(name for name in names if self[name].fake.view)
        self.block(old)
        self.equalise(old)
        self.install(names)

    def stable(self) -> None:
        """Everybody is told what everybody has."""
        logs = [node.fake.log for node in self.nodes.values()]
        owners = sorted({owner for log in logs for owner in log})
        vector = {owner: min(len(log.get(owner, [])) for log in logs) for owner in owners}
        for name in self.nodes:
            self.do(name, Up(Stable(vector)))
