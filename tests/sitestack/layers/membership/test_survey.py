"""Before a merge stops any member, its leader asks which members receive it; a silent one delays no other."""

from __future__ import annotations

from sitestack.layers.membership.headers import JoinRequest, MergeHint, MergeRefusal, MergeReply
from sitestack.model.events import Peer, Unreached
from sitestack.model.view import ViewId
from sitestack.stack.layer import Dropped, Effect, Up
from tests.harness.addresses import view_of
from tests.sitestack.layers.membership.coordinators import (
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


def test_who_comes_into_the_view_is_apart_no_more() -> None:
    a = Coordinator("A", view_of(3, "AB"))
    survey_in_vain(a)
    assert a.merging.silent_parts == 1
    a.merging.view_installed(view_of(4, "CDAB"), 3.0)
    assert a.merging.silent_parts == 0
    assert a.merging.requested(C, 3.1) == REFUSED


def test_who_is_refused_goes_on_at_once_and_leads_if_it_may() -> None:
    c = Coordinator("C", view_of(2, "CD"))
    c.merging.requested(A, 1.0)
    assert c.merging.refused(A, MergeRefusal((D,)), 1.5) == []
    assert not c.merging.forwards(A, 1.5), "the consent is over"
    assert c.merging.expire(1.5) == LOOK
    assert c.finds(coordinates("A"), now=1.6) == c.asks(A)
    assert c.merging.refused(A, MergeRefusal((D,)), 1.7) == [Dropped("merge_refusal")]


def test_who_leaves_the_lead_once_takes_it_back_with_the_next_view() -> None:
    c = Coordinator("C", view_of(2, "CD"))
    c.merging.requested(A, 1.0)
    c.merging.refused(A, MergeRefusal((D,)), 1.5)
    c.merging.view_installed(c.view, 2.0)
    assert c.finds(coordinates("A"), now=2.1) == [c.says(A, MergeHint(c.view.id))]


def test_who_held_still_for_a_merge_that_was_given_up_does_what_is_to_do_at_once() -> None:
    """It does not lead then: the other one reaches all members, and something took too long."""
    c = Coordinator("C", view_of(2, "CD"))
    c.merging.requested(A, 1.0)
    c.merging.forwards(A, 1.0)
    c.leader.join(E, JoinRequest("E", True), 1.1)
    c.merging.refused(A, MergeRefusal(()), 2.0)
    assert flush_requests(c.leader.expire(2.0)) == [C, D]
    assert c.finds(coordinates("A"), now=9.0) == []


def test_who_only_others_tell_of_is_not_waited_for() -> None:
    """It may be one that cannot be reached."""
    c = Coordinator("C", view_of(2, "CD"))
    of_a = Peer(B, "B", A, ViewId(3, A))
    assert c.finds(of_a) == []
    assert c.finds(of_a, coordinates("E")) == c.asks(E)


def test_people_are_told_of_a_coordinator_that_only_others_hear_for_long() -> None:
    c = Coordinator("C", view_of(2, "CD"))
    of_a, told = Peer(B, "B", A, ViewId(3, A)), [Up(Unreached((A,), (repr(A),), "merge"))]
    assert c.finds(of_a, now=1.0) == []
    assert c.finds(of_a, now=1.0 + TIMES.heard_of_s) == told
    assert c.finds(of_a, now=2.0 + TIMES.heard_of_s) == []
    again = 1.0 + TIMES.heard_of_s + TIMES.told_interval_s
    assert c.finds(of_a, now=again) == told
    assert c.finds(of_a, coordinates("A"), now=again + 1.0) == [c.says(A, MergeHint(c.view.id))]
    assert c.finds(of_a, now=again + TIMES.told_interval_s) == [], "it has answered in between"
