"""When a member stands still because others are in a later view, and what ends that."""

from __future__ import annotations

import pytest

from sitestack.layers.membership.config import QuarantineTimes
from sitestack.layers.membership.headers import FlushReject, MajorityState, Prepare, Standing
from sitestack.layers.membership.majority import Majority
from sitestack.layers.membership.promises import NO_VIEW, Promises
from sitestack.layers.membership.quarantine import Quarantine
from sitestack.model.events import Blocked, SeenView, Unblocked
from sitestack.model.view import SubView, View, ViewId, next_lineage
from sitestack.stack.layer import Announce, Effect
from tests.harness.addresses import address, view_id, view_of
from tests.harness.messages import present

BLOCK: list[Effect] = [Announce(Blocked(quarantined=True))]
UNBLOCK: list[Effect] = [Announce(Unblocked())]
TIMES = QuarantineTimes(silence_s=3.0, limit_s=10.0)


class Member:
    """One process in a view, by default the third one of A, B and C."""

    def __init__(self, view: View | None = None) -> None:
        self.promises = Promises()
        self.quarantine = Quarantine(self.promises, TIMES)
        self.install(view or view_of(3, "ABC"))

    def install(self, view: View) -> bool:
        self.promises.install(view)
        return self.quarantine.install(view)

    def sees(self, name: str, view: str, now: float = 1.0) -> list[Effect]:
        return self.quarantine.seen(SeenView(address(name), view_id(view)), now)


def test_a_companion_in_a_later_view_stops_it_and_no_other_heartbeat_does() -> None:
    member = Member()
    assert member.sees("B", "2B") == [], "an earlier view: B has not installed this one yet"
    assert member.sees("D", "9D") == [], "a stranger"
    assert not member.quarantine
    assert member.sees("B", "4B") == BLOCK
    assert member.sees("C", "4B") == []
    assert member.quarantine


def test_the_view_that_it_has_prepared_does_not_stop_it() -> None:
    member = Member()
    later = view_of(4, "BC")
    member.promises.promise(later.id, 1.0)
    member.promises.prepare = Prepare(view_id("3A"), later, {}, {}, False, ())
    assert member.sees("B", "4B") == []
    assert not member.quarantine
    assert member.sees("B", "5B") == [], "it is blocked already"
    assert member.quarantine


def test_a_quarantine_ends_when_no_companion_sends_any_more() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    member.sees("C", "4B", 3.0)
    assert member.quarantine.deadline() == 6.0
    assert member.quarantine.expire(5.9) == []
    assert member.quarantine.expire(6.0) == UNBLOCK
    assert member.quarantine.deadline() is None
    assert member.sees("B", "4B", 7.0) == BLOCK, "it is heard again"


def test_it_ends_after_the_longest_time_and_does_not_begin_again_in_that_view() -> None:
    member = Member()
    for second in range(1, 11):
        member.sees("B", "4B", second)
    assert member.quarantine.deadline() == 11.0
    assert member.quarantine.expire(11.0) == UNBLOCK
    assert member.sees("B", "4B", 11.5) == []
    member.install(view_of(5, "ABC"))
    assert member.sees("B", "6B", 12.0) == BLOCK


def test_a_flush_in_progress_continues_when_the_quarantine_ends() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    member.promises.promise(view_id("4A"), 1.5)
    assert member.quarantine.expire(4.0) == []
    assert member.install(view_of(4, "A")) is False


@pytest.mark.parametrize(
    ("old", "new", "lasts"), [("ABC", "A", True), ("ABC", "AC", False), ("AB", "A", True), ("ABC", "ADEF", True)]
)
def test_a_view_with_more_than_half_of_the_members_ends_it(old: str, new: str, lasts: bool) -> None:
    member = Member(view_of(3, old))
    member.sees("B", "4B", 1.0)
    assert member.install(view_of(4, new)) is lasts
    assert bool(member.quarantine) is lasts


def test_a_merge_view_ends_it() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    assert member.install(view_of(4, "A"))
    parts = (SubView(view_id("4A"), (address("A"),), view_id("4A")), SubView(view_id("4B"), (address("B"),), view_id("1A")))
    merged = view_of(5, "AB")
    assert not member.install(View(merged.id, merged.id, merged.members, merged.names, parts))
    assert member.quarantine.deadline() is None


def view(members: str, number: int, lineage: ViewId | None = None, parts: tuple[View, ...] = ()) -> View:
    id = ViewId(number, address(members[0]))
    subviews = tuple([SubView(part.id, part.members, part.lineage) for part in parts])
    return View(id, lineage or id, tuple(map(address, members)), tuple(members), subviews)


def after(old: View, members: str, number: int) -> View:
    survivors = [member for member in old.members if member in tuple(map(address, members))]
    return view(members, number, next_lineage(old, survivors, ViewId(number, address(members[0]))))


def formed(members: str, size: int) -> tuple[Majority, View]:
    """A member of the first primary view of a site of this size, and that view."""
    majority, first = Majority(size), view(members, 2)
    majority.is_primary(view(members[0], 1), ())
    assert majority.is_primary(first, ())
    return majority, first


def test_without_the_option_every_view_is_primary() -> None:
    majority = Majority(None)
    assert majority.is_primary(view("A", 1), ())
    assert majority.give_state() is None


