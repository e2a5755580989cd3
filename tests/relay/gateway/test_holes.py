"""Held entries after a merge may have holes: each is reported as a gap in its place, also when the origin sends no
more.
"""

from __future__ import annotations

import pytest

from relay.gateway.sender import LinkSender
from relay.gateway.watermarks import Watermarks
from relay.gateway.window import LinkWindow
from relay.gateway.wire import Data
from relay.replica.config import BufferConfig
from relay.replica.entries import HeldFor, LineageState, RelayState, RemoteBaseline, RemoteGap, RemoteState, SiteVector
from relay.replica.gone import RUNS_MAX, Gone, Run
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.merge import merge_parts
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.view import ViewId
from tests.harness.relay.puppet import D, E, F, batch, remote_view
from tests.relay.gateway.test_session import frames

pytestmark = pytest.mark.conforms("REL-13")

#: One item of a peer about one origin: a number, or the first and last of a gap.
Told = int | tuple[int, int]


def holding(
    entries: list[tuple[Address, int]], produced: dict[Address, int], config: BufferConfig | None = None
) -> ReplicatedState:
    """Return SFO after a merge: it holds these entries in this order, and its origins had produced so many."""
    state = ReplicatedState("SFO", config or BufferConfig(), ("NYC",))
    held = HeldEntries.of([HeldEntry(batch(n, origin), None) for origin, n in entries])
    state.adopt(RelayState(None, 100, held, None, produced, (), ("NYC",)), 0.0)
    return state


class Link:
    """The output of one connection."""

    def __init__(self, state: ReplicatedState) -> None:
        self.watermarks = Watermarks(state)
        self.watermarks.installed(alone=True)
        self.sender = LinkSender("SFO", state, self.watermarks, LinkWindow(1 << 20, 1 << 20))
        self.sender.peer = "NYC"

    def frames(self) -> list[Header]:
        sent: list[bytes] = []
        while (frame := self.sender.next_frame(1 << 20, 0.0)) is not None:
            sent.append(frame)
        return frames(b"".join(sent))

    def tells(self, origin: Address = E) -> list[Told]:
        """All that is ready of one origin, in order."""
        told: list[Told] = []
        for frame in self.frames():
            if isinstance(frame, Data) and frame.batch.origin == origin:
                told.append(frame.batch.first)
            elif isinstance(frame, RemoteGap) and frame.origin == origin:
                told.append((frame.first, frame.last))
        return told


RUNS = [(E, n) for n in (4, 5, 8)]


@pytest.mark.parametrize(
    ("reached", "told"),
    [
        (0, [(1, 3), 4, 5, (6, 7), 8, (9, 10)]),
        (3, [4, 5, (6, 7), 8, (9, 10)]),
        (4, [5, (6, 7), 8, (9, 10)]),
        (5, [(6, 7), 8, (9, 10)]),
        (6, [(7, 7), 8, (9, 10)]),
        (7, [8, (9, 10)]),
        (8, [(9, 10)]),
        (9, [(10, 10)]),
        (10, []),
    ],
)
def test_each_number_above_the_peers_position_is_sent_or_reported_as_a_gap_in_order(reached: int, told: list[Told]) -> None:
    """X5: 1..3 were trimmed, 6 and 7 were held by neither part, and 9 and 10 by none any more; E sends no more."""
    link = Link(holding(RUNS, {E: 10, D: 3}))
    link.sender.rewind(SiteVector({E: reached} if reached else {D: 3}))
    assert link.tells() == told


def test_a_gap_at_the_end_is_sent_once_before_the_next_message_of_its_origin() -> None:
    state = holding(RUNS, {E: 10})
    link = Link(state)
    link.sender.rewind(SiteVector({E: 4}))
    link.watermarks.appended(E, 1, state.append(batch(11, E), 0.0))
    assert link.tells() == [5, (6, 7), 8, (9, 10), 11]
    link.watermarks.appended(E, 2, state.append(batch(12, E), 0.0))
    assert link.tells() == [12]


def test_gaps_are_sent_per_origin_and_do_not_delay_other_origins() -> None:
    entries = [(E, 1), (F, 7), (E, 2), (F, 8)]
    link = Link(holding(entries, {E: 4, F: 8, D: 2}))
    link.sender.rewind(SiteVector({F: 6}))
    said = [
        (frame.batch.origin, frame.batch.first, frame.batch.last)
        if isinstance(frame, Data)
        else (frame.origin, frame.first, frame.last)
        for frame in link.frames()
        if isinstance(frame, Data | RemoteGap)
    ]
    assert said == [(D, 1, 2), (E, 1, 1), (F, 7, 7), (E, 2, 2), (E, 3, 4), (F, 8, 8)]


