"""Groups of [BATCHING, SEQUENCER, FLOW CONTROL] over a stub of all lower layers.

The stub provides their promises: numbered FIFO streams per view, reliable FIFO unicasts, and views
after a flush. Only held frames take time. A member can crash with its last frames
under way, and the test changes views.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from sitestack.layers.batching import Batching, BatchingConfig
from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.sequencer import Sequencer, SequencerConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Event, Sent, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import SubView, View
from sitestack.stack.layer import Announce, Down, Dropped, Effect, Layer, Local, Up
from tests.harness.addresses import local_of, name_of, view_of
from tests.harness.group import Group
from tests.harness.messages import present
from tests.harness.wire import Faults


@dataclass(frozen=True, slots=True)
class Numbered(Header):
    """A place in a sender's stream of one view; number 0 marks a unicast."""

    view: int
    number: int


@dataclass(frozen=True, slots=True)
class Do(Event):
    """Event with which the test makes `Streams` return these effects."""

    effects: tuple[Effect, ...]


class Streams(Layer):
    """Membership, NAKACK and UNICAST as the layers above see them."""

    name = "streams"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x01: Numbered}

    def __init__(self, local: Local) -> None:
        self.me = local.address
        self.view = 0
        self.blocked = False
        #: The frames that this member has of each stream of this view.
        self.log: dict[Address, list[Frame]] = {}
        self.early: list[Frame] = []
        self.casts = 0
        self.unicasts = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Do):
            return list(event.effects)
        if not isinstance(event, Frame) or isinstance(event.dest, Physical) or event.unreliable:
            return [Down(event)]
        if event.dest is None:
            assert not self.blocked, "a multicast during a flush"
            assert self.view, "a multicast before the first view"
            self.casts += 1
            stream = self.log.setdefault(self.me, [])
            own = Frame(self.me, None, event.headers, event.batch, False, len(stream) + 1)
            stream.append(own)
            return [Down(own.push(Numbered(self.view, own.seqno))), Up(own)]
        if event.dest == self.me:
            return [Up(event)]
        self.unicasts += 1
        application = event.batch is not None and event.batch.target is not None
        return [Down(event if application else event.push(Numbered(self.view, 0)))]

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
        if tag.number == 0:
            return [Up(frame.pop())]
        if tag.view > self.view:
            self.early.append(frame)
            return []
        if tag.view < self.view:
            return [Dropped("old_view")]
        if self.blocked:
            return [Dropped("beyond_the_cut")]
        return self.append(Frame(frame.source, None, frame.headers[:-1], frame.batch, False, tag.number))

    def append(self, frame: Frame) -> list[Effect]:
        stream = self.log.setdefault(frame.source, [])
        assert frame.seqno == len(stream) + 1, "the stream is FIFO"
        stream.append(frame)
        return [Up(frame)]


@dataclass(frozen=True, slots=True)
class Configs:
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    sequencer: SequencerConfig = field(default_factory=SequencerConfig)
    flow_control: FlowControlConfig = field(default_factory=FlowControlConfig)


