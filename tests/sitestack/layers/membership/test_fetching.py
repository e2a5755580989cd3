"""Before a merge the members of its parts fetch the others' messages; a part without progress is postponed."""

from __future__ import annotations

from sitestack.layers.membership.headers import MergeFetch, MergeFetched, MergeRefusal, MergeReply
from sitestack.model.events import Unreached
from sitestack.model.frame import Frame
from sitestack.model.state_events import Offered
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import view_of
from tests.sitestack.layers.membership.coordinators import (
    TIMES,
    A,
    B,
    C,
    Coordinator,
    D,
    E,
    coordinates,
    flush_requests,
)

REQUEST = MergeFetch(1, (A, C))
FETCHING, DONE = MergeFetched(1, False), MergeFetched(1, True)


def leading(now: float = 1.2) -> tuple[Coordinator, list[Effect]]:
    """A leads a merge with C and D, who hear it."""
    a = Coordinator("A", view_of(3, "AB"), fetches=True)
    a.finds(coordinates("C"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), now)
    return a, a.answers(D, now=now)


def test_all_members_fetch_from_the_coordinators_before_anybody_is_stopped() -> None:
    a, effects = leading()
    assert effects == [a.says(member, REQUEST) for member in (A, B, C, D)]
    for member in (D, B, A):
        assert a.merging.heard_fetched(member, DONE, 1.3) == []
    assert flush_requests(a.merging.heard_fetched(C, DONE, 1.4)) == [A, B, C]


def test_who_has_nothing_to_fetch_merges_at_once() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.2)
    assert flush_requests(a.answers(D)) == [A, B, C]


def test_a_part_of_which_a_member_brings_nothing_forward_is_put_off() -> None:
    a, _ = leading(1.0)
    for member in (A, B, C):
        a.merging.heard_fetched(member, DONE, 1.0)
    due = 1.0 + TIMES.fetch_timeout_s
    assert a.merging.deadline() == due
    assert a.merging.expire(due) == [Up(Unreached((D,), ("D",), "merge")), a.says(C, MergeRefusal(()))]
    assert a.finds(coordinates("C"), now=due) == [], "it is not asked again at once"
    assert a.finds(coordinates("C"), now=due + TIMES.retry_s) == a.asks(C)


def test_a_member_of_the_leaders_own_part_that_lacks_something_puts_everything_off() -> None:
    a, _ = leading(1.0)
    for member in (A, C, D):
        a.merging.heard_fetched(member, DONE, 1.0)
    assert flush_requests(a.merging.expire(1.0 + TIMES.fetch_timeout_s)) == []


def test_the_other_parts_are_merged_without_it() -> None:
    a = Coordinator("A", view_of(3, "AB"), fetches=True)
    a.finds(coordinates("C"), coordinates("E"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.0)
    a.merging.replied(E, MergeReply(view_of(2, "E")), 1.0)
    a.answers(D, now=1.0)
    for member in (A, B, C, E):
        a.merging.heard_fetched(member, DONE, 1.0)
    assert flush_requests(a.merging.expire(1.0 + TIMES.fetch_timeout_s)) == [A, B, E]


def test_a_member_that_brings_something_forward_is_waited_for_up_to_a_limit() -> None:
    a, _ = leading(1.0)
    now = 1.0
    while now < TIMES.fetch_limit_s:
        now += 1.0
        assert a.merging.heard_fetched(D, FETCHING, now) == []
        assert a.says(C, MergeRefusal(())) not in a.merging.expire(now)
    due = a.merging.deadline()
    assert due == 1.0 + TIMES.fetch_limit_s
    assert a.says(C, MergeRefusal(())) in a.merging.expire(due)


def test_a_view_ends_it_and_so_does_a_change_that_is_due() -> None:
    a, _ = leading()
    a.merging.view_installed(a.view, 1.3)
    assert a.merging.heard_fetched(B, DONE, 1.3) == [Dropped("merge_fetched")]
    a, _ = leading(1.0)
    a.disturb("suspicious")
    assert flush_requests(a.merging.expire(1.0 + TIMES.fetch_timeout_s)) == []


def test_what_is_said_of_another_survey_or_twice_is_dropped() -> None:
    a, _ = leading()
    assert a.merging.heard_fetched(B, MergeFetched(2, True), 1.3) == [Dropped("merge_fetched")]
    assert a.merging.heard_fetched(E, DONE, 1.3) == [Dropped("merge_fetched")]
    a.merging.heard_fetched(B, DONE, 1.3)
    assert a.merging.heard_fetched(B, DONE, 1.3) == [Dropped("merge_fetched")]


def test_a_member_fetches_from_the_coordinators_of_the_other_parts_one_after_the_other() -> None:
    d = Coordinator("D", view_of(2, "CD"), fetches=True)
    errand = d.merging.errand
    assert d.merging.fetch(A, MergeFetch(1, (A, C, E)), 1.0) == [Up(Offered(E)), d.says(A, FETCHING)]
    assert errand.fetched() == [Up(Offered(A)), d.says(A, FETCHING)]
    assert errand.fetched() == [d.says(A, DONE)]
    assert errand.fetched() == []
    assert errand.fetching(2.0) == []


def test_the_leader_is_told_now_and_then_that_something_arrives() -> None:
    d = Coordinator("D", view_of(2, "CD"), fetches=True)
    d.merging.fetch(A, REQUEST, 1.0)
    told = [now for now in range(10, 40) if d.merging.errand.fetching(now / 10) == [Down(Frame(D, A, (FETCHING,)))]]
    assert told == [10, 20, 30]


def test_a_coordinator_that_agreed_is_ready_to_follow_as_long_as_fetching_may_take() -> None:
    c = Coordinator("C", view_of(2, "CD"), fetches=True)
    c.merging.requested(A, 1.0)
    c.merging.fetch(A, REQUEST, 1.5)
    assert c.merging.forwards(A, 1.5 + TIMES.fetch_limit_s)


def test_a_member_that_is_stopped_or_has_come_into_another_view_fetches_nothing() -> None:
    d = Coordinator("D", view_of(2, "CD"), fetches=True)
    d.merging.fetch(A, REQUEST, 1.0)
    d.merging.view_installed(d.view, 1.1)
    assert d.merging.errand.fetched() == []
    d.disturb("blocked")
    assert d.merging.fetch(A, REQUEST, 1.2) == [Dropped("merge_fetch")]