def test_what_a_peer_acknowledges_during_a_replay_is_not_sent_again_and_keeps_no_window_full() -> None:
    """STATE and ACK pass the first transmission: the peer would drop the second one and acknowledge nothing."""
    link = Link(holding([(E, n) for n in (1, 2, 3)], {E: 3}))
    link.sender.rewind(SiteVector({E: 0}))
    assert link.tells() == [1, 2, 3]
    link.sender.rewind(SiteVector({E: 1}))
    link.sender.acknowledged(SiteVector({E: 3}), 0.0)
    assert link.tells() == []
    assert link.sender.in_flight_bytes == 0
    link.sender.rewind(SiteVector({E: 1}))
    link.sender.acknowledged(SiteVector({E: 9}), 0.0)
    assert link.tells() == [2, 3], "it says so of numbers that do not exist"


def test_a_gap_at_the_end_is_told_behind_what_the_peer_acknowledged_during_a_replay() -> None:
    link = Link(holding([(E, 4), (E, 5)], {E: 7}))
    link.sender.rewind(SiteVector({E: 3}))
    link.sender.acknowledged(SiteVector({E: 5}), 0.0)
    assert link.tells() == [(6, 7)]


def test_an_added_site_begins_when_messages_are_held_for_it() -> None:
    """A reload lets the relay call it before the site's stream says that it is held for."""
    state = ReplicatedState("SFO", BufferConfig())
    link = Link(state)
    link.sender.rewind(None)
    state.produced[E] = 5
    assert link.frames() == []
    state.produced[E] = 11
    state.apply_held_for(HeldFor(("NYC",)), 0.0)
    assert link.frames() == [RemoteBaseline("SFO", {E: 11})]


def test_a_second_state_of_an_added_site_counts_and_not_the_one_that_waited() -> None:
    state = ReplicatedState("SFO", BufferConfig())
    link = Link(state)
    link.sender.rewind(None)
    state.produced[E] = 11
    state.apply_held_for(HeldFor(("NYC",)), 0.0)
    link.sender.rewind(SiteVector({E: 11}))
    assert link.frames() == []


def test_a_budget_trim_during_a_link_reports_trimmed_entries_and_holes_as_gaps() -> None:
    state = holding(RUNS, {E: 10})
    link = Link(state)
    link.sender.rewind(SiteVector({E: 3}))
    assert link.sender.next_frame(1 << 20, 0.0) is not None
    state.buffer.trim(101)
    assert link.tells() == [(5, 5), (6, 7), 8, (9, 10)], "of the first gap one has another reason"
    link.sender.rewind(SiteVector({E: 3}))
    state.buffer.trim(102)
    assert link.tells() == [(4, 5), (6, 7), (8, 8), (9, 10)]


@pytest.mark.parametrize(("produced", "begins"), [(10, 10), (8, 7)])
def test_a_peer_without_a_position_starts_after_the_last_hole(produced: int, begins: int) -> None:
    """R29: messages before its time are history, not its loss."""
    link = Link(holding(RUNS, {E: produced}))
    link.sender.rewind(None)
    sent = link.frames()
    assert [frame.origins for frame in sent if isinstance(frame, RemoteBaseline)] == [{E: begins}]
    assert [frame.batch.first for frame in sent if isinstance(frame, Data)] == list(range(begins + 1, produced + 1))
    assert [frame for frame in sent if isinstance(frame, RemoteGap)] == []


def part(view: int, entries: list[tuple[Address, int]], produced: dict[Address, int]) -> RelayState:
    held = HeldEntries.of([HeldEntry(batch(n, origin), None) for origin, n in entries])
    return RelayState(ViewId(view, D), 100 * view, held, None, produced, (), ("NYC",))


def test_a_merge_of_three_parts_orders_the_entries_of_each_origin_by_number() -> None:
    """Appended at the end it would follow a higher number: never sent, and reported as a gap although it is held."""
    parts = [part(1, [(E, 1), (E, 2)], {E: 2}), part(2, [(E, 9), (F, 1)], {E: 9}), part(3, [(F, 2), (E, 4), (E, 5)], {E: 5})]
    merged = merge_parts(parts, {})
    assert [each.batch.first for each in merged.entries if each.batch and each.batch.origin == E] == [1, 2, 4, 5, 9]
    assert [each.batch.first for each in merged.entries if each.batch and each.batch.origin == F] == [1, 2]


