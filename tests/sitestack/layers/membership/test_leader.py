"""When a leader changes the view: at once if nobody sequences any more, else after collecting what else there is to change."""

from __future__ import annotations

from sitestack.layers.membership.headers import (
    Commit,
    FlushReply,
    FlushRequest,
    JoinOffer,
    JoinRequest,
    Prepare,
    Prepared,
    Share,
    Shared,
    SuspectReport,
)
from sitestack.layers.membership.leader import Leader, LeaderTimes
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import frames_in

A, B, C, D, E, F = map(address, "ABCDEF")
BATCH_S = LeaderTimes().batch_s


def leader_of(me: str) -> Leader:
    member = Promises()
    member.install(view_of(1, "ABCD"))
    return Leader(local_of(me), member, LeaderTimes())


def said(effects: list[Effect], kind: type[Header]) -> list[Address]:
    """Who is told such a thing."""
    frames = frames_in(effects, Down)
    return [each.dest for each in frames if isinstance(each.headers[-1], kind) and isinstance(each.dest, Address)]


def asked(effects: list[Effect]) -> list[Address]:
    """Who is asked to stop."""
    return said(effects, FlushRequest)


def test_whoever_takes_over_from_a_coordinator_begins_at_once() -> None:
    leader = leader_of("B")
    leader.suspect((A,), 1.0)
    assert leader.deadline() == 1.0
    assert asked(leader.expire(1.0)) == [B, C, D]


def test_all_that_are_given_up_at_one_time_are_left_out_by_one_flush() -> None:
    leader = leader_of("B")
    leader.suspect((A, C), 1.0)
    assert asked(leader.expire(1.0)) == [B, D]


def test_who_dies_while_the_flush_goes_on_is_not_waited_for() -> None:
    leader = leader_of("B")
    leader.suspect((A,), 1.0)
    leader.expire(1.0)
    leader.suspect((C,), 1.1)
    assert leader.deadline() == 1.1
    assert asked(leader.expire(1.1)) == [B, D]


def test_other_changes_are_collected() -> None:
    leader = leader_of("A")
    leader.suspect((C,), 1.0)
    leader.leave(B, 1.01)
    leader.join(E, JoinRequest("E", True), 1.02)
    assert leader.deadline() == 1.0 + BATCH_S


def test_who_is_not_next_in_line_reports_and_changes_nothing() -> None:
    leader = leader_of("C")
    assert leader.suspect((A,), 1.0) == [Down(Frame(C, B, (SuspectReport((A,)),)))]
    assert leader.deadline() is None
    leader.suspect((B,), 1.2)
    assert leader.deadline() == 1.2


def test_a_new_leader_hears_of_all_that_is_suspected() -> None:
    """Whoever heard of the earlier suspicions may have died with its knowledge."""
    leader = leader_of("D")
    assert leader.suspect((C,), 1.0) == [Down(Frame(D, A, (SuspectReport((C,)),)))]
    assert leader.suspect((A,), 1.1) == [Down(Frame(D, B, (SuspectReport((C, A)),)))]


def test_who_wants_in_shows_first_that_it_can_be_reached() -> None:
    """The offer costs nobody anything; a flush with somebody who does not answer stops the whole site."""
    leader = leader_of("A")
    for now in (1.0, 5.0):
        assert leader.join(E, JoinRequest("E", False), now) == [Down(Frame(A, E, (JoinOffer(),)))]
        assert leader.joiners == 0
        assert leader.deadline() is None
    assert leader.join(E, JoinRequest("E", True), 5.1) == []
    assert leader.joiners == 1
    assert leader.deadline() == 5.1 + BATCH_S


def test_a_member_that_asks_twice_to_be_let_in_is_excluded() -> None:
    """It does not know that it is one: once the commit may still be on its way, twice it has waited for it in vain."""
    leader = leader_of("A")
    assert leader.join(C, JoinRequest("C", False), 1.0) == [Dropped("join_of_member")]
    assert leader.deadline() is None
    assert leader.join(C, JoinRequest("C", False), 5.0) == []
    assert leader.joiners == 0
    assert asked(leader.expire(5.0 + BATCH_S)) == [A, B, D]


def test_what_a_member_asked_in_an_earlier_view_counts_no_more() -> None:
    leader = leader_of("A")
    leader.join(C, JoinRequest("C", False), 1.0)
    leader.view_installed(view_of(2, "ABC"), 2.0)
    assert leader.join(C, JoinRequest("C", False), 5.0) == [Dropped("join_of_member")]


def test_a_merge_that_comes_forward_is_not_given_up() -> None:
    """What the parts tell each other can be large."""
    leader, other = leader_of("A"), view_of(7, "EF")
    proposal, patience_s = ViewId(8, A), LeaderTimes().merge_timeout_s
    leader.start_merge((other,), 1.0)
    assert leader.deadline() == 1.0 + patience_s
    for n, member in enumerate((A, B, C, D, E)):
        leader.replied(member, FlushReply(proposal, view_of(1, "ABCD").id, None, {}), 2.0 + n)
        assert leader.deadline() == 2.0 + n + patience_s
    leader.replied(E, FlushReply(proposal, other.id, None, {}), 8.0)
    leader.replied(F, FlushReply(proposal, other.id, None, {}), 9.0)
    leader.prepared(B, Prepared(proposal, ()), 10.0)
    assert leader.deadline() == 10.0 + patience_s
    leader.prepared(B, Prepared(proposal, ()), 11.0)
    assert leader.deadline() == 10.0 + patience_s, "twice is not further"


def test_a_merge_is_not_committed_before_all_have_what_the_other_parts_bring() -> None:
    """So that whoever has to finish it, when its leader dies while committing, has all that it needs."""
    leader, other = leader_of("A"), view_of(7, "EF")
    proposal, members = ViewId(8, A), (A, B, C, D, E, F)
    assert asked(leader.start_merge((other,), 1.0)) == [A, B, C, D, E]
    for member in members:
        part = view_of(1, "ABCD").id if member < E else other.id
        effects = leader.replied(member, FlushReply(proposal, part, None, {}), 1.1)
    assert said(effects, Prepare) == list(members)
    for member in members:
        states = (SuspectReport((member,)),) if member in (A, E) else ()
        effects = leader.prepared(member, Prepared(proposal, states), 1.2)
    mine, others = Share(proposal, (SuspectReport((A,)),)), Share(proposal, (SuspectReport((E,)),))
    assert effects == [Down(Frame(A, member, (others if member < E else mine,))) for member in members]
    for member in members[1:]:
        assert leader.shared(member, Shared(proposal), 1.3) == []
    assert said(leader.shared(A, Shared(proposal), 1.4), Commit) == [*members[1:], A]
