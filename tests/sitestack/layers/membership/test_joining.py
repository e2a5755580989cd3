"""The joiner's machine alone: whom it asks, how long it waits, and when it founds a site."""

from __future__ import annotations

from dataclasses import replace

from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.headers import (
    Commit,
    JoinOffer,
    JoinRedirect,
    JoinRequest,
    MergeFetch,
    MergeFetched,
    MergeRefusal,
    MergeReply,
)
from sitestack.layers.membership.joining import Joining, Phase
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.reminders import Reminders
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, Peer, Unreached
from sitestack.model.frame import Frame
from sitestack.model.state_events import Fetched, Offered
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_id, view_of
from tests.sitestack.layers.membership.coordinators import TIMES, Coordinator, D, E, coordinates, flush_requests

A, B, C = map(address, "ABC")
TIMEOUT_S = 4.0
LOOK = [Down(FindMembers())]


def asks(member: Address, hears: bool = False) -> list[Effect]:
    return [Down(Frame(B, member, (JoinRequest("B", hears),)))]


def peer(name: str, coordinator: str | None = None, counter: int = 1) -> Peer:
    leader = None if coordinator is None else address(coordinator)
    return Peer(address(name), leader, None if leader is None else ViewId(counter, leader))


def looking(fetches: bool = False) -> Joining:
    """B has just begun to look around."""
    joining = Joining(local_of("B"), TIMEOUT_S, fetches)
    assert joining.find_site() == LOOK
    return joining


def test_a_coordinator_that_offers_nothing_is_asked_after_the_others() -> None:
    """It is heard, or heard of, and does not hear the joiner. When all are like that, it begins again with the newest."""
    joining, now = looking(), 1.0
    for coordinator in (C, A, C):
        assert joining.found(Found((peer("A", "A", 3), peer("D", "C", 7))), now) == asks(coordinator)
        now += TIMEOUT_S
        assert joining.expire(now) == LOOK


def test_of_joiners_alone_the_first_founds_the_site_and_the_others_look_again() -> None:
    assert looking().found(Found(()), 1.0) is None
    assert looking().found(Found((peer("C"),)), 1.0) is None
    assert looking().found(Found((peer("A"), peer("C"))), 1.0) == LOOK


def test_a_redirected_joiner_asks_the_new_coordinator_and_restarts_its_wait() -> None:
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.redirected(JoinRedirect(C), 2.0) == asks(C)
    assert joining.redirected(JoinRedirect(B), 2.5) == [], "nobody asks itself"
    assert joining.deadline() == 2.0 + TIMEOUT_S
    assert joining.expire(2.0 + TIMEOUT_S) == LOOK


def test_members_that_redirect_to_each_other_are_asked_a_few_times_until_the_next_search() -> None:
    joining = looking()
    for _ in range(2):
        joining.found(Found((peer("A", "A"),)), 1.0)
        answers = [joining.redirected(JoinRedirect(other), 1.0) for _ in range(10) for other in (C, A)]
        assert answers == [asks(C), asks(A)] * 4 + [[]] * 12
        assert joining.expire(1.0 + TIMEOUT_S) == LOOK


def test_only_an_offer_of_the_asked_coordinator_is_answered_and_only_once() -> None:
    """A second answer would look like the question of a member that does not know that it is one."""
    joining = looking()
    assert joining.offered(A) == [], "nobody was asked yet"
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.offered(C) == []
    assert joining.offered(A) == asks(A, hears=True)
    assert joining.offered(A) == []
    assert joining.deadline() == 1.0 + TIMEOUT_S
    joining.ready(2.0)
    assert joining.offered(A) == []


def test_a_ready_joiner_restarts_its_wait_and_sends_no_request() -> None:
    """To ask as a member would mean to have waited in vain."""
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.ready(1.0 + TIMEOUT_S - 0.1)
    assert joining.redirected(JoinRedirect(C), TIMEOUT_S) == []
    assert joining.expire(1.0 + TIMEOUT_S) == []
    assert joining.expire(1.0 + 2 * TIMEOUT_S - 0.1) == LOOK


def test_a_joiner_that_becomes_ready_during_a_search_ignores_its_result() -> None:
    joining = looking()
    joining.ready(1.0)
    assert joining.found(Found(()), 1.5) == []
    assert joining.deadline() == 1.0 + TIMEOUT_S


def test_a_member_wants_nothing_any_more() -> None:
    joining = looking()
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.done()
    assert joining.phase is Phase.IDLE
    assert joining.deadline() is None