def test_a_merge_does_not_restore_entries_that_the_other_site_acknowledged() -> None:
    """F held 1..5 all the while; meanwhile NYC has got, and acknowledged, everything."""
    state = holding([], {E: 10})
    linked = LineageState(ViewId(1, D), ViewId(1, D), None, SiteVector({E: 10}, ViewId(9, D)))
    ours = RelayState(
        ViewId(9, E),
        100,
        HeldEntries.of(()),
        None,
        {E: 10},
        (RemoteState("NYC", True, False, {}, (linked,), {}, {}),),
        ("NYC",),
    )
    state.adopt(ours, 0.0)
    state.view = remote_view(9, E)
    theirs = part(8, [(E, n) for n in range(1, 6)], {E: 5})
    state.merge([theirs], {}, 0.0)
    assert len(state.buffer) == 0


def reasons(state: ReplicatedState, reached: dict[Address, int]) -> list[tuple[int, int, str]]:
    link = Link(state)
    link.sender.rewind(SiteVector(reached))
    return [(frame.first, frame.last, frame.reason) for frame in link.frames() if isinstance(frame, RemoteGap)]


def test_only_entries_trimmed_for_the_budget_are_reported_with_that_reason() -> None:
    """1 and 2 were trimmed when all members had them, 3 and 4 to hold the budget, and 5 again when all had it."""
    state = holding([(E, n) for n in range(1, 7)], {E: 6})
    state.buffer.drop_while(lambda entry: entry.batch is not None and entry.batch.first <= 2)
    state.buffer.trim(state.buffer.first)
    state.buffer.trim(state.buffer.first)
    assert reasons(state, {D: 1}) == [(1, 2, "not_held"), (3, 4, "budget")]
    state.buffer.drop_while(lambda entry: entry.batch is not None and entry.batch.first <= 5)
    assert reasons(state, {E: 3}) == [(4, 4, "budget"), (5, 5, "not_held")]
    assert reasons(state, {E: 4}) == [(5, 5, "not_held")]
    assert reasons(state, {E: 5}) == []


def test_budget_gaps_on_both_sides_of_another_gap_keep_their_reason() -> None:
    state = holding([(E, n) for n in range(1, 7)], {E: 6})
    state.buffer.trim(state.buffer.first)
    state.buffer.drop_while(lambda entry: entry.batch is not None and entry.batch.first <= 2)
    state.buffer.trim(state.buffer.first + 1)
    assert reasons(state, {D: 1}) == [(1, 1, "budget"), (2, 2, "not_held"), (3, 4, "budget")]


def test_the_highest_runs_of_an_origin_are_remembered_for_a_reason() -> None:
    gone = Gone()
    for number in (7, 1, *range(9, 9 + 2 * RUNS_MAX, 2)):  # a disk may lose older numbers later
        gone.note(E, Run(number, number), GapReason.DISK)
    lost = [run.first for run, reason in gone.explain(E, 1, 10 + 2 * RUNS_MAX) if reason is GapReason.DISK]
    assert lost == list(range(9, 9 + 2 * RUNS_MAX, 2))


def test_a_merge_forgets_the_budget_as_reason_for_a_run_that_another_part_held() -> None:
    state = holding([(E, n) for n in range(1, 6)] + [(F, 1)], {E: 5, F: 1})
    state.view = remote_view(9, E)
    state.buffer.trim(state.buffer.end - 1)
    state.merge([part(8, [(E, n) for n in (4, 5)], {E: 5})], {}, 0.0)
    assert reasons(state, {D: 1}) == [(1, 3, "not_held"), (1, 1, "budget")]  # of E, and of F


def test_entries_that_exceed_the_budget_after_a_merge_are_trimmed_for_it() -> None:
    state = holding([(E, n) for n in range(1, 4)], {E: 3}, BufferConfig(budget_entries=4))
    state.view = remote_view(9, E)
    state.merge([part(8, [(F, n) for n in range(1, 4)], {F: 3})], {}, 0.0)
    excess = state.buffer.excess(0.0)
    assert (len(state.buffer), excess is None) == (6, False)
    state.buffer.trim(excess or 0)  # by the coordinator's Trim
    assert len(state.buffer) == 3
    assert reasons(state, {D: 1}) == [(1, 3, "budget")]


def test_the_view_before_the_first_entry_never_goes_back() -> None:
    """After a merge a part's older view may follow newer ones (G5: no message before the view that contains its
    origin).
    """
    state = holding([], {})
    for counter in (7, 5):
        state.buffer.append(None, remote_view(counter, D), 0.0)
    state.buffer.trim(state.buffer.end - 1)
    assert state.buffer.base_view == remote_view(7, D)
