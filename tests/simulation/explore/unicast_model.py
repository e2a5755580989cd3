"""UNICAST2 between two processes, over a network that forgets nothing.

Each datagram may arrive at any time, any number of times, or never: loss, duplication and reordering have no bound.
The bounds are the messages, the closed connections, and the timers that expire.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.model.events import CloseConnection, Undeliverable
from sitestack.model.frame import Frame
from sitestack.stack.layer import Down, Local, Up
from tests.harness.addresses import SITE, address
from tests.harness.messages import texts_of, unicast_of
from tests.simulation.explore.explorer import START_S, Contents, Model, Steady, Step
from tests.simulation.explore.explorer import State as AnyState

CONTENTS = Contents(
    # statistics; ages that matter only after `give_up_s` and `idle_s`, far beyond the timers of a run
    "_retransmitted retransmitted _window_bytes_high _queue_bytes_high _reorder_bytes_high high _config _local _rng "
    "heard_at _active_at _moved_at give_up_at _given_up _me _peer peer stale codec",
    "_ask_at answer_at _retry_at _due _walk_from",
    Frame,
)
#: Timers further ahead (s), such as `idle_s`, are not explored.
HORIZON_S = 10.0
OTHER = {"A": "B", "B": "A"}


class Facts(NamedTuple):
    sent: tuple[str, ...]
    got: tuple[str, ...]
    unacknowledged: int
    due_s: float


class Talker:
    def __init__(self, name: str) -> None:
        self.name, self.now = name, START_S
        self.layer = Unicast(Local(SITE, address(name), name, Steady()), UnicastConfig())
        self.sent: list[str] = []
        self.got: list[str] = []

    def input(self, what: Frame | str | float) -> tuple[Frame, ...]:
        match what:
            case Frame():
                effects = self.layer.up(what, self.now)
            case "send":
                self.sent.append(str(len(self.sent) + 1))
                frame = unicast_of(self.name, OTHER[self.name], len(self.sent), self.sent[-1].encode())
                effects = self.layer.down(frame, self.now)
            case "close":
                effects = self.layer.down(CloseConnection(address(OTHER[self.name])), self.now)
            case "timer":
                self.now = max(self.now, self.layer.deadline() or 0.0)
                effects = self.layer.expire(self.now)
            case float():
                self.now += what
                return ()
        effects = [*effects, *self.layer.flush(self.now)]
        up = [each.event for each in effects if isinstance(each, Up)]
        assert not [each for each in up if isinstance(each, Undeliverable)], "given up"
        self.got += [text for each in up if isinstance(each, Frame) for text in texts_of(each)]
        return tuple([each.event for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)])

    def contents(self) -> Hashable:
        return CONTENTS.all((self.layer, self.sent, self.got), self.now)

    def facts(self) -> Facts:
        unacknowledged = self.layer.levels()["window_frames"].now
        due_s = max(0.0, (self.layer.deadline() or math.inf) - self.now)
        return Facts(tuple(self.sent), tuple(self.got), unacknowledged, due_s)


@dataclass(frozen=True, slots=True)
class State(AnyState):
    #: The receiver of each datagram ever sent. In a run without faults: of those under way, in order.
    network: frozenset[tuple[str, Frame]] | tuple[tuple[str, Frame], ...] = ()
    #: The senders of the messages to come.
    to_send: str = ""


class UnicastModel(Model):
    def __init__(self, messages: str, closes: int, timers: int) -> None:
        """`messages`: their senders, in order."""
        super().__init__(Talker, ("A", "B"), closes, timers, 0)
        self.messages = messages

    def start(self) -> State:
        return State((0, 0), self.left, frozenset(), self.messages)

    def deliveries(self, state: State) -> Iterator[Step]:
        for dest, frame in state.network:
            rest = state if isinstance(state.network, frozenset) else replace(state, network=state.network[1:])
            yield ("deliver", dest, frame), partial(self.step, rest, dest, frame)

    def faults(self, state: State) -> Iterator[Step]:
        assert isinstance(state.left, tuple)
        for sender in state.to_send[:1]:
            after = replace(state, to_send=state.to_send[1:])
            yield ("send", sender), partial(self.step, after, sender, "send")
        for name in self.names if state.left[0] else ():
            yield ("close", name), partial(self.step, self.spend(state, 0), name, "close")

    def step(self, state: State, name: str, what: Frame | str) -> State:
        state, sent = self.enter(state, name, what)
        network = (*state.network, *[(OTHER[name], frame) for frame in sent])
        return replace(state, network=network if isinstance(state.left, float) else frozenset(network))

    def due(self, state: State, late_s: float) -> list[str]:
        facts = self.facts(state)
        return [name for name in super().due(state, late_s) if facts[name].due_s < HORIZON_S]

    def check(self, state: State) -> None:
        facts = self.facts(state)
        for name, other in OTHER.items():
            sent, got = facts[name].sent, facts[other].got
            assert got == sent[: len(got)], f"{other} delivered {got}"

    def calm(self, state: State) -> State:
        return State(state.members)

    def missing(self, state: State) -> str | None:
        facts = self.facts(state)
        held = any(facts[name].got != facts[other].sent or facts[name].unacknowledged for name, other in OTHER.items())
        return f"undelivered: {facts}" if held else None
