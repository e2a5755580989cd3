"""The times of a leader's view changes: at once without a sequencer, else after collecting further changes."""

from __future__ import annotations

import pytest

from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.headers import (
    Commit,
    FlushReject,
    FlushReply,
    FlushRequest,
    Give,
    Given,
    Installed,
    JoinOffer,
    JoinRequest,
    MergeRefusal,
    Prepare,
    Prepared,
    Share,
    Shared,
    SuspectReport,
)
from sitestack.layers.membership.leader import Confirming, Leader
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Unreached
from sitestack.model.frame import Frame, Header
from sitestack.model.view import SubView, View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import frames_in

A, B, C, D, E, F = map(address, "ABCDEF")
BATCH_S = LeaderTimes().batch_s


def leader_of(me: str) -> Leader:
    member = Promises()
    member.install(view_of(1, "ABCD"))
    return Leader(local_of(me), member, LeaderTimes())


def said(effects: list[Effect], kind: type[Header]) -> list[Address]:
    """Return the receivers of such a header."""
    frames = frames_in(effects, Down)
    return [each.dest for each in frames if isinstance(each.headers[-1], kind) and isinstance(each.dest, Address)]


def asked(effects: list[Effect]) -> list[Address]:
    """Return the members that are asked to stop."""
    return said(effects, FlushRequest)


def test_all_that_are_given_up_at_one_time_are_left_out_by_one_flush() -> None:
    leader = leader_of("B")
    leader.suspect((A, C), 1.0)
    assert asked(leader.expire(1.0)) == [B, D]


def test_members_blocked_by_an_abandoned_flush_are_freed_by_its_leader_even_if_another_one_leads_again() -> None:
    leader = leader_of("B")
    leader.suspect((A,), 1.0)
    assert asked(leader.expire(1.0)) == [B, C, D]
    leader._member.promise(ViewId(2, B), 1.0)
    leader.changes.unsuspect((A,))
    leader.suspect((D,), 2.0)
    assert asked(leader.expire(2.0)) == [A, B, C]
    leader._member.promise(ViewId(4, A), 2.1)
    leader.yield_to(A)
    leader.retry(2.1)
    assert leader.expire(2.1) == [], "A finishes its own"


def test_a_leader_that_catches_up_with_a_view_in_force_flushes_again_in_it() -> None:
    leader = leader_of("B")
    leader.suspect((A,), 1.0)
    leader.expire(1.0)
    leader._member.promise(ViewId(3, B), 1.0)
    leader._member.install(view_of(2, "BCD"))
    leader._member.blocked_since = 1.0
    leader.view_installed(view_of(2, "BCD"), 1.1)
    assert asked(leader.expire(1.1 + BATCH_S)) == [B, C, D]


def test_other_changes_are_collected() -> None:
    leader = leader_of("A")
    leader.suspect((C,), 1.0)
    leader.leave(B, 1.01)
    leader.join(E, JoinRequest("E", True), 1.02)
    assert leader.deadline() == 1.0 + BATCH_S


def test_a_new_leader_receives_all_suspicions() -> None:
    """The receivers of the earlier suspicions may have died."""
    leader = leader_of("D")
    assert leader.suspect((C,), 1.0) == [Down(Frame(D, A, (SuspectReport((C,)),)))]
    assert leader.suspect((A,), 1.1) == [Down(Frame(D, B, (SuspectReport((C, A)),)))]


def test_a_join_counts_only_after_the_joiner_has_answered_an_offer() -> None:
    """An offer costs no member anything; a flush with a silent joiner blocks all. A reachable joiner asks twice."""
    leader = leader_of("A")
    told = [Up(Unreached((E,), ("E",), "join"))]
    for now, also in ((1.0, []), (5.0, told), (9.0, []), (5.0 + LeaderTimes().told_interval_s, told)):
        assert leader.join(E, JoinRequest("E", False), now) == [Down(Frame(A, E, (JoinOffer(),))), *also]
        assert len(leader.changes.entrance.waiting) == 0
        assert leader.deadline() is None
    assert leader.join(E, JoinRequest("E", True), 70.1) == []
    assert len(leader.changes.entrance.waiting) == 1
    assert leader.deadline() == 70.1 + BATCH_S


def test_a_joiner_of_a_former_coordinator_is_forgotten() -> None:
    """It asks the present one. If it has died meanwhile, all members would wait for it once this one leads again."""
    leader = leader_of("A")
    leader.join(E, JoinRequest("E", True), 1.0)
    for view in (view_of(2, "BA"), view_of(3, "AC")):
        leader._member.install(view)
        leader.view_installed(view, 2.0)
    assert leader.deadline() is None


