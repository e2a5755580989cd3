"""Flow control with the layers above it, in a group: a slow member blocks the others, without loss or repetition."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field, replace

import pytest

from sitestack.layers.batching import Batching, BatchingConfig
from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.flow_control import layer as module
from sitestack.layers.flow_control.accounts import FRAME_BYTES
from sitestack.layers.sequencer import SequencerConfig
from sitestack.model.address import Address
from sitestack.model.events import Blocked, Credit, Left, Unblocked, Undeliverable, ViewInstalled, Waiting
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up
from tests.harness.addresses import SITE, address, view_of
from tests.harness.messages import present
from tests.harness.ordered import Configs, OrderedGroup
from tests.sitestack.layers.flow_control.test_flow_control import (
    VIEW,
    A,
    B,
    C,
    credits_from,
    credits_of,
    flow_of,
    frame,
    marked,
    marks,
    offer,
    sent,
)

SLOW = Configs(
    BatchingConfig(batch_bytes_max=1_000, window_bytes=4_000, send_credit_bytes=20_000),
    SequencerConfig(),
    FlowControlConfig(window_bytes=8_000, backlog_bytes_max=3_000),
)


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("slow", ["A", "B", "C"])
def test_one_slow_application_blocks_all_senders_until_it_reads_again(slow: str, order: str) -> None:
    config = SequencerConfig(order="total" if order == "total" else "fifo")
    group = OrderedGroup("ABC", replace(SLOW, sequencer=config))
    group[slow].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("ABC", 0)
    for _ in range(300):
        for name in "ABC":
            if group[name].layer(Batching).writable:
                counts[name] += 1
                group.send(name, b"%0200d" % counts[name])
        group.settle()
    assert not any(group[name].layer(Batching).writable for name in "ABC")
    for name in "ABC":
        assert (group[name].layer(FlowControl).levels()["ahead_bytes"].high or 0) <= 8_000 + 1_200
    assert len(group["B"].delivered) < sum(counts.values())
    for _ in range(100):
        group.pass_time(10.0)  # queued frames are not forwarded again and again
    for name in "ABC":
        assert (group[name].layer(FlowControl).levels()["queued_bytes"].high or 0) <= 4 * 8_000

    group[slow].stack.down(Credit(0), group.now)
    group.settle()
    for _ in range(10):
        group.pass_time(40.0)
    for name in "ABC":
        assert group[name].layer(Batching).writable
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
        assert group[name].layer(FlowControl).levels()["queued_frames"].now == 0
    if order == "total":
        assert group["A"].delivered == group["B"].delivered == group["C"].delivered


def test_a_slow_receiver_of_unicasts_stops_only_unicasts_to_it() -> None:
    group = OrderedGroup("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    count, batching = 0, group["B"].layer(Batching)
    while not batching.full_targets and count < 100:
        count += 1
        group.say("B", b"%0500d" % count, to=C)
    assert (batching.full_targets, batching.writable) == (frozenset({C}), True)
    assert 8_000 < 500 * count < 40_000
    assert group.send("A", b"free", to=B)
    group.settle()
    assert group["B"].payloads("A") == [b"free"]
    group["C"].stack.down(Credit(0), 0.0)
    group.settle()
    assert not batching.full_targets
    assert group["C"].payloads("B") == [b"%0500d" % n for n in range(1, count + 1)]


def test_waiting_for_credit_over_a_view_change_loses_and_repeats_nothing() -> None:
    group = OrderedGroup("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("AB", 0)
    for name in "AB":
        while group[name].layer(Batching).writable:
            counts[name] += 1
            group.say(name, b"%0200d" % counts[name])
    group.kill("C")
    group.change_view("AB")
    group.settle()
    for name in "AB":
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
    assert group["A"].delivered == group["B"].delivered
    assert group["A"].drops["queued_before_view"] > 0


def test_nothing_passes_during_a_block_nor_before_the_first_view() -> None:
    flow = flow_of(joined=False)
    assert flow.down(frame(1), 0.0) == flow.down(frame(1, B), 0.0) == []
    assert flow.up(ViewInstalled(VIEW, None), 0.0)[1:] == [Down(frame(1, B))]
    offer(flow, 11)
    flow.up(Blocked(), 0.0)
    assert flow.down(frame(2, B), 0.0) == []
    for member in (A, B, C):
        assert sent(flow.up(credits_from(member, 10_000), 0.0)) == []
    assert flow.up(ViewInstalled(view_of(2, "ABC"), VIEW, blocked=True), 0.0) == [Dropped("queued_before_view", 1)]
    assert flow.down(frame(12), 0.0) == []


def test_the_queues_resume_after_a_block_without_a_flush() -> None:
    flow = flow_of()
    flow.up(Blocked(), 0.0)
    assert flow.down(frame(1), 0.0) == flow.down(frame(2, B), 0.0) == []
    assert sent(flow.up(Unblocked(), 0.0)) == [1, 2]
    assert sent(flow.down(frame(3), 0.0)) == [3]


def test_a_stranger_sent_to_in_a_block_without_a_flush_returns_no_credit_and_needs_none() -> None:
    """Unicasts to it would stop after a window, until the next view."""
    flow, stranger = flow_of(), address("X")
    flow.up(Blocked(), 0.0)
    assert flow.down(frame(1, stranger), 0.0) == []
    flow.up(marked(3_000, member=stranger, dest=A), 0.0)
    assert flow.up(Unblocked(), 0.0) == [Up(Unblocked()), Down(frame(1, stranger))]
    assert [flow.down(frame(n, stranger), 0.0) for n in range(2, 14)] == [[Down(frame(n, stranger))] for n in range(2, 14)]
    assert credits_of(flow.flush(0.0)[:-1]) == []


def test_a_view_discards_queued_multicasts_and_starts_their_totals_again() -> None:
    flow = flow_of()
    offer(flow, 12)
    flow.up(Blocked(), 0.0)
    assert flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0) == [Dropped("queued_before_view", 2)]
    assert flow.flush(0.0) == [Up(Waiting(0, {}))]
    assert [sent(flow.down(frame(n), 0.0)) for n in (11, 12)] == [[11], [12]]
    assert flow.levels()["queued_bytes"].now == 0
    assert flow.levels()["ahead_bytes"].now == 2_000


def test_a_view_keeps_the_queue_of_a_member_and_releases_that_of_a_departed_one() -> None:
    flow = flow_of()
    for n in range(1, 24):
        flow.down(frame(n, B), 0.0)
        flow.down(frame(n, C), 0.0)
    effects = flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0)
    to_c, to_b = effects[:13], effects[13:]
    assert to_c == [Down(frame(n, C)) for n in range(11, 24)]
    assert sent(to_b) == [*range(11, 21)], "in the new account there is a whole window"
    assert marks(to_b)[:3] == [None, None, 3_000]
    assert flow.levels()["queued_frames"].now == 3
    assert sent(flow.up(credits_from(B, 0, 5_000, view=2), 0.0)) == [21, 22, 23]


def test_frames_of_an_earlier_view_use_up_no_window() -> None:
    """They may have been dropped, or counted by no member: B has had another view in between."""
    flow = flow_of()
    for view in (2, 3, 4):
        assert [sent(flow.down(frame(n, B), 0.0)) for n in range(1, 8)] == [[n] for n in range(1, 8)]
        flow.up(ViewInstalled(view_of(view, "ABC"), None), 0.0)
    assert flow.up(credits_from(B, 0, 3_000, view=3), 0.0) == [Dropped("stale_credits")]
    assert flow.levels()["awaited_bytes"].now == 0


def test_a_mark_of_an_earlier_view_is_not_returned() -> None:
    flow = flow_of()
    flow.up(marked(9_000, dest=A), 0.0)
    flow.up(ViewInstalled(view_of(2, "ABC"), VIEW), 0.0)
    assert flow.flush(0.0) == []
    flow.up(marked(6_000, dest=A), 0.0)
    assert flow.flush(0.0) == []
    flow.up(marked(3_000, dest=A, view=2), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 3_000)]


@pytest.mark.parametrize("joined", [False, True])
def test_marks_that_overtake_their_view_are_returned_when_it_is_here(joined: bool) -> None:
    """Else a sender that had used up its window would wait for ever."""
    flow, late = flow_of(joined=joined), address("D")
    for total in (3_000, 9_000, 6_000):
        flow.up(marked(total, member=late, dest=A, view=2), 0.0)
    assert flow.flush(0.0) == []
    flow.up(ViewInstalled(view_of(2, "ABCD"), VIEW if joined else None), 0.0)
    assert credits_of(flow.flush(0.0)) == [(late, 0, 9_000)]
    flow.up(ViewInstalled(view_of(3, "ABCD"), view_of(2, "ABCD")), 0.0)
    assert flow.flush(0.0) == []


def test_senders_that_are_ahead_in_views_are_remembered_up_to_a_bound_and_until_the_next_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EARLY_MAX", 2)
    flow = flow_of()
    for name, view in (("X", 9), ("D", 2), ("E", 2), ("D", 2)):
        flow.up(marked(3_000, member=address(name), dest=A, view=view), 0.0)
    flow.up(ViewInstalled(view_of(2, "ADE"), VIEW), 0.0)
    assert credits_of(flow.flush(0.0)) == [(address("D"), 0, 3_000)]
    flow.up(marked(6_000, member=address("E"), dest=A, view=2), 0.0)
    assert credits_of(flow.flush(0.0)) == [(address("E"), 0, 6_000)]
    flow.up(ViewInstalled(view_of(9, "AX"), VIEW), 0.0)
    assert flow.flush(0.0) == [], "who was ahead of the view before this one cannot have been in it"


def urgent(n: int) -> Frame:
    each = frame(n, B)
    return replace(each, batch=replace(present(each.batch), scope=Scope.OOB))


def test_without_credit_it_waits_in_front_of_the_others_and_in_order_among_its_kind() -> None:
    flow = flow_of()
    offer(flow, 12, B)
    assert sent(flow.down(urgent(101), 0.0)) == []
    assert sent(flow.down(urgent(102), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 1_000), 0.0)) == [101]
    assert sent(flow.up(credits_from(B, 0, 3_000), 0.0)) == [102, 11]
    assert sent(flow.down(urgent(103), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 9_000), 0.0)) == [103, 12]
    assert flow.levels()["queued_frames"].now == 0
    assert flow.levels()["queued_bytes"].now == 0


def test_frames_that_wait_for_credit_when_their_sender_leaves_are_reported() -> None:
    flow = flow_of()
    frames = [frame(n, B) for n in range(1, 14)]
    for each in frames:
        flow.down(each, 0.0)
    assert flow.up(Left(), 0.0) == [Up(Undeliverable(B, tuple(frames[10:]))), Up(Left())]
    assert flow.levels()["queued_frames"].now == 0


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