def test_a_founder_waits_for_more_than_half_of_the_complete_site() -> None:
    majority = Majority(5)
    first = view("A", 1)
    assert not majority.is_primary(first, ())
    second = after(first, "AB", 2)
    assert not majority.is_primary(second, ())
    assert majority.is_primary(after(second, "ABC", 3), ())


def test_two_founders_of_halves_are_both_refused_and_primary_together() -> None:
    one, other = Majority(4), Majority(4)
    left, right = view("AB", 2), view("CD", 2)
    assert not one.is_primary(left, ())
    assert not other.is_primary(right, ())
    state = present(other.give_state())
    assert one.is_primary(view("ABCD", 3, parts=(left, right)), (state,))


def test_a_joiner_computes_the_same_primary_view_as_the_members() -> None:
    majority, first = formed("AB", 3)
    state = present(majority.give_state())
    following = after(first, "ABC", 3)
    assert majority.is_primary(following, ())
    assert Majority(3).is_primary(following, (state,))


def test_the_rest_of_a_split_stays_refused_with_fresh_joiners_until_an_heir_or_all_members_are_there() -> None:
    majority, first = formed("ABCDE", 5)
    assert not majority.is_primary(after(first, "DE", 3), ())
    lost = after(after(first, "DE", 3), "DEF", 4)
    assert not majority.is_primary(lost, ()), "three of five, and A and B may have delivered more"
    heirs = after(first, "ABC", 3)
    merged = view("DEFAB", 5, parts=(lost, heirs))
    assert majority.is_primary(merged, (MajorityState(Standing.HEIR, heirs.lineage),))


def test_all_members_of_the_site_are_primary_though_a_majority_has_died() -> None:
    majority, first = formed("ABC", 3)
    alone = after(first, "C", 3)
    assert not majority.is_primary(alone, ())
    two = after(alone, "CD", 4)
    assert not majority.is_primary(two, ())
    assert majority.is_primary(after(two, "CDE", 5), ())


def test_an_heir_without_a_site_majority_becomes_primary_again_with_a_joiner() -> None:
    majority, first = formed("ABC", 5)
    two = after(first, "AB", 3)
    assert two.lineage == first.lineage
    assert not majority.is_primary(two, ())
    assert majority.is_primary(after(two, "ABF", 4), ())


def test_exactly_half_of_the_last_view_continues_only_with_its_first_member() -> None:
    for members, expected in (("AB", True), ("CD", False)):
        majority, first = formed("ABCD", 3)  # more members than the site should have, so that half is a majority
        assert majority.is_primary(after(first, members, 3), ()) is expected


A, B, C, D = map(address, "ABCD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A, B, C), ("A", "B", "C"))


def member() -> Promises:
    participant = Promises()
    participant.install(VIEW)
    return participant


def test_a_promise_is_given_to_higher_proposals_only() -> None:
    participant = member()
    assert participant.judge(ViewId(4, B), B, ()) is None
    participant.promise(ViewId(4, B), 1.0)
    for proposal in (ViewId(4, B), ViewId(4, A), ViewId(3, C)):
        assert participant.judge(proposal, proposal.creator, ()) == FlushReject(proposal, ViewId(4, B), False)
    assert participant.judge(ViewId(4, C), C, ()) is None, "equal counters: the leader's address decides"


def test_a_suspected_leader_and_a_stranger_are_refused() -> None:
    participant = member()
    assert participant.judge(ViewId(9, B), B, [B]) == FlushReject(ViewId(9, B), VIEW.id, True)
    assert participant.judge(ViewId(9, D), D, ()) == FlushReject(ViewId(9, D), VIEW.id, True)


def test_a_member_of_the_view_that_is_prepared_may_lead() -> None:
    participant = member()
    participant.promise(ViewId(4, A), 1.0)
    participant.prepare = Prepare(
        VIEW.id, View(ViewId(4, A), VIEW.lineage, (A, B, C, D), ("A", "B", "C", "D")), {}, {}, False, ()
    )
    assert participant.judge(ViewId(5, D), D, ()) is None


def test_a_prepare_belongs_to_the_promise() -> None:
    participant = member()
    participant.promise(ViewId(5, B), 1.0)
    old = Prepare(VIEW.id, View(ViewId(4, A), VIEW.lineage, (A, B), ("A", "B")), {}, {}, False, ())
    new = Prepare(VIEW.id, View(ViewId(5, B), VIEW.lineage, (B, C), ("B", "C")), {}, {}, False, ())
    assert not participant.accepts(old, C)
    assert participant.accepts(new, C)


def test_a_joiner_accepts_any_prepare_that_makes_it_a_member() -> None:
    joiner = Promises()
    assert joiner.promised == NO_VIEW
    invitation = Prepare(None, View(ViewId(4, A), VIEW.lineage, (A, B), ("A", "B")), {}, {}, False, ())
    assert joiner.accepts(invitation, B)
    assert not joiner.accepts(invitation, D)


def test_an_installed_view_ends_the_block_and_discards_the_prepare() -> None:
    participant = member()
    participant.promise(ViewId(4, A), 1.0)
    participant.promise(ViewId(5, B), 2.0)
    assert participant.blocked_since == 1.0
    previous = participant.install(View(ViewId(4, A), VIEW.lineage, (A, B), ("A", "B")))
    assert previous == VIEW
    assert not participant.blocked_since
    assert not participant.prepare
    assert participant.promised == ViewId(5, B), "a promise is never taken back"