def test_a_member_that_asks_twice_to_be_let_in_is_excluded() -> None:
    """It does not know that it is one: once the commit may still be on its way, twice it has waited for it in vain."""
    leader = leader_of("A")
    assert leader.join(C, JoinRequest("C", False), 1.0) == [Dropped("join_of_member")]
    assert leader.deadline() is None
    assert leader.join(C, JoinRequest("C", False), 5.0) == []
    assert len(leader.changes.entrance.waiting) == 0
    assert asked(leader.expire(5.0 + BATCH_S)) == [A, B, D]


def test_a_join_request_of_an_earlier_view_no_longer_counts() -> None:
    leader = leader_of("A")
    leader.join(C, JoinRequest("C", False), 1.0)
    leader.view_installed(view_of(2, "ABC"), 2.0)
    assert leader.join(C, JoinRequest("C", False), 5.0) == [Dropped("join_of_member")]


def test_a_merge_that_comes_forward_is_not_given_up() -> None:
    """The states that the parts exchange can be large."""
    leader, other = leader_of("A"), view_of(7, "EF")
    proposal, patience_s = ViewId(8, A), LeaderTimes().merge_timeout_s
    leader.start_merge((other,), 1.0)
    assert leader.deadline() == 1.0 + patience_s
    for n, member in enumerate((A, B, C, D, E)):
        leader.handle_reply(member, FlushReply(proposal, view_of(1, "ABCD").id, None, {}), 1.5 + n / 2)
        assert leader.deadline() == 1.5 + n / 2 + patience_s
    leader.handle_reply(E, FlushReply(proposal, other.id, None, {}), 4.0)
    leader.handle_reply(F, FlushReply(proposal, other.id, None, {}), 4.5)
    leader.handle_answer(B, Prepared(proposal, ()), 4.75)
    assert leader.deadline() == 4.75 + patience_s
    leader.handle_answer(B, Prepared(proposal, ()), 4.9)
    assert leader.deadline() == 4.75 + patience_s, "twice is not further"


def test_a_merge_that_exceeds_its_total_budget_is_given_up() -> None:
    """All parts stand still for as long as it gets on, however slowly."""
    leader, other, times = leader_of("A"), view_of(7, "EF"), LeaderTimes()
    leader.start_merge((other,), 1.0)
    for n, member in enumerate((A, B, C)):
        leader.handle_reply(member, FlushReply(ViewId(8, A), view_of(1, "ABCD").id, None, {}), 2.0 + 3 * n)
    assert leader.deadline() == 1.0 + times.merge_budget_s
    assert said(leader.expire(1.0 + times.merge_budget_s), MergeRefusal) == [E]


def test_a_merge_that_gives_way_to_another_leader_frees_the_other_parts() -> None:
    """They are blocked for it, and would wait until their coordinators start flushes of their own."""
    leader = leader_of("A")
    leader.start_merge((view_of(7, "EF"),), 1.0)
    assert said(leader.yield_to(B), MergeRefusal) == [E]
    assert leader.yield_to(B) == []


def test_a_merge_is_committed_only_when_all_members_hold_the_data_of_other_parts() -> None:
    """So that every member can finish it with its own data when its leader dies while committing."""
    leader, other = leader_of("A"), view_of(7, "EF")
    proposal, members = ViewId(8, A), (A, B, C, D, E, F)
    assert asked(leader.start_merge((other,), 1.0)) == [A, B, C, D, E]
    for member in members:
        part = view_of(1, "ABCD").id if member < E else other.id
        effects = leader.handle_reply(member, FlushReply(proposal, part, None, {}), 1.1)
    assert said(effects, Prepare) == list(members)
    for member in members:
        effects = leader.handle_answer(member, Prepared(proposal, (SuspectReport((member,)),)), 1.2)
    known = {part: tuple([SuspectReport((member,)) for member in part]) for part in ((A, B, C, D), (E, F))}
    gives = [(A, Give(proposal, known[E, F])), (E, Give(proposal, known[A, B, C, D]))]
    assert effects == [Down(Frame(A, member, (give,))) for member, give in gives], "less what all members of the other know"
    assert leader.handle_answer(B, Given(proposal, ()), 1.2) == [Dropped("stale_given")]
    assert leader.handle_answer(A, Given(proposal, (SuspectReport((A,)),)), 1.2) == []
    assert leader.handle_answer(A, Given(proposal, (SuspectReport((B,)),)), 1.2) == [Dropped("stale_given")], "once is enough"
    effects = leader.handle_answer(E, Given(proposal, (SuspectReport((E,)),)), 1.2)
    mine, others = Share(proposal, (SuspectReport((A,)),)), Share(proposal, (SuspectReport((E,)),))
    assert effects == [Down(Frame(A, member, (others if member < E else mine,))) for member in members]
    for member in members[1:]:
        assert leader.handle_answer(member, Shared(proposal), 1.3) == []
    assert said(leader.handle_answer(A, Shared(proposal), 1.4), Commit) == [*members[1:], A]


