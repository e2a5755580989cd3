"""What flow control promises: windows, order, no wedge, and bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sitestack.layers import flow_control as module
from sitestack.layers.batching import BatchingConfig
from sitestack.layers.flow_control import Credits, FlowControl, FlowControlConfig
from sitestack.layers.flow_control.accounts import FRAME_BYTES
from sitestack.layers.sequencer import SequencerConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Credit, Undeliverable, ViewInstalled, Waiting
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up
from tests.sitestack.layers.ordered_group import SITE, Configs, Group, Numbered, address, view_of

A, B, C = map(address, "ABC")
VIEW = view_of(1, "ABC")
#: A window of ten frames of `frame()`.
TEN = FlowControlConfig(window_bytes=10_000, backlog_bytes_max=3_000)


def flow_of(config: FlowControlConfig = TEN, joined: bool = True) -> FlowControl:
    flow = FlowControl(Local(SITE, A, "A", random.Random(0)), config)
    if joined:
        flow.up(ViewInstalled(VIEW, None), 0.0)
    return flow


def frame(n: int = 1, dest: Address | None = None, size: int = 1000, origin: Address = A) -> Frame:
    batch = Batch(SITE, origin, Scope.ALL, n, 1, bytes(size - FRAME_BYTES))
    return Frame(A, dest, (), batch)


def sent(effects: list[Effect]) -> list[int]:
    frames = [effect.event for effect in effects if isinstance(effect, Down) and isinstance(effect.event, Frame)]
    return [each.batch.first if each.batch is not None else 0 for each in frames]


def credits_from(member: Address, casts: int = 0, unicasts: int = 0, view: int = 1) -> Frame:
    return Frame(member, A, (Credits(view_of(view, "ABC").id, casts, unicasts),))


def credits_of(effects: list[Effect]) -> list[tuple[Address, int, int]]:
    found = []
    for effect in effects:
        if isinstance(effect, Down) and isinstance(effect.event, Frame):
            header = effect.event.top(Credits)
            assert header is not None
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
    assert flow.statistics().ahead_bytes_high == 10_000


def test_with_nothing_on_its_way_one_frame_passes_however_large_it_is() -> None:
    flow = flow_of()
    assert sent(flow.down(frame(1, size=1_000_000), 0.0)) == [1]
    assert sent(flow.down(frame(2), 0.0)) == []
    for member in (A, B):
        flow.up(credits_from(member, 1_000_000), 0.0)
    assert sent(flow.up(credits_from(C, 1_000_000), 0.0)) == [2]


def test_frames_without_a_batch_are_free_but_keep_their_place() -> None:
    flow = flow_of()
    entry = Frame(A, None, (Numbered(1, 1),))
    for n in range(1, 11):
        flow.down(frame(n), 0.0)
    assert flow.down(entry, 0.0) == [Down(entry)]
    flow.down(frame(11), 0.0)
    assert flow.down(entry, 0.0) == []
    for member in (A, B, C):
        effects = flow.up(credits_from(member, 1_000), 0.0)
    assert sent(effects) == [11, 0]


def test_what_is_unreliable_or_only_an_address_on_the_wire_passes_always() -> None:
    flow = flow_of(joined=False)
    for each in (replace(frame(), unreliable=True), Frame(A, Physical("10.0.0.1", 7))):
        assert flow.down(each, 0.0) == [Down(each)]
        assert flow.up(each, 0.0) == [Up(each)]


# -- unicasts ------------------------------------------------------------------------------------------------------------


def test_each_receiver_of_unicasts_has_its_own_window_and_its_own_order() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n, B), 0.0)
    assert flow.statistics().queued_frames == 2
    assert sent(flow.down(frame(1, C), 0.0)) == [1]
    assert sent(flow.down(frame(1), 0.0)) == [1]
    assert sent(flow.up(credits_from(C, 0, 1_000), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 1_000), 0.0)) == [11]


def test_what_cannot_be_delivered_does_not_use_up_the_window() -> None:
    flow = flow_of()
    frames = [frame(n, B) for n in range(1, 13)]
    for each in frames:
        flow.down(each, 0.0)
    flow.up(credits_from(B, 0, 2_500), 0.0)
    given_up = Undeliverable(B, tuple(frames[2:6]))
    assert flow.up(given_up, 0.0) == [Up(given_up)]
    assert [sent(flow.down(frame(n, B), 0.0)) for n in range(13, 20)] == [[13], [14], [15], [16], [17], [], []]
    flow.up(Undeliverable(B, tuple(frames)), 0.0)
    assert flow.statistics().queued_frames == 0
    stranger = Undeliverable(address("X"), tuple(frames))
    assert flow.up(stranger, 0.0) == [Up(stranger)]


def test_unicasts_to_no_member_pass_uncounted() -> None:
    flow = flow_of()
    for n in range(1, 30):
        assert sent(flow.down(frame(n, address("X")), 0.0)) == [n]
    assert flow.statistics().peers == 3


# -- receivers -----------------------------------------------------------------------------------------------------------


def test_a_receiver_returns_its_totals_at_most_once_a_turn_when_a_quarter_was_consumed() -> None:
    flow = flow_of()
    arrived = replace(frame(origin=B), source=B, seqno=1)
    for _ in range(2):
        assert flow.up(arrived, 0.0) == [Up(arrived)]
    assert flow.flush(0.0) == []
    flow.up(replace(arrived, dest=A), 0.0)
    for _ in range(4):
        flow.up(arrived, 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 6_000, 1_000)]
    assert flow.flush(0.0) == []
    for _ in range(3):
        flow.up(replace(arrived, dest=A), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 6_000, 4_000)]


def test_a_large_window_returns_credit_before_a_sender_with_a_smaller_one_has_to_stop() -> None:
    flow = flow_of(FlowControlConfig(window_bytes=16 << 20))
    for n in range(1, 271):
        flow.up(replace(frame(n, origin=B), source=B, seqno=n), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 270_000, 0)]


def test_while_the_application_takes_nothing_credits_are_withheld() -> None:
    flow = flow_of()
    assert flow.down(Credit(3_001), 0.0) == []
    for _ in range(3):
        flow.up(replace(frame(origin=B), source=B), 0.0)
    assert flow.flush(0.0) == []
    flow.down(Credit(3_000), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 3_000, 0)]


def test_forwards_are_credited_only_as_the_coordinator_gets_to_multicast_them() -> None:
    flow = flow_of()
    for n in range(1, 31):
        flow.down(frame(n), 0.0)
    assert flow.statistics().queued_bytes == 20_000
    for _ in range(3):
        flow.up(replace(frame(origin=B), source=B, dest=A), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(20_000))]
    for member in (A, B, C):
        flow.up(credits_from(member, 10_000), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 3_000)]


def test_multicasts_are_credited_also_while_forwards_are_not() -> None:
    flow = flow_of()
    for n in range(1, 31):
        flow.down(frame(n), 0.0)
    for _ in range(3):
        flow.up(replace(frame(origin=B), source=B, dest=A), 0.0)
        flow.up(replace(frame(origin=B), source=B), 0.0)
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
    for member in (A, B, C):
        flow.up(credits_from(member, 1_000_000, 1_000_000), 0.0)
    for dest in (None, B):
        assert [sent(flow.down(frame(n, dest), 0.0)) for n in (10, 11, 12)] == [[10], [11], [12]]
        for n in range(7):
            flow.down(frame(n, dest), 0.0)
        assert sent(flow.down(frame(20, dest), 0.0)) == []
    flow.up(credits_from(B, 10_000, 10_000), 0.0)
    flow.up(credits_from(B, 0, 0), 0.0)
    assert sent(flow.down(frame(21, B), 0.0)) == [21]


# -- what the sender is told -------------------------------------------------------------------------------------------


def test_batching_is_told_once_a_turn_how_much_of_mine_waits() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n), 0.0)
    flow.down(frame(1, origin=B), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(2_000))]
    assert flow.flush(0.0) == []
    for member in (A, B, C):
        flow.up(credits_from(member, 10_000), 0.0)
    assert flow.flush(0.0) == [Up(Waiting(0))]


# -- views ---------------------------------------------------------------------------------------------------------------


def test_nothing_passes_during_a_block_nor_before_the_first_view() -> None:
    flow = flow_of(joined=False)
    assert flow.down(frame(1), 0.0) == flow.down(frame(1, B), 0.0) == []
    assert flow.up(ViewInstalled(VIEW, None), 0.0)[1:] == [Down(frame(1, B))]
    for n in range(1, 12):
        flow.down(frame(n), 0.0)
    flow.up(Blocked(), 0.0)
    assert flow.down(frame(2, B), 0.0) == []
    for member in (A, B, C):
        assert sent(flow.up(credits_from(member, 10_000), 0.0)) == []
    assert flow.up(ViewInstalled(view_of(2, "ABC"), VIEW, blocked=True), 0.0) == [Dropped("queued_before_view", 1)]
    assert flow.down(frame(12), 0.0) == []


def test_a_view_discards_queued_multicasts_and_starts_their_totals_again() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n), 0.0)
    flow.up(Blocked(), 0.0)
    assert flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0) == [Dropped("queued_before_view", 2)]
    assert flow.flush(0.0) == []
    assert [sent(flow.down(frame(n), 0.0)) for n in (11, 12)] == [[11], [12]]
    assert flow.statistics().queued_bytes == 0
    assert flow.statistics().ahead_bytes == 2_000


def test_a_view_keeps_the_queue_of_a_member_that_stays_and_lets_go_that_of_one_that_left() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n, B), 0.0)
        flow.down(frame(n, C), 0.0)
    effects = flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0)
    assert [effect.event for effect in effects if isinstance(effect, Down)] == [frame(11, C), frame(12, C)]
    assert flow.statistics().queued_frames == 2
    assert sent(flow.up(credits_from(B, 0, 5_000, view=2), 0.0)) == [11, 12]


def test_credits_lost_at_a_view_change_are_returned_again() -> None:
    """Else a sender that had used up its window would wait for ever."""
    flow = flow_of()
    for _ in range(10):
        flow.up(replace(frame(origin=B), source=B, dest=A), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 10_000)]
    flow.up(ViewInstalled(view_of(2, "ABC"), VIEW), 0.0)
    assert credits_of(flow.flush(0.0)) == [(B, 0, 10_000)]


def test_what_a_joiner_sends_before_its_view_is_here_counts() -> None:
    flow = flow_of()
    for _ in range(2):
        flow.up(replace(frame(origin=address("D")), source=address("D"), dest=A), 0.0)
    flow.up(ViewInstalled(view_of(2, "ABCD"), VIEW), 0.0)
    assert credits_of(flow.flush(0.0)) == [(address("D"), 0, 2_000)]


def test_accounts_of_strangers_have_a_bound_and_go_with_the_next_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCOUNTS_MAX", 5)
    flow = flow_of()
    for name in "VWXYZ":
        stranger = replace(frame(origin=address(name)), source=address(name), dest=A)
        assert flow.up(stranger, 0.0) == [Up(stranger)]
    assert flow.statistics().peers == 5
    flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0)
    assert flow.statistics().peers == 2


@pytest.mark.parametrize(
    "config", [replace(TEN, queue_bytes_max=2_500), replace(TEN, queue_frames_max=2)], ids=["bytes", "frames"]
)
def test_the_queues_have_a_bound_and_what_is_beyond_is_counted(config: FlowControlConfig) -> None:
    flow = flow_of(config)
    for n in range(1, 12):
        flow.down(frame(n), 0.0)
    flow.up(Blocked(), 0.0)
    flow.down(frame(1, B), 0.0)
    refused = frame(2, B)
    assert flow.down(refused, 0.0) == [Dropped("flow_control_queue_full"), Up(Undeliverable(B, (refused,)))]
    assert flow.down(frame(12), 0.0) == [Dropped("flow_control_queue_full")]
    assert flow.statistics().queued_frames == 2
    assert flow.statistics().queued_bytes == 2_000


# -- in a group --------------------------------------------------------------------------------------------------------

SLOW = Configs(
    BatchingConfig(batch_bytes_max=1_000, window_bytes=4_000, send_credit_bytes=20_000),
    SequencerConfig(),
    FlowControlConfig(window_bytes=8_000, backlog_bytes_max=3_000),
)


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("slow", ["A", "B", "C"])
def test_one_slow_application_stops_all_senders_and_all_go_on_when_it_takes(slow: str, order: str) -> None:
    config = SequencerConfig(order="total" if order == "total" else "fifo")
    group = Group("ABC", replace(SLOW, sequencer=config))
    group[slow].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("ABC", 0)
    for _ in range(300):
        for name in "ABC":
            if group[name].batching.writable:
                counts[name] += 1
                group[name].send(b"%0200d" % counts[name])
        group.settle()
    assert not any(group[name].batching.writable for name in "ABC")
    for name in "ABC":
        numbers = group[name].flow_control.statistics()
        assert numbers.ahead_bytes_high <= 8_000 + 1_200
    assert len(group["B"].delivered) < sum(counts.values())
    for _ in range(100):
        group.pass_time(10.0)  # what stands in a queue is not forwarded again and again
    for name in "ABC":
        assert group[name].flow_control.statistics().queued_bytes_high <= 4 * 8_000

    group[slow].stack.down(Credit(0), group.now)
    group.settle()
    for _ in range(10):
        group.pass_time(40.0)
    for name in "ABC":
        assert group[name].batching.writable
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
        assert group[name].flow_control.statistics().queued_frames == 0
    if order == "total":
        assert group["A"].delivered == group["B"].delivered == group["C"].delivered


def test_a_slow_receiver_of_unicasts_stops_its_sender_only() -> None:
    group = Group("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    count, going = 0, True
    while going:
        count += 1
        group["B"].send(b"%0500d" % count, to=C)
        group.settle()
        going = group["B"].batching.writable
    assert 8_000 < 500 * count < 40_000
    assert group["A"].send(b"free", to=B)
    group.settle()
    assert group["B"].payloads("A") == [b"free"]
    group["C"].stack.down(Credit(0), 0.0)
    group.settle()
    assert group["B"].batching.writable
    assert group["C"].payloads("B") == [b"%0500d" % n for n in range(1, count + 1)]


def test_waiting_for_credit_over_a_view_change_loses_and_repeats_nothing() -> None:
    group = Group("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("AB", 0)
    for name in "AB":
        while group[name].batching.writable:
            counts[name] += 1
            group[name].send(b"%0200d" % counts[name])
            group.settle()
    group.crash("C")
    group.change_view("AB")
    group.settle()
    for name in "AB":
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
    assert group["A"].delivered == group["B"].delivered
    assert group["A"].drops["queued_before_view"] > 0
