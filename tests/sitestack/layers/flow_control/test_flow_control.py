"""What flow control promises: windows, order, no wedge, and bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.flow_control.accounts import FRAME_BYTES
from sitestack.layers.flow_control.headers import Credits, Mark
from sitestack.layers.sequencer.layer import Sequenced
from sitestack.layers.state_transfer.headers import Standing, StateReport, StateStanding
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Credit, Undeliverable, ViewInstalled, Waiting
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import SITE, address, local_of, view_of
from tests.harness.messages import frames_in, present
from tests.harness.ordered import Numbered

A, B, C = map(address, "ABC")
VIEW = view_of(1, "ABC")
#: A window of ten frames of `frame()`.
TEN = FlowControlConfig(window_bytes=10_000, backlog_bytes_max=3_000)


def flow_of(config: FlowControlConfig = TEN, joined: bool = True) -> FlowControl:
    flow = FlowControl(local_of("A"), config)
    if joined:
        flow.up(ViewInstalled(VIEW, None), 0.0)
    return flow


def frame(n: int = 1, dest: Address | None = None, size: int = 1000, origin: Address = A) -> Frame:
    batch = Batch(SITE, origin, Scope.ALL, n, 1, bytes(size - FRAME_BYTES))
    return Frame(A, dest, (), batch)


def sent(effects: list[Effect]) -> list[int]:
    frames = frames_in(effects, Down)
    return [each.batch.first if each.batch is not None else 0 for each in frames]


def marked(total: int, member: Address = B, dest: Address | None = None, view: int = 1) -> Frame:
    """Return the frame after a member has sent so many bytes: its multicast, or its unicast to A."""
    return replace(frame(dest=dest, origin=member), source=member, headers=(Mark(view_of(view, "ABC").id, total),))


def marks(effects: list[Effect]) -> list[int | None]:
    """The mark of each frame that is sent."""
    frames = frames_in(effects, Down)
    headers = [each.top(Mark) for each in frames]
    return [None if header is None else header.total_bytes for header in headers]


def credits_from(member: Address, casts: int = 0, unicasts: int = 0, view: int = 1) -> Frame:
    return Frame(member, A, (Credits(view_of(view, "ABC").id, casts, unicasts),))


def offer(flow: FlowControl, count: int, dest: Address | None = None) -> None:
    """Send frames 1 to `count`, whether they pass or wait."""
    for n in range(1, count + 1):
        flow.down(frame(n, dest), 0.0)


def credits_from_all(flow: FlowControl, casts: int, unicasts: int = 0) -> list[Effect]:
    """Return what the credits of the last member let pass."""
    for member in (A, B):
        flow.up(credits_from(member, casts, unicasts), 0.0)
    return flow.up(credits_from(C, casts, unicasts), 0.0)


def credits_of(effects: list[Effect]) -> list[tuple[Address, int, int]]:
    found = []
    for effect in effects:
        if isinstance(effect, Down) and isinstance(effect.event, Frame):
            header = present(effect.event.top(Credits))
            assert isinstance(effect.event.dest, Address)
            found.append((effect.event.dest, header.multicast_bytes, header.unicast_bytes))
    return found


# -- multicasts --------------------------------------------------------------------------------------------------------


def test_a_sender_is_never_more_than_a_window_and_a_frame_ahead_of_the_slowest_receiver() -> None:
    flow = flow_of()
    assert [sent(flow.down(frame(n), 0.0)) for n in range(1, 13)] == [[n] for n in range(1, 11)] + [[], []]
    assert sent(flow.up(credits_from(A, 10_000), 0.0)) == []
    assert sent(flow.up(credits_from(B, 10_000), 0.0)) == []
    assert sent(flow.up(credits_from(C, 1_000), 0.0)) == [11]
    assert sent(flow.down(frame(13), 0.0)) == []
    assert sent(flow.up(credits_from(C, 5_000), 0.0)) == [12, 13]
    assert flow.levels()["ahead_bytes"].high == 10_000


def test_of_frames_larger_than_the_window_two_are_under_way() -> None:
    flow = flow_of(FlowControlConfig(window_bytes=999))
    assert [sent(flow.down(frame(n), 0.0)) for n in range(1, 4)] == [[1], [2], []]
    assert [sent(flow.up(credits_from(each, 1_000), 0.0)) for each in (A, B, C)] == [[], [], [3]]


def test_members_that_queued_frames_wait_for_are_reported_with_consumed_bytes() -> None:
    flow = flow_of()
    offer(flow, 10)
    assert flow.waited_for() == {}, "nothing waits"
    flow.down(frame(11), 0.0)
    assert flow.waited_for() == {A: 0, B: 0, C: 0}
    flow.up(credits_from(A, 10_000), 0.0)
    assert flow.waited_for() == {B: 0, C: 0}
    offer(flow, 11, B)
    flow.up(credits_from(B, 10_000, 1_000), 0.0)
    assert flow.waited_for() == {C: 0}
    flow.down(frame(12, dest=B), 0.0)
    assert flow.waited_for() == {B: 1_000, C: 0}
    flow.up(Blocked(), 0.0)
    assert flow.waited_for() == {}, "all wait for the view"


def test_with_nothing_on_its_way_one_frame_passes_however_large_it_is() -> None:
    flow = flow_of()
    assert sent(flow.down(frame(1, size=1_000_000), 0.0)) == [1]
    assert sent(flow.down(frame(2), 0.0)) == []
    assert sent(credits_from_all(flow, 1_000_000)) == [2]


def test_frames_without_a_batch_are_free_but_keep_their_place() -> None:
    flow = flow_of()
    entry = Frame(A, None, (Numbered(1, 1),))
    offer(flow, 10)
    assert flow.down(entry, 0.0) == [Down(entry)]
    flow.down(frame(11), 0.0)
    assert flow.down(entry, 0.0) == []
    assert sent(credits_from_all(flow, 1_000)) == [11, 0]


def test_unreliable_frames_and_frames_to_physical_addresses_always_pass() -> None:
    flow = flow_of(joined=False)
    for each in (replace(frame(), unreliable=True), Frame(A, Physical("10.0.0.1", 7))):
        assert flow.down(each, 0.0) == [Down(each)]
        assert flow.up(each, 0.0) == [Up(each)]


# -- unicasts ------------------------------------------------------------------------------------------------------------


def test_each_receiver_of_unicasts_has_its_own_window_and_order() -> None:
    flow = flow_of()
    offer(flow, 12, B)
    assert flow.levels()["queued_frames"].now == 2
    assert sent(flow.down(frame(1, C), 0.0)) == [1]
    assert sent(flow.down(frame(1), 0.0)) == [1]
    assert sent(flow.up(credits_from(C, 0, 1_000), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 1_000), 0.0)) == [11]


def test_undeliverable_frames_do_not_use_up_the_window() -> None:
    flow = flow_of()
    frames = [frame(n, B) for n in range(1, 13)]
    for each in frames:
        flow.down(each, 0.0)
    flow.up(credits_from(B, 0, 2_500), 0.0)
    given_up = Undeliverable(B, tuple(frames[2:]))
    assert flow.up(given_up, 0.0) == [Up(given_up)]
    assert flow.levels()["awaited_bytes"].now == 0
    assert [sent(flow.down(frame(n, B), 0.0)) for n in range(13, 24)] == [[n] for n in range(13, 23)] + [[]]
    flow.up(Undeliverable(B, ()), 0.0)
    assert flow.levels()["queued_frames"].now == 0
    stranger = Undeliverable(address("X"), tuple(frames))
    assert flow.up(stranger, 0.0) == [Up(stranger)]


def test_undeliverable_frames_are_reported_without_their_marks() -> None:
    flow = flow_of()
    frames = [frame(n, B) for n in range(1, 7)]
    passed = tuple([effect.event for each in frames for effect in flow.down(each, 0.0) if isinstance(effect, Down)])
    assert passed != tuple(frames), "some have a mark"
    assert flow.up(Undeliverable(B, passed), 0.0) == [Up(Undeliverable(B, tuple(frames)))]  # type: ignore[arg-type]


def test_credits_that_were_perhaps_given_up_are_returned_again() -> None:
    flow = flow_of()
    flow.up(marked(3_000, dest=A), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 3_000)]
    flow.up(Undeliverable(C, ()), 0.0)
    assert credits_of(flow.flush(0.0)) == []
    flow.up(Undeliverable(B, ()), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 3_000)]


@pytest.mark.parametrize("heard", [False, True])
def test_unicasts_to_a_stranger_pass_uncounted_even_if_it_sent_frames(heard: bool) -> None:
    flow, stranger = flow_of(), address("X")
    if heard:
        flow.up(marked(1_000, member=stranger, dest=A), 0.0)
        flow.up(replace(frame(dest=A, origin=stranger), source=stranger), 0.0)
    for n in range(1, 30):
        assert flow.down(frame(n, stranger), 0.0) == [Down(frame(n, stranger))], "and without a mark"
    assert flow.flush(0.0) == []


# -- marks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dest", [None, B])
def test_a_sender_requests_credits_four_times_a_window_and_at_a_large_frame(dest: Address | None) -> None:
    flow = flow_of()
    found = [marks(flow.down(frame(n, dest), 0.0))[0] for n in range(1, 8)]
    assert found == [None, None, 3_000, None, None, 6_000, None]
    assert marks(flow.down(frame(8, dest, size=2_500), 0.0)) == [9_500]


def test_marks_in_a_large_window_are_no_further_apart_than_credit_is_late() -> None:
    flow = flow_of(FlowControlConfig(window_bytes=16 << 20))
    totals = [total for n in range(1, 1_001) for total in marks(flow.down(frame(n), 0.0)) if total is not None]
    assert totals == [263_000, 526_000, 789_000]


def test_queued_frames_are_marked_when_sent_and_frames_without_a_batch_never() -> None:
    flow = flow_of(FlowControlConfig(window_bytes=1_000))
    entry = Frame(A, None, (Numbered(1, 1),))
    assert marks(flow.down(frame(1), 0.0)) == [1_000]
    for each in (frame(2), entry, frame(3)):
        assert flow.down(each, 0.0) == []
    assert marks(credits_from_all(flow, 1_000)) == [2_000, None]
    assert flow.levels()["awaited_bytes"].now == 1_000


# -- receivers -----------------------------------------------------------------------------------------------------------


def test_a_receiver_returns_the_marks_that_it_has_come_to_at_most_once_a_turn() -> None:
    flow = flow_of()
    plain = replace(frame(origin=B), source=B, seqno=1)
    assert flow.up(plain, 0.0) == [Up(plain)]
    assert flow.flush(0.0) == []
    for each in (marked(3_000), marked(6_000), marked(3_000), marked(1_000, dest=A)):
        assert flow.up(each, 0.0) == [Up(each.pop())]
    assert credits_of(flow.flush(0.0)) == [(B, 6_000, 1_000)]
    assert flow.flush(0.0) == []
    flow.up(marked(4_000, dest=A), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 6_000, 4_000)]


def test_a_mark_is_returned_regardless_of_the_own_window_size() -> None:
    flow = flow_of(FlowControlConfig(window_bytes=16 << 20))
    flow.up(marked(1), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 1, 0)]


def test_credits_are_withheld_while_the_application_does_not_read() -> None:
    flow = flow_of()
    assert flow.down(Credit(3_001), 0.0) == []
    flow.up(marked(3_000), 0.0)
    assert flow.flush(0.0) == []
    flow.down(Credit(3_000), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 3_000, 0)]


def test_standings_of_the_state_do_not_wait_for_credit() -> None:
    """Applications that wait for the state take nothing, and so return no credit before they have it."""
    flow = flow_of()
    offer(flow, 11)
    offer(flow, 11, B)
    standing = Frame(A, None, (StateStanding(B, Standing.WAITS), Sequenced()))
    report = Frame(A, B, (StateReport(Standing.WAITS),))
    assert flow.down(frame(12), 0.0) == []
    assert flow.down(standing, 0.0) == [Down(standing)]
    assert flow.down(report, 0.0) == [Down(report)]


def test_forwards_are_credited_only_as_the_coordinator_gets_to_multicast_them() -> None:
    flow = flow_of()
    offer(flow, 30)
    assert flow.levels()["queued_bytes"].now == 20_000
    flow.up(marked(3_000, dest=A), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(20_000))]
    credits_from_all(flow, 10_000)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 3_000)]


def test_multicasts_are_credited_also_while_forwards_are_not() -> None:
    flow = flow_of()
    offer(flow, 30)
    flow.up(marked(3_000, dest=A), 0.0)
    flow.up(marked(3_000), 0.0)
    assert credits_of([each for each in flow.flush(0.0) if isinstance(each, Down)]) == [(B, 3_000, 0)]


@pytest.mark.parametrize(
    "header",
    [credits_from(address("X"), 10_000), credits_from(B, 10_000, view=2)],
    ids=["of a stranger", "of another view"],
)
def test_credits_that_mean_nothing_here_are_dropped(header: Frame) -> None:
    assert flow_of().up(header, 0.0) == [Dropped("stale_credits")]


def test_no_receiver_can_open_a_window_wider_than_it_is() -> None:
    flow = flow_of()
    credits_from_all(flow, 1_000_000, 1_000_000)
    for dest in (None, B):
        assert [sent(flow.down(frame(n, dest), 0.0)) for n in (10, 11, 12)] == [[10], [11], [12]]
        offer(flow, 7, dest)
        assert sent(flow.down(frame(20, dest), 0.0)) == []
    flow.up(credits_from(B, 10_000, 10_000), 0.0)
    flow.up(credits_from(B, 0, 0), 0.0)
    assert sent(flow.down(frame(21, B), 0.0)) == [21]


# -- notifications of the sender ---------------------------------------------------------------------------------------


def test_own_waiting_bytes_are_reported_to_batching_once_a_turn() -> None:
    flow = flow_of()
    offer(flow, 12)
    flow.down(frame(1, origin=B), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(2_000))]
    assert flow.flush(0.0) == []
    credits_from_all(flow, 10_000)
    assert flow.flush(0.0) == [Up(Waiting(0))]


def test_waiting_unicast_bytes_are_reported_to_batching_per_member() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(replace(frame(n, B), batch=replace(frame(n).batch, scope=Scope.UNICAST, target=B)), 0.0)  # type: ignore[type-var]
    assert flow.flush(0.0) == [Up(Waiting(2_000, {B: 2_000}))]
    flow.up(credits_from(B, 0, 10_000), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(0))]


# -- bounds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [replace(TEN, queue_bytes_max=2_500), replace(TEN, queue_frames_max=2)], ids=["bytes", "frames"]
)
def test_the_queues_are_bounded_and_excess_frames_are_dropped_and_counted(config: FlowControlConfig) -> None:
    flow = flow_of(config)
    offer(flow, 11)
    flow.up(Blocked(), 0.0)
    flow.down(frame(1, B), 0.0)
    for refused in (frame(2, B), replace(frame(2, B), headers=(Mark(VIEW.id, 1), Mark(VIEW.id, 2)))):
        assert flow.down(refused, 0.0) == [Dropped("flow_control_queue_full"), Up(Undeliverable(B, (refused,)))]
    assert flow.down(frame(12), 0.0) == [Dropped("flow_control_queue_full")]
    assert flow.levels()["queued_frames"].now == 2
    assert flow.levels()["queued_bytes"].now == 2_000


def test_an_entry_of_the_relay_is_never_refused_as_it_is_cast_once_and_bounded_where_it_comes_from() -> None:
    flow = flow_of(replace(TEN, queue_frames_max=1))
    offer(flow, 11)
    entry = replace(frame(12), headers=(Numbered(1, 1), Sequenced()))
    assert flow.down(entry, 0.0) == []
    assert flow.levels()["queued_frames"].now == 1
    assert [sent(flow.up(credits_from(member, 11_000), 0.0)) for member in (A, B, C)] == [[], [], [11, 12]]
    assert flow.levels()["queued_frames"].now == flow.levels()["queued_bytes"].now == 0