class OrderedGroup(Group):
    """Members that send and deliver in the order of their site."""

    def __init__(self, names: str, configs: Configs | None = None, install: bool = True) -> None:
        of = configs or Configs()

        def layers(local: Local) -> list[Layer]:
            above = (Batching(local, of.batching), Sequencer(local, of.sequencer), FlowControl(local, of.flow_control))
            return [*above, Streams(local)]

        super().__init__(names, layers, faults=Faults(delay_s=0.0))
        self.counter = 0
        if install:
            self.next_view(names)

    def send(self, name: str, *payloads: bytes, scope: Scope = Scope.ALL, to: Address | None = None) -> bool:
        """Hand messages to batching; True when more may follow."""
        batching = self[name].layer(Batching)
        return [batching.append(each, Scope.UNICAST if to is not None else scope, to) for each in payloads][-1]

    def say(self, name: str, *payloads: bytes, scope: Scope = Scope.ALL, to: Address | None = None) -> None:
        """Send messages, and let turns pass until the group rests."""
        self.send(name, *payloads, scope=scope, to=to)
        self.settle()

    def streams(self, name: str) -> Streams:
        """The layer that stands in for all below the layers of a member."""
        return self[name].layer(Streams)

    def sent(self, name: str) -> list[Batch]:
        """The batches that a member has closed."""
        return [each.batch for each in self[name].of(Sent)]

    def table(self, name: str) -> int:
        """The number of batches in a forward table."""
        levels = self[name].layer(Sequencer).levels()
        assert bool(levels["undelivered"].now) is bool(levels["undelivered_bytes"].now)
        return levels["undelivered"].now

    def pass_time(self, seconds: float) -> None:
        """Move the clock forward at once, without the turns in between."""
        self.now += seconds
        self.settle()

    # -- events of the layers below ---------------------------------------------------------------------------------

    def do(self, name: str, *effects: Effect) -> None:
        """Make the streams of this member return these effects, without ending the turn."""
        self[name].stack.down(Do(effects), self.now)

    def block(self, names: Iterable[str]) -> None:
        for name in names:
            self.do(name, Announce(Blocked()))

    def equalise(self, names: str) -> None:
        """Equalise as a flush does: all deliver the longest prefix of each stream that any of them has."""
        logs = [self.streams(name).log for name in names if self[name].alive]
        for owner in sorted({owner for log in logs for owner in log}):
            longest = max((log.get(owner, []) for log in logs), key=len)
            for name in names:
                streams = self.streams(name)
                for frame in longest[len(streams.log.get(owner, [])) :]:
                    self.do(name, *streams.append(frame))

    def next_view(self, names: str, blocked: bool = False) -> View:
        """Install the next view at these members, without ending the turn."""
        self.counter += 1
        return self.install(view_of(self.counter, names), blocked=blocked)

    def announce(self, name: str, event: ViewInstalled) -> None:
        self.do(name, Announce(event))

    def change_view(self, names: str) -> None:
        """A whole flush, from the block to the next view."""
        for name in names:
            if name not in self.members or not self[name].alive:
                self.add(name)
        old = "".join(name for name in names if self[name].view)
        self.block(old)
        self.equalise(old)
        self.next_view(names)

    def split(self, *parts: str) -> None:
        """Split the group into parts, each with a separate view and without traffic between them."""
        for part in parts:
            for name in part:
                for other in "".join(parts):
                    if other not in part:
                        self.wire.hold(name, other)
        for part in parts:
            self.change_view(part)

    def merge(self, *parts: str) -> None:
        """Merge the parts: each brings the states of its layers. Frames under way between parts are lost."""
        for name in "".join(parts):
            self.wire.cut(name)
        self.counter += 1
        subviews = tuple([self.subview(part) for part in parts])
        view = replace(view_of(self.counter, "".join(parts)), subviews=subviews)
        for part in parts:
            self.block(part)
            self.equalise(part)
        states = {part: self[part[0]].states() for part in parts}
        for part in parts:
            others = tuple(state for other in parts if other != part for state in states[other])
            for name in part:
                previous, self[name].view = self[name].view, view
                self.announce(name, ViewInstalled(view, previous, others))

    def subview(self, part: str) -> SubView:
        """The part of a merge view with these survivors of their view."""
        old = present(self[part[0]].view)
        return SubView(old.id, tuple([each for each in old.members if name_of(each) in part]), old.lineage)


def sequencer_of(name: str, config: SequencerConfig | None = None, view: str = "") -> Sequencer:
    """A sequencer alone, with a first view of these members if there are any."""
    sequencer = Sequencer(local_of(name), config or SequencerConfig())
    if view:
        sequencer.up(ViewInstalled(view_of(1, view), None), 0.0)
    return sequencer