def flush_for(leader: Leader, joiner: str, now: float) -> None:
    """A joiner is let in; all members stand ready and wait for it."""
    assert leader.join(address(joiner), JoinRequest(joiner, True), now) == []
    started = leader.expire(now + BATCH_S)
    frame = next(each.event for each in started if isinstance(each, Down) and isinstance(each.event, Frame))
    request = frame.top(FlushRequest)
    assert request is not None
    leader._member.promise(request.proposal, now)
    for member in (A, B, C, D):
        leader.handle_reply(member, FlushReply(request.proposal, view_of(1, "ABCD").id, None, {}), now + BATCH_S)
    for member in (A, B, C, D):
        leader.handle_answer(member, Prepared(request.proposal, ()), now + BATCH_S)


def prepared_by(leader: Leader, proposal: ViewId, prepared: dict[Address, ViewId], *gone: Address) -> View:
    """The view that this leader of ABCD prepares without some; these survivors have prepared a view of another leader."""
    leader.suspect(gone, 1.0)
    leader.expire(1.0 + BATCH_S)
    leader._member.promise(proposal, 1.0)
    effects: list[Effect] = []
    for member in (each for each in (A, B, C, D) if each not in gone):
        effects = leader.handle_reply(member, FlushReply(proposal, view_of(1, "ABCD").id, prepared.get(member), {}), 1.0)
    [view, *_] = [each.headers[-1].view for each in frames_in(effects, Down) if isinstance(each.headers[-1], Prepare)]
    return view


OTHER = ViewId(2, D)


def test_a_leader_that_may_have_a_rival_heir_starts_a_new_lineage() -> None:
    """S23: C has prepared a view of D that this leader does not know, and which may be in force there."""
    lineage = view_of(1, "ABCD").lineage
    assert prepared_by(leader_of("A"), ViewId(2, A), {}, D).lineage == lineage
    assert prepared_by(leader_of("A"), ViewId(2, A), {C: OTHER}, D).lineage == ViewId(2, A)
    assert prepared_by(leader_of("A"), ViewId(2, A), {C: ViewId(1, A)}, D).lineage == lineage, "an attempt of its own"


@pytest.mark.parametrize(
    ("members", "lineage", "parts", "continues"),
    [
        ((D, A, B), ViewId(1, A), (), True),  # most of it follows this leader now
        ((D, A), ViewId(1, A), (), False),  # half of it does not, with its coordinator
        ((D,), ViewId(2, D), (), True),  # too small a part for the lineage
        ((D, A, B), ViewId(2, D), (), False),  # it started another flush, as it was in doubt itself
        ((D, A, E), ViewId(2, D), (SubView(ViewId(1, E), (E,), ViewId(1, E)),), True),  # a merge
    ],
)
def test_a_view_of_another_leader_matters_if_it_can_continue_the_lineage(
    members: tuple[Address, ...], lineage: ViewId, parts: tuple[SubView, ...], continues: bool
) -> None:
    leader = leader_of("A")
    view = View(OTHER, lineage, members, tuple(map(str, members)), parts)
    leader._member.prepare = Prepare(ViewId(1, A), view, {}, {}, False, ())
    made = prepared_by(leader, ViewId(2, A), {A: OTHER}, D)
    assert made.lineage == (view_of(1, "ABCD").lineage if continues else made.id)


def committed_without(astray: Address, now: float) -> Leader:
    """A leads BCD to view 2, without D; one of the others does not confirm the view."""
    leader, view = leader_of("A"), view_of(2, "ABC")
    leader.suspect((D,), now)
    leader.expire(now + BATCH_S)
    leader._member.promise(view.id, now)
    for member in (A, B, C):
        leader.handle_reply(member, FlushReply(view.id, view_of(1, "ABCD").id, None, {}), now)
    for member in (A, B, C):
        effects = leader.handle_answer(member, Prepared(view.id, ()), now)
    assert said(effects, Commit) == [B, C, A]
    leader._member.install(view)
    leader.view_installed(view, now)
    for member in (A, B, C):
        if member != astray:
            assert not leader.confirm(member, Installed(view.id))
    return leader


