"""Two ends of flow control, and all histories of views between them: at rest everything that was asked for has come back."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.flow_control.accounts import FRAME_BYTES
from sitestack.model.address import Address
from sitestack.model.events import Undeliverable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Effect, Local
from tests.harness.addresses import SITE, address

A, B = address("A"), address("B")


@dataclass(slots=True)
class End:
    """One side, and its way to the other one: FIFO, but the layers below drop frames outside the receiver's view."""

    me: Address
    flow: FlowControl
    view: View
    #: With the view that a frame belongs to; None for an application's unicast, which belongs to none.
    way: deque[tuple[ViewId | None, Frame]] = field(default_factory=deque)
    #: Frames that arrived before their view.
    held: list[tuple[ViewId | None, Frame]] = field(default_factory=list)
    sent: int = 0

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            frame = effect.event if isinstance(effect, Down) else None
            if not isinstance(frame, Frame):
                continue
            of_application = frame.batch is not None and frame.batch.scope is Scope.UNICAST
            tagged = (None if of_application else self.view.id, frame)
            if frame.dest != self.me:
                self.way.append(tagged)
            if frame.dest in (None, self.me):
                self.receive(*tagged)

    def send(self, dest: Address | None, scope: Scope, size: int) -> None:
        self.sent += 1
        batch = Batch(SITE, self.me, scope, self.sent, 1, bytes(size - FRAME_BYTES))
        self.carry_out(self.flow.down(Frame(self.me, dest, (), batch), 0.0))

    def receive(self, view: ViewId | None, frame: Frame) -> None:
        if view is None or view == self.view.id:
            self.carry_out(self.flow.up(frame, 0.0))
        elif view > self.view.id:
            self.held.append((view, frame))

    def install(self, view: View) -> None:
        previous, self.view = self.view, view
        self.carry_out(self.flow.up(ViewInstalled(view, previous), 0.0))
        held, self.held = self.held, []
        for each in held:
            self.receive(*each)

    def give_up(self, other: Address) -> None:
        """UNICAST reports all that is not acknowledged."""
        frames = tuple([frame for _, frame in self.way if frame.dest is not None])
        self.way = deque([each for each in self.way if each[1].dest is None])
        self.carry_out(self.flow.up(Undeliverable(other, frames), 0.0))


class History:
    """Views in common and apart, each installed when it pleases, and frames that take their time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counter = 1
        #: Agreed upon, and not installed yet by each.
        self.coming: dict[Address, list[View]] = {A: [], B: []}
        view = self.view_of(A, B)
        self.ends = {each: self.end(each, view) for each in (A, B)}

    def end(self, me: Address, view: View) -> End:
        flow = FlowControl(
            Local(SITE, me, "", random.Random(0)), FlowControlConfig(window_bytes=self.rng.choice((1, 5_000, 50_000)))
        )
        flow.up(ViewInstalled(view, None), 0.0)
        return End(me, flow, view)

    def view_of(self, *members: Address) -> View:
        view_id = ViewId(self.counter, members[0])
        return View(view_id, view_id, members, tuple(["x"] * len(members)))

    def step(self) -> None:
        me, other = self.rng.sample((A, B), 2)
        end = self.ends[me]
        match self.rng.choice(("unicast", "unicast", "forward", "cast", "arrive", "arrive", "install", "agree", "give up")):
            case "unicast":
                end.send(other, Scope.UNICAST, self.rng.choice((200, 1_000, 9_000)))
            case "forward" if other in end.view.members:
                end.send(other, Scope.ALL, 1_000)
            case "cast":
                end.send(None, Scope.ALL, 1_000)
            case "arrive":
                self.arrive(me, self.rng.randrange(1, 20))
            case "install" if self.coming[me]:
                end.install(self.coming[me].pop(0))
            case "agree" if self.rng.random() < 0.3:
                self.agree(together=self.rng.random() < 0.5)
            case "give up" if self.rng.random() < 0.3:
                end.give_up(other)

    def agree(self, *, together: bool) -> None:
        """No member agrees upon a view before the last one is installed."""
        for me, views in self.coming.items():
            while views:
                self.ends[me].install(views.pop(0))
        self.counter += 1
        for me in self.coming:
            self.coming[me] = [self.view_of(A, B) if together else self.view_of(me)]

    def arrive(self, me: Address, count: int) -> None:
        end, other = self.ends[me], self.ends[B if me == A else A]
        for _ in range(min(count, len(end.way))):
            other.receive(*end.way.popleft())
        for each in (end, other):
            each.carry_out(each.flow.flush(0.0))

    def rest(self) -> None:
        """One more common view, in which one is busy before the other comes to it; then all arrives or is given up."""
        self.agree(together=True)
        first, second = self.rng.sample((A, B), 2)
        for me in (first, second):
            self.ends[me].install(self.coming[me].pop(0))
            for _ in range(20):
                self.ends[me].send(second if me == first else first, self.rng.choice((Scope.UNICAST, Scope.ALL)), 1_000)
                self.ends[me].send(None, Scope.ALL, 1_000)
            self.arrive(me, self.rng.randrange(20))
        if self.rng.random() < 0.5:
            self.ends[first].give_up(second)
            self.arrive(first, 0)
        while any(end.way for end in self.ends.values()):
            for me in (A, B):
                self.arrive(me, 1_000)


@pytest.mark.parametrize("seed", range(60))
def test_at_rest_every_mark_is_acknowledged_and_nothing_waits(seed: int) -> None:
    history = History(seed)
    for _ in range(400):
        history.step()
    history.rest()
    for end in history.ends.values():
        assert [name for name, level in end.flow.levels().items() if not level.is_at_rest] == []
