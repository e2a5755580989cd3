"""Flow control at view changes: accounts are reset, and frames before or after their view cost nothing."""

from __future__ import annotations

import pytest

from sitestack.layers.flow_control import layer as module
from sitestack.model.events import Blocked, Unblocked, ViewInstalled, Waiting
from sitestack.stack.layer import Down, Dropped, Up
from tests.harness.addresses import address, view_of
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
    sent,
)


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


def test_after_a_block_that_no_flush_followed_the_queues_go_on() -> None:
    flow = flow_of()
    flow.up(Blocked(), 0.0)
    assert flow.down(frame(1), 0.0) == flow.down(frame(2, B), 0.0) == []
    assert sent(flow.up(Unblocked(), 0.0)) == [1, 2]
    assert sent(flow.down(frame(3), 0.0)) == [3]


def test_a_view_discards_queued_multicasts_and_starts_their_totals_again() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n), 0.0)
    flow.up(Blocked(), 0.0)
    assert flow.up(ViewInstalled(view_of(2, "AB"), VIEW), 0.0) == [Dropped("queued_before_view", 2)]
    assert flow.flush(0.0) == [Up(Waiting(0, {}))]
    assert [sent(flow.down(frame(n), 0.0)) for n in (11, 12)] == [[11], [12]]
    assert flow.levels()["queued_bytes"].now == 0
    assert flow.levels()["ahead_bytes"].now == 2_000


def test_a_view_keeps_the_queue_of_a_member_that_stays_and_lets_go_that_of_one_that_left() -> None:
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


def test_what_was_sent_in_an_earlier_view_uses_up_nothing() -> None:
    """They may have been dropped, or counted by no member: B has had another view in between."""
    flow = flow_of()
    for view in (2, 3, 4):
        assert [sent(flow.down(frame(n, B), 0.0)) for n in range(1, 8)] == [[n] for n in range(1, 8)]
        flow.up(ViewInstalled(view_of(view, "ABC"), None), 0.0)
    assert flow.up(credits_from(B, 0, 3_000, view=3), 0.0) == [Dropped("stale_credits")]
    assert flow.levels()["awaited_bytes"].now == 0


def test_a_mark_of_an_earlier_view_is_returned_to_nobody() -> None:
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