def test_a_commit_rejected_for_a_promise_to_another_leader_starts_a_new_flush() -> None:
    leader = committed_without(B, 1.0)
    assert leader.handle_reject(B, FlushReject(ViewId(2, A), ViewId(5, D), False), 1.1) == []
    effects = leader.expire(1.1 + 10 * BATCH_S)
    assert asked(effects) == [A, B, C]
    assert frames_in(effects, Down)[0].headers == (FlushRequest(ViewId(6, A)),), "above what it has promised"


def test_a_missing_installed_confirmation_starts_a_new_flush_after_a_timeout() -> None:
    leader = committed_without(C, 1.0)
    due = 1.0 + LeaderTimes().flush_timeout_s
    assert leader.deadline() == due
    leader.expire(due)
    assert asked(leader.expire(due + 10 * BATCH_S)) == [A, B, C]


def test_no_new_flush_starts_when_all_members_have_installed_the_view() -> None:
    leader = committed_without(C, 1.0)
    assert leader.confirm(C, Installed(ViewId(2, A)))
    for source in (A, D, C):
        leader.confirm(source, Installed(ViewId(2, A)))
    assert isinstance(leader._phase, Confirming)
    assert sorted(leader._phase.flush.installed) == [A, B, C], "once, and members only"
    due = 1.0 + LeaderTimes().flush_timeout_s
    assert leader.expire(due) == []
    assert leader.expire(due + 10 * BATCH_S) == []
    leader = committed_without(B, 1.0)
    leader.handle_reject(B, FlushReject(ViewId(2, A), ViewId(5, D), False), 1.1)
    leader.confirm(B, Installed(ViewId(2, A)))
    assert leader.expire(1.1 + 10 * BATCH_S) == [], "the other leader's flush was not its last word"


def test_a_joiner_that_did_not_answer_its_flush_is_refused_for_a_while() -> None:
    leader = leader_of("A")
    now, times = 1.0, LeaderTimes()
    for wait_s in (times.retry_s, 2 * times.retry_s):
        flush_for(leader, "E", now)
        now += BATCH_S + times.joiner_timeout_s
        effects = leader.expire(now)
        assert effects[:2] == [Dropped("flush_timeout", 1), Up(Unreached((E,), ("E",), "join"))]
        assert asked(effects) == [A, B, C, D], "and the others go on without it at once"
        for hears in (False, True):
            assert leader.join(E, JoinRequest("E", hears), now + wait_s - 0.1) == [Dropped("join_too_soon")]
        leader._member.install(view_of(1, "ABCD"))
        leader.view_installed(view_of(1, "ABCD"), now)
        now += wait_s


def test_a_joiner_is_not_blamed_for_a_member_that_does_not_answer() -> None:
    leader = leader_of("A")
    leader.join(E, JoinRequest("E", True), 1.0)
    leader.expire(1.0 + BATCH_S)
    leader.expire(1.0 + BATCH_S + LeaderTimes().flush_timeout_s)
    assert leader.join(E, JoinRequest("E", False), 10.0) == [Down(Frame(A, E, (JoinOffer(),)))]


def test_after_a_merge_timeout_parts_are_notified_and_the_silent_one_is_deferred() -> None:
    leader, times = leader_of("A"), LeaderTimes()
    other, third = view_of(7, "EF"), view_of(8, "G")
    leader.start_merge((other, third), 1.0)
    leader._member.promise(ViewId(9, A), 1.0)
    for member in (A, B, C, D, E, third.coordinator):
        part = next(view for view in (view_of(1, "ABCD"), other, third) if member in view.members)
        leader.handle_reply(member, FlushReply(ViewId(9, A), part.id, None, {}), 1.0)
    now = 1.0 + times.merge_timeout_s
    effects = leader.expire(now)
    assert Up(Unreached((F,), ("F",), "merge")) in effects
    assert said(effects, MergeRefusal) == [E, third.coordinator], "they go on at once, too"
    assert asked(effects) == [A, B, C, D]
    assert leader.changes.may_merge(third, now), "it has answered"
    assert not leader.changes.may_merge(other, now + times.retry_s - 0.1)
    assert leader.changes.may_merge(view_of(9, "E"), now), "the one that did not answer is gone"
    assert leader.changes.may_merge(other, now + times.retry_s)


def test_parts_are_notified_when_a_death_or_a_refusal_ends_a_merge() -> None:
    for end in ("death", "refusal"):
        leader = leader_of("A")
        leader.start_merge((view_of(7, "EF"),), 1.0)
        if end == "death":
            effects = leader.suspect((B,), 1.1)
        else:
            effects = leader.handle_reject(F, FlushReject(ViewId(8, A), ViewId(9, E), False), 1.1)
        assert effects == [Down(Frame(A, E, (MergeRefusal(()),)))]
        assert leader.changes.may_merge(view_of(7, "EF"), 1.1), "nobody stood still for long"
