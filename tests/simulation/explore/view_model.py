"""A view change: A coordinates B, C joins and receives the application's state, and one of them may be killed.

The layers from state transfer to NAKACK are real. UNICAST2 is its promise: a queue for each pair of processes.
Multicasts and retransmissions may arrive at any time, twice up to a bound, or never. No living process is suspected.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise, permutations
from typing import Any, NamedTuple
from unittest.mock import patch

from sitestack.layers.membership import Membership
from sitestack.layers.membership.config import LeaderTimes, MembershipConfig
from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.layers.sequencer import Sequencer, SequencerConfig
from sitestack.layers.state_transfer import StateTransfer, StateTransferConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Connect, Event, FindMembers, Found, Peer, SeenView, Suspect, ViewInstalled
from sitestack.model.frame import Destination, Frame
from sitestack.model.state_events import GiveState, StateArrived, StateGiven
from sitestack.model.view import View, ViewId
from sitestack.stack import stack
from sitestack.stack.layer import Effect, Layer, Local, Up
from sitestack.wire.codec import Codec
from tests.harness.addresses import SITE, address, name_of, view_of
from tests.harness.messages import frame_of, texts_of
from tests.harness.ordered import Do
from tests.simulation.explore.explorer import REST_S, START_S, Contents, Model, Steady, Step
from tests.simulation.explore.explorer import State as AnyState

CONFIG = MembershipConfig(leader=LeaderTimes(batch_s=0.0))
CONTENTS = Contents(
    "_local _config _times _rng stale high _handlers flushes_started merges_started _sent _retransmitted _restarts "
    "_taken_states _told _me local codec",
    "",
    Frame,
)
#: Seconds between two heartbeats in a run without faults.
HEARTBEAT_S = 1.0
CODEC = Codec(SITE, {**StateTransfer.HEADERS, **Sequencer.HEADERS, **Membership.HEADERS, **NakAck.HEADERS})


class Ground(Layer):
    """Everything below NAKACK: collects sent frames, and returns the effects of the model."""

    name = "ground"

    def __init__(self) -> None:
        self.sent: list[Frame | FindMembers] = []

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Do):
            return list(event.effects)
        if isinstance(event, Frame) and event.dest == event.source:
            return [Up(event)]
        if isinstance(event, Frame | FindMembers):
            self.sent.append(event)
        return []


class Facts(NamedTuple):
    view: View | None
    #: The words delivered in each view.
    history: tuple[tuple[ViewId, tuple[str, ...]], ...]
    #: The application's state; None until it has come.
    words: tuple[str, ...] | None
    suspected: tuple[Address, ...]
    due_s: float
    seeks: bool


#: An output: the receiver (None: all others), whether it may be lost, and the frame.
Sent = tuple[Destination, bool, bytes]


class Member:
    """One process, and its application: the list of words that it has delivered."""

    def __init__(self, name: str) -> None:
        self.now = START_S
        local = Local(SITE, address(name), name, Steady())
        self.membership: Any = Membership(local, CONFIG)
        self.ground = Ground()
        above = (StateTransfer(local, StateTransferConfig(), takes_part=True), Sequencer(local, SequencerConfig()))
        layers = [*above, self.membership, NakAck(local, NakAckConfig()), self.ground]
        with patch.object(stack, "Codec", lambda *_: CODEC):
            self.stack = stack.Stack(address(name), layers, SITE, 1_400)
        self.name = name
        self.view: View | None = None
        self.history: list[tuple[ViewId, list[str]]] = []
        self.words: list[str] | None = None
        self.seeks = False

    def input(self, what: Any) -> tuple[Sent, ...]:
        down = self.stack.down
        match what:
            case "join":
                down(Connect((Physical("c", 1),)), self.now)
            case "found":  # the member of a first view
                effects = self.membership._follower.install(view_of(1, "AB"), ())
                self.stack._walk(self.stack.layers.index(self.membership), effects, self.now)
            case "send":
                down(frame_of(self.name, 1, 0), self.now)
            case "timer":
                self.now = max(self.now, self.stack.deadline() or 0.0)
            case float():
                self.now += what
                return ()
            case str() as source, bytes() as data:
                frame = CODEC.decode_frame(data, address(source), address(self.name))
                down(Do((Up(frame),)), self.now)
            case Event():
                self.seeks = self.seeks and not isinstance(what, Found)
                down(Do((Up(what),)), self.now)
        return self.end_turn(what == "timer")

    def end_turn(self, expire: bool) -> tuple[Sent, ...]:
        """Flush, and let timers expire that are due at once; return the outputs."""
        while expire or self.stack.deadline() == self.now or (events := self.stack.flush(self.now).events):
            if expire or self.stack.deadline() == self.now:
                self.stack.expire(self.now)
                expire, events = False, self.stack.flush(self.now).events
            for event in events:
                self.hand_over(event)
        sent, self.ground.sent = self.ground.sent, []
        self.seeks |= any(isinstance(each, FindMembers) for each in sent)
        frames = [each for each in sent if isinstance(each, Frame)]
        lossy = [type(each.headers[-1]) in NakAck.HEADERS.values() for each in frames]
        return tuple([(each.dest, lost, CODEC.encode_frame(each)) for each, lost in zip(frames, lossy, strict=True)])

    def hand_over(self, event: Event | Frame) -> None:
        match event:
            case ViewInstalled(view):
                self.view = view
                self.history.append((view.id, []))
            case Frame() if event.batch is not None:
                self.history[-1][1].extend(texts_of(event))
                if self.words is not None:
                    self.words += texts_of(event)
            case GiveState(point) if self.words is not None:
                self.stack.down(StateGiven(point, " ".join(self.words).encode()), self.now)
            case StateArrived(point, data):
                since = [word for view, words in self.history if view >= point for word in words]
                self.words = [*(data or b"").decode().split(), *since]

    def contents(self) -> Hashable:
        # deadlines: ages of times past decide nothing else
        dues = [layer.deadline() for layer in self.stack.layers]
        return CONTENTS.all((self.history, self.words, self.seeks, dues, *self.stack.layers), self.now)

    def facts(self) -> Facts:
        history = tuple([(view, tuple(words)) for view, words in self.history])
        words = None if self.words is None else tuple(self.words)
        suspected = tuple(self.membership._leader.changes.suspected)
        due = self.stack.deadline()
        return Facts(self.view, history, words, suspected, 1e9 if due is None else max(0.0, due - self.now), self.seeks)


@dataclass(frozen=True, slots=True)
class State(AnyState):
    #: For each sender and receiver, the unicasts under way.
    queues: tuple[tuple[str, str, tuple[bytes, ...]], ...] = ()
    #: Receiver, sender and data of each multicast and retransmission under way.
    network: tuple[tuple[str, str, bytes], ...] = ()
    #: The members that have sent, and those that will send, one multicast each.
    sent: str = ""
    to_send: str = ""


class ViewModel(Model):
    def __init__(self, senders: str, kills: int = 1, timers: int = 0, duplicates: int = 0) -> None:
        super().__init__(Member, ("A", "B", "C"), kills, timers, duplicates)
        self.senders = senders

    def start(self) -> State:
        """A and B are in a view and have reported their states; C begins to join."""
        state = State((0, 0, 0))
        for name in "AB":
            state = self.step(state, name, "found")
        while (step := next(self.deliveries(state), None)) is not None:
            state = step[1]()
        return replace(self.step(state, "C", "join"), left=self.left, to_send=self.senders)

    def deliveries(self, state: State) -> Iterator[Step]:
        for at, (source, dest, queue) in enumerate(state.queues):
            rest = (*state.queues[:at], *([(source, dest, queue[1:])] if queue[1:] else []), *state.queues[at + 1 :])
            yield ("deliver", source, dest), partial(self.step, replace(state, queues=rest), dest, (source, queue[0]))
        for at, (dest, source, data) in enumerate(state.network):
            after = replace(state, network=(*state.network[:at], *state.network[at + 1 :]))
            yield ("arrive", source, dest, data), partial(self.step, after, dest, (source, data))

    def duties(self, state: State) -> Iterator[Step]:
        """Failure detection reports a dead member of a view."""
        living = self.facts(state)
        for name, facts in living.items():
            for member in facts.view.members if facts.view is not None else ():
                if name_of(member) not in living and member not in facts.suspected:
                    yield ("suspect", name, name_of(member)), partial(self.step, state, name, Suspect((member,)))

    def faults(self, state: State) -> Iterator[Step]:
        assert isinstance(state.left, tuple)
        kills, _, duplicates = state.left
        for name in set(state.to_send) & set(self.facts(state)):
            after = replace(state, sent=state.sent + name, to_send=state.to_send.replace(name, ""))
            yield ("send", name), partial(self.step, after, name, "send")
        for name in self.facts(state) if kills else ():
            yield ("kill", name), partial(self.kill, self.spend(state, 0), name)
        for dest, source, data in state.network if duplicates else ():
            yield ("arrive twice", source, dest, data), partial(self.step, self.spend(state, 2), dest, (source, data))

    def kill(self, state: State, name: str) -> State:
        members = tuple([None if each == name else number for each, number in zip(self.names, state.members, strict=True)])
        queues = tuple([each for each in state.queues if each[1] != name])
        return replace(
            state, members=members, queues=queues, network=tuple([each for each in state.network if each[0] != name])
        )

    def step(self, state: State, name: str, what: Any) -> State:
        state, outputs = self.enter(state, name, what)
        queues = {(source, dest): queue for source, dest, queue in state.queues}
        network = dict.fromkeys(state.network)
        others = [each for each in self.facts(state) if each != name]
        for to, may_be_lost, data in outputs:
            for dest in [each for each in others if to in (None, address(each))]:
                if may_be_lost:
                    network[dest, name, data] = None
                else:
                    queues[name, dest] = (*queues.get((name, dest), ()), data)
        state = replace(
            state, queues=tuple([(*ends, each) for ends, each in sorted(queues.items())]), network=tuple(sorted(network))
        )
        facts = self.facts(state)
        if not facts[name].seeks:
            return state
        views = [(each, facts[each].view) for each in others]
        peers = [Peer(address(each), None if v is None else v.coordinator, None if v is None else v.id) for each, v in views]
        return self.step(state, name, Found(tuple(peers)))

    def check(self, state: State) -> None:
        facts = self.facts(state)
        for name, each in facts.items():
            ids = [view for view, _ in each.history]
            assert ids == sorted(set(ids)), f"the views of {name} go back"
            assert each.view is None or address(name) in each.view.members
            assert each.words is None or len(set(each.words)) == len(each.words), f"{name} delivers twice: {each.words}"
        for one, other in combinations(facts.items(), 2):
            self._compare(*one, *other, len(facts) < len(self.names))

    def _compare(self, name: str, one: Facts, other_name: str, other: Facts, is_dead: bool) -> None:
        """Two members agree in the views that both installed one after the other, and on one order until they part."""
        both = f"{name} and {other_name}"
        if one.view is not None and other.view is not None and one.view.id == other.view.id:
            assert one.view.members == other.view.members, f"{both} differ in the members"
        steps = {(view, then): words for (view, words), (then, _) in pairwise(other.history)}
        for (view, words), (then, _) in pairwise(one.history):
            assert steps.get((view, then), words) == words, f"{both} differ in {view}"
        if one.words is None or other.words is None:
            return
        ids = [[view for view, _ in each.history] for each in (one, other)]
        common = [[each for each in own if max(ids[0][0], ids[1][0]) <= each <= min(ids[0][-1], ids[1][-1])] for own in ids]
        if common[0] != common[1]:
            assert is_dead, f"{both} parted: {ids}"
            return
        shorter, longer = sorted([one.words, other.words], key=len)
        assert longer[: len(shorter)] == shorter, f"{both} have two orders: {one.words}, {other.words}"

    def calm(self, state: State) -> State:
        queues = tuple([each for each in state.queues if each[0] in self.facts(state)])
        return replace(state, queues=queues, network=(), left=REST_S)

    def pass_time(self, state: State) -> State:
        """Let the next timer expire; members of different views hear each other."""
        is_near = min(facts.due_s for facts in self.facts(state).values()) <= HEARTBEAT_S
        state = super().pass_time(state) if is_near else self.wait(state, HEARTBEAT_S)
        views = {name: facts.view for name, facts in self.facts(state).items() if facts.view is not None}
        for (name, mine), (other, theirs) in permutations(views.items(), 2):
            if mine.id != theirs.id:
                state = self.step(state, name, SeenView(address(other), theirs.id))
        return state

    def missing(self, state: State) -> str | None:
        facts = self.facts(state)
        views = {name: each.view and each.view.names for name, each in facts.items()}
        words = {name: each.words for name, each in facts.items()}
        is_merged = any(each.view is not None and each.view.subviews for each in facts.values())
        differ = None in words.values() or (not is_merged and len(set(words.values())) > 1)
        lost = [name for name in state.sent if name in facts and f"{name}1" not in (words[name] or ())]
        return f"{views} {words}" if differ or lost or set(views.values()) != {tuple(facts)} else None
