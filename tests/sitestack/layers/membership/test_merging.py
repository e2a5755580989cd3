"""How the parts of a split site agree that one of their coordinators leads the merge: who asks, who agrees, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.headers import (
    FlushRequest,
    JoinRequest,
    MergeFetch,
    MergeFetched,
    MergeHint,
    MergeRefusal,
    MergeReply,
)
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.merging import Merging
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Found, Peer, SeenView, Unreached
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import present
from tests.sitestack.layers.membership.coordinators import (
    AGES_S,
    LOOK,
    REFUSED,
    TIMES,
    A,
    B,
    C,
    Coordinator,
    D,
    E,
    F,
    coordinates,
    flush_requests,
)

DISTURBED = pytest.mark.parametrize("how", ["blocked", "busy", "suspicious"])


# -- looking around ------------------------------------------------------------------------------------------------------


def agreed() -> Coordinator:
    """C, which coordinates C and D, has been asked by A to merge."""
    c = Coordinator("C", view_of(2, "CD"))
    c.merging.requested(A, 1.0)
    return c


def test_the_lowest_coordinator_asks_the_others_and_the_others_point_it_to_themselves() -> None:
    a, c = Coordinator("A", view_of(3, "AB")), Coordinator("C", view_of(2, "CD"))
    assert a.finds(coordinates("C", 2), coordinates("E")) == a.asks(C, E)
    assert c.finds(coordinates("A", 3), coordinates("E")) == [c.says(A, MergeHint(c.view.id))]


def test_a_peer_in_the_same_view_or_without_one_is_no_other_part() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    assert a.finds(Peer(B, A, a.view.id), Peer(C, None, None)) == []
    assert a.finds(Peer(B, B, ViewId(2, B))) == [], "a member of this view is given up first, and merged then"


def test_no_more_than_so_many_parts_are_asked_at_once_and_none_while_some_are_asked() -> None:
    a = Coordinator("A", view_of(3, "AB"), replace(TIMES, parts_max=2))
    peers = [coordinates(name) for name in "CDE"]
    assert a.finds(*peers) == a.asks(C, D)
    assert a.finds(*peers) == []


@DISTURBED
def test_no_merge_request_is_sent_during_an_own_view_change(how: str) -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.disturb(how)
    assert a.finds(coordinates("C")) == []


def test_only_a_coordinator_looks_around_and_asks() -> None:
    b = Coordinator("B", view_of(3, "AB"))
    assert b.merging.expire(AGES_S) == []
    assert b.finds(coordinates("C")) == []


def test_a_coordinator_looks_around_from_time_to_time_at_once_after_a_hint_and_soon_after_a_heartbeat() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    due = present(a.merging.deadline())
    assert 0.75 * TIMES.look_interval_s <= due <= 1.25 * TIMES.look_interval_s
    assert a.merging.seen(SeenView(C, ViewId(1, C)), 1.0) == []
    assert a.merging.deadline() == 1.0 + TIMES.hint_delay_s
    assert a.merging.hinted(1.1) == []
    assert a.merging.expire(1.1) == LOOK
    after = present(a.merging.deadline())
    assert after >= 1.1 + 0.75 * TIMES.look_interval_s


# -- agreeing ------------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_forwarded_a_request_defers_changes_for_a_while() -> None:
    c = agreed()
    assert c.merging.forwards(A, 1.2)
    c.leader.join(E, JoinRequest("E", True), 1.3)
    assert c.leader.deadline() == 1.2 + TIMES.follow_s, "held: whoever wants in waits for the merge"
    assert c.merging.requested(B, 1.5) == REFUSED
    assert c.merging.forwards(A, 1.2 + TIMES.follow_s), "another proposal of the same leader"


def test_a_consent_alone_holds_nothing_back() -> None:
    """A may die, or not hear C and ask again and again. And a merge is not begun beside another change."""
    c = agreed()
    assert not c.leader.busy()
    c.leader.join(E, JoinRequest("E", True), 1.1)
    assert not c.merging.forwards(A, 1.12)
    assert flush_requests(c.leader.expire(1.2)) == [C, D]


def test_a_consent_that_nothing_came_of_expires() -> None:
    c = agreed()
    assert not c.merging.forwards(A, 1.0 + TIMES.consent_s + 0.01)


def test_after_a_merge_that_never_came_the_next_attempt_is_agreed_to() -> None:
    c = agreed()
    c.merging.forwards(A, 1.0)
    after = 1.0 + TIMES.follow_s + 0.01
    assert c.leader.expire(after) == [], "nothing has changed, so nobody is disturbed"
    assert not c.leader.busy()
    assert c.merging.requested(A, after) == [c.says(A, MergeReply(c.view))]


def test_a_new_view_ends_the_consent() -> None:
    c = agreed()
    c.merging.view_installed(c.view, 1.5)
    assert not c.merging.forwards(A, 1.5)


@DISTURBED
def test_a_merge_request_is_refused_during_an_own_view_change(how: str) -> None:
    c = Coordinator("C", view_of(2, "CD"))
    c.disturb(how)
    due = c.leader.deadline()
    assert c.merging.requested(A, 1.0) == REFUSED
    assert not c.merging.forwards(A, 1.0)
    assert c.leader.deadline() == due, "nothing is put off for it"


@pytest.mark.parametrize(
    ("me", "view", "source"),
    [("C", "CD", E), ("D", "CD", A), ("C", "CAD", A)],
    ids=["of a higher address", "to one who does not coordinate", "of a member of the same view"],
)
def test_a_request_is_refused(me: str, view: str, source: Address) -> None:
    asked = Coordinator(me, view_of(2, view))
    assert asked.merging.requested(source, 1.0) == REFUSED
    assert not asked.merging.forwards(source, 1.0)


def test_a_process_without_a_view_refuses_a_merge_request() -> None:
    member = Promises()
    merging = Merging(local_of("C"), member, Leader(local_of("C"), member, LeaderTimes()), TIMES)
    assert merging.requested(A, 1.0) == REFUSED
    assert merging.found(Found((coordinates("A"),)), 1.0) == []


def test_an_asking_coordinator_gives_up_its_merge_for_a_lower_one() -> None:
    b = Coordinator("B", view_of(2, "BD"))
    assert b.finds(coordinates("C")) == b.asks(C)
    assert b.merging.requested(A, 1.1) == [b.says(A, MergeReply(b.view))]
    assert b.merging.replied(C, MergeReply(view_of(2, "C")), 1.2) == [Dropped("merge_reply")]
    assert b.merging.expire(1.0 + TIMES.reply_timeout_s) == []
    assert b.merging.merges_started == 0


# -- leading -------------------------------------------------------------------------------------------------------------


def test_when_all_have_agreed_the_merge_begins_at_once_above_all_their_views() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C", 9), coordinates("E"))
    assert a.merging.replied(C, MergeReply(view_of(9, "CD")), 1.1) == []
    assert a.merging.replied(E, MergeReply(view_of(1, "EF")), 1.2) == a.questions(D, F)
    assert a.answers(D) == []
    begun = a.answers(F)
    assert begun == [a.says(to, FlushRequest(ViewId(10, A))) for to in (A, B, C, E)], "coordinators pass it on"
    assert a.merging.merges_started == 1
    assert a.merging.expire(1.0 + TIMES.reply_timeout_s) == []


def test_a_part_that_does_not_agree_in_time_is_left_out_of_the_merge() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C"), coordinates("E"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.1)
    assert a.merging.deadline() == 1.0 + TIMES.reply_timeout_s
    assert a.merging.expire(1.0 + TIMES.reply_timeout_s) == a.questions(D)
    assert flush_requests(a.answers(D, now=2.05)) == [A, B, C]
    assert a.merging.replied(E, MergeReply(view_of(1, "EF")), 2.1) == [Dropped("merge_reply")], "too late"


@pytest.mark.parametrize(
    ("source", "view"), [(E, "E"), (C, "DC"), (D, "CD")], ids=["not asked", "coordinates no more", "speaks for another"]
)
def test_only_the_agreement_of_an_asked_coordinator_counts(source: Address, view: str) -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C"))
    assert a.merging.replied(source, MergeReply(view_of(2, view)), 1.1) == [Dropped("merge_reply")]
    assert a.merging.merges_started == 0


@DISTURBED
def test_an_own_view_change_takes_precedence_over_an_agreed_merge(how: str) -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C"))
    a.disturb(how)
    assert a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.1) == []
    assert a.merging.merges_started == 0


@pytest.mark.parametrize(
    ("own", "parts", "asked"),
    [("ABC", ["CD"], []), ("AB", ["CE", "DE"], [A, B, C]), ("AB", ["CB", "DE"], [A, B, D])],
    ids=["with mine", "with each other", "one of them with mine"],
)
def test_of_views_that_overlap_one_is_taken(own: str, parts: list[str], asked: list[Address]) -> None:
    """F7: a member cannot come along with two parts; the second part waits until its view has let the member go."""
    a = Coordinator("A", view_of(5, own))
    a.finds(*[coordinates(part[0]) for part in parts if address(part[0]) not in a.view.members])
    a.merging._asked = [address(part[0]) for part in parts]
    effects = [a.merging.replied(address(part[0]), MergeReply(view_of(2, part)), 1.1) for part in parts]
    members = [each.event.dest for each in effects[-1] if isinstance(each, Down) and isinstance(each.event, Frame)]
    assert flush_requests(a.answers(*members) if asked else effects[-1]) == asked
    assert a.merging.merges_started == (1 if asked else 0)


# -- companions elsewhere ------------------------------------------------------------------------------------------------


def test_a_companion_that_stays_in_a_later_view_is_given_up() -> None:
    a = Coordinator("A", view_of(3, "ABC"))
    later = SeenView(B, ViewId(4, B))
    assert a.merging.seen(later, 1.0) == []
    assert a.merging.seen(later, 1.0 + TIMES.elsewhere_s - 0.01) == []
    assert a.leader.changes.suspected == []
    a.merging.seen(later, 1.0 + TIMES.elsewhere_s)
    assert a.leader.changes.suspected == [B]


def test_a_companion_that_is_late_or_comes_back_is_waited_for() -> None:
    a = Coordinator("A", view_of(3, "ABC"))
    a.merging.seen(SeenView(B, ViewId(2, A)), 0.0)
    a.merging.seen(SeenView(B, ViewId(2, A)), AGES_S)
    a.merging.seen(SeenView(C, ViewId(4, C)), 1.0)
    a.merging.seen(SeenView(C, ViewId(2, A)), 2.0)
    a.merging.seen(SeenView(C, ViewId(4, C)), 1.0 + TIMES.elsewhere_s)
    assert a.leader.changes.suspected == []


def survey_in_vain(a: Coordinator, now: float = 1.0, survey: int = 1) -> tuple[list[Effect], float]:
    """A asks C, which agrees, and D, which does not answer. Returns the effects and their time."""
    assert a.finds(coordinates("C", 2), now=now) == a.asks(C)
    assert a.merging.replied(C, MergeReply(view_of(2, "CD")), now) == a.questions(D, survey=survey)
    due = now + TIMES.survey_timeout_s
    assert a.merging.expire(due - 0.01) in ([], LOOK)
    return [each for each in a.merging.expire(due) if each not in LOOK], due


def test_a_part_with_a_member_that_does_not_answer_is_not_stopped_and_may_lead_itself() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    effects, _ = survey_in_vain(a)
    assert effects == [a.says(C, MergeRefusal((D,))), Up(Unreached((D,), ("D",), "merge"))]
    assert a.merging.merges_started == 0
    assert a.merging.requested(C, 2.1) == [a.says(C, MergeReply(a.view))], "though its address is higher"


def test_the_parts_that_answer_whole_are_merged_without_the_one_that_does_not() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    a.finds(coordinates("C"), coordinates("E"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.1)
    assert a.merging.replied(E, MergeReply(view_of(2, "EF")), 1.1) == a.questions(D, F)
    a.answers(F)
    effects = a.merging.expire(1.1 + TIMES.survey_timeout_s)
    assert a.says(C, MergeRefusal((D,))) in effects
    assert flush_requests(effects) == [A, B, E]


def test_a_part_that_does_not_fetch_in_time_is_refused_and_the_others_merge() -> None:
    a = Coordinator("A", view_of(3, "AB"), fetches=True)
    a.finds(coordinates("C"), coordinates("E"))
    a.merging.replied(C, MergeReply(view_of(2, "CD")), 1.1)
    a.merging.replied(E, MergeReply(view_of(2, "EF")), 1.1)
    assert a.says(F, MergeFetch(1, (A, C, E))) in a.answers(D, F)
    for member in (A, B, C, D, F):
        assert a.merging.heard_fetched(member, MergeFetched(1, True), 1.3) == []
    effects = a.merging.expire(1.3 + TIMES.fetch_limit_s)
    assert effects[:2] == [Up(Unreached((E,), ("E",), "merge")), a.says(E, MergeRefusal(()))]
    assert flush_requests(effects) == [A, B, C]


def test_it_is_tried_again_less_and_less_often_until_the_silent_one_answers_late() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    now = 1.0
    for survey, wait_s in enumerate((1.0, 2.0, 4.0), 1):
        _, now = survey_in_vain(a, now, survey)
        assert a.finds(coordinates("C", 2), now=now + wait_s - 0.01) == []
        now += wait_s
    _, now = survey_in_vain(a, now, 4)
    assert a.answers(D, now=now + 0.1, survey=1) == [], "it was on its way all the time"
    assert a.finds(coordinates("C", 2), now=now + 0.1) == a.asks(C)


def test_a_late_answer_does_not_count_for_another_survey() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    _, now = survey_in_vain(a)
    a.finds(coordinates("C", 2), now=now + 1.0)
    a.merging.replied(C, MergeReply(view_of(2, "CD")), now + 1.0)
    assert a.answers(D, now=now + 1.1, survey=1) == []
    assert a.merging.merges_started == 0
    assert a.answers(D, now=now + 1.2, survey=1) == [Dropped("merge_answer")]
    assert flush_requests(a.answers(D, now=now + 1.3, survey=2)) == [A, B, C]


def test_a_part_that_enters_the_view_is_no_longer_counted_as_silent() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    survey_in_vain(a)
    assert a.merging.silent_parts == 1
    a.merging.view_installed(view_of(4, "CDAB"), 3.0)
    assert a.merging.silent_parts == 0
    assert a.merging.requested(C, 3.1) == REFUSED


def test_after_a_refusal_a_coordinator_searches_at_once_and_may_lead() -> None:
    c = agreed()
    assert c.merging.refused(A, MergeRefusal((D,)), 1.5) == []
    assert not c.merging.forwards(A, 1.5), "the consent is over"
    assert c.merging.expire(1.5) == LOOK
    assert c.finds(coordinates("A"), now=1.6) == c.asks(A)
    assert c.merging.refused(A, MergeRefusal((D,)), 1.7) == [Dropped("merge_refusal")]


def test_the_next_view_returns_the_lead_to_the_lower_coordinator() -> None:
    c = agreed()
    c.merging.refused(A, MergeRefusal((D,)), 1.5)
    c.merging.view_installed(c.view, 2.0)
    assert c.finds(coordinates("A"), now=2.1) == [c.says(A, MergeHint(c.view.id))]


def test_changes_deferred_for_a_merge_start_at_once_when_it_is_given_up() -> None:
    """It does not lead then: the other one reaches all members, and something took too long."""
    c = agreed()
    c.merging.forwards(A, 1.0)
    c.leader.join(E, JoinRequest("E", True), 1.1)
    c.merging.refused(A, MergeRefusal(()), 2.0)
    assert flush_requests(c.leader.expire(2.0)) == [C, D]
    assert c.finds(coordinates("A"), now=9.0) == []


def test_a_coordinator_long_known_only_from_others_is_reported() -> None:
    c = Coordinator("C", view_of(2, "CD"))
    of_a, told = Peer(B, A, ViewId(3, A)), [Up(Unreached((A,), (repr(A),), "merge"))]
    assert c.finds(of_a, now=1.0) == []
    assert c.finds(of_a, now=1.0 + TIMES.heard_of_s) == told
    assert c.finds(of_a, now=2.0 + TIMES.heard_of_s) == []
    again = 1.0 + TIMES.heard_of_s + TIMES.told_interval_s
    assert c.finds(of_a, now=again) == told
    assert c.finds(of_a, coordinates("A"), now=again + 1.0) == [c.says(A, MergeHint(c.view.id))]
    assert c.finds(of_a, now=again + TIMES.told_interval_s) == [], "it has answered in between"