def test_a_joiner_with_data_to_fetch_fetches_before_it_answers_the_offer() -> None:
    joining = looking(fetches=True)
    joining.found(Found((peer("A", "A"),)), 1.0)
    assert joining.offered(A) == [Up(Offered(A))]
    assert joining.fetched(Fetched((JoinOffer(),)), 2.0) == [Down(Frame(B, A, (JoinRequest("B", True, (JoinOffer(),)),)))]
    assert joining.fetched(Fetched(()), 2.0) == [], "one answer to one offer"


def test_a_coordinator_from_which_something_comes_is_not_given_up() -> None:
    joining = looking(fetches=True)
    joining.found(Found((peer("A", "A"),)), 1.0)
    joining.offered(A)
    for second in range(2, 60, 3):
        joining.fetching(float(second))
        assert joining.expire(second + 0.9 * TIMEOUT_S) == []
    assert joining.expire(second + TIMEOUT_S) == LOOK
    assert joining.fetched(Fetched(()), 70.0) == [], "it has been given up, and is asked again"
    joining.fetching(70.0)
    assert joining.deadline() is None


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


def test_a_part_with_a_member_without_fetch_progress_is_deferred() -> None:
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


def test_foreign_and_duplicate_fetch_reports_are_dropped() -> None:
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


def test_fetch_progress_is_reported_to_the_leader_at_intervals() -> None:
    d = Coordinator("D", view_of(2, "CD"), fetches=True)
    d.merging.fetch(A, REQUEST, 1.0)
    told = [now for now in range(10, 40) if d.merging.errand.fetching(now / 10) == [Down(Frame(D, A, (FETCHING,)))]]
    assert told == [10, 20, 30]


def test_an_agreed_coordinator_follows_its_leader_until_the_fetch_limit() -> None:
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


def waits_after(backoff: Backoff, key: str, now: float) -> float:
    """How long an attempt waits that fails now, to the tenth of a second."""
    backoff.failed(key, now)
    return next(tenth / 10 for tenth in range(1_000) if not backoff.waits(key, now + tenth / 10))


def test_each_failure_doubles_the_wait_up_to_a_bound() -> None:
    backoff = Backoff(1.0, 5.0, 8)
    assert not backoff.waits("A", 0.0)
    assert [waits_after(backoff, "A", now) for now in (0.0, 1.0, 3.0, 7.0, 12.0)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert not backoff.waits("B", 12.0)


def test_a_failure_long_ago_counts_no_more() -> None:
    backoff = Backoff(1.0, 5.0, 8)
    backoff.failed("A", 0.0)
    assert waits_after(backoff, "A", 6.0) == 2.0
    assert waits_after(backoff, "A", 8.0 + 5.0 + 0.1) == 1.0


def test_beyond_the_bound_the_one_that_failed_longest_ago_is_forgotten() -> None:
    backoff = Backoff(10.0, 10.0, 2)
    for now, key in enumerate("ABAC"):
        backoff.failed(key, float(now))
    assert len(backoff) == 2
    assert [backoff.waits(key, 4.0) for key in "ABC"] == [True, False, True]


OLD, NEW = view_of(1, "ABCD"), replace(view_of(2, "BCD"), id=view_id("2A"))


def at(view: View) -> tuple[Promises, Reminders]:
    member = Promises()
    member.install(view)
    return member, Reminders(local_of("B"), member)


def commits(*targets: str) -> list[Effect]:
    return [Down(Frame(B, address(name), (Commit(NEW.id),))) for name in targets]


def test_a_report_of_a_departed_member_is_answered_with_the_commit() -> None:
    _, reminders = at(NEW)
    assert reminders.reported(D, (A,)) == commits("D")
    assert reminders.reported(D, (C,)) == []
    assert reminders.reported(A, (A,)) == [], "A is no member"


def test_an_earlier_reporter_is_sent_the_commit_once_the_view_is_installed() -> None:
    member, reminders = at(OLD)
    assert [reminders.reported(each, (A,)) for each in (D, D, A)] == [[], [], []]
    member.install(NEW)
    assert reminders.view_installed(NEW) == commits("D")
    assert reminders.view_installed(NEW) == []


def test_the_leader_of_the_view_tells_its_commit_anyway() -> None:
    member, reminders = at(OLD)
    reminders.reported(D, (A,))
    own = view_of(2, "BCD")
    member.install(own)
    assert reminders.view_installed(own) == []
