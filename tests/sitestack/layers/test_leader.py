"""When a leader changes the view: at once if nobody sequences any more, else after collecting what else there is to change."""

from __future__ import annotations

from sitestack.address import Address
from sitestack.frame import Frame
from sitestack.layer import Down, Dropped, Effect
from sitestack.layers.leader import Leader, LeaderTimes
from sitestack.layers.membership_headers import FlushRequest, SuspectReport
from sitestack.layers.participant import Participant
from tests.sitestack.layers.lower_world import address_of, local_of, view_of

A, B, C, D, E = map(address_of, "ABCDE")
BATCH_S = LeaderTimes().batch_s


def leader_of(me: str) -> Leader:
    member = Participant()
    member.install(view_of(1, "ABCD"))
    return Leader(local_of(me), member, LeaderTimes())


def asked(effects: list[Effect]) -> list[Address]:
    """Who is asked to stop."""
    frames = [each.event for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)]
    return [each.dest for each in frames if isinstance(each.headers[-1], FlushRequest) and isinstance(each.dest, Address)]


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
    leader.join(E, "E", 1.02)
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


def test_a_member_that_asks_twice_to_be_let_in_is_excluded() -> None:
    """It does not know that it is one: once the commit may still be on its way, twice it has waited for it in vain."""
    leader = leader_of("A")
    assert leader.join(C, "C", 1.0) == [Dropped("join_of_member")]
    assert leader.deadline() is None
    assert leader.join(C, "C", 5.0) == []
    assert leader.joiners == 0
    assert asked(leader.expire(5.0 + BATCH_S)) == [A, B, D]


def test_what_a_member_asked_in_an_earlier_view_counts_no_more() -> None:
    leader = leader_of("A")
    leader.join(C, "C", 1.0)
    leader.view_installed(view_of(2, "ABC"), 2.0)
    assert leader.join(C, "C", 5.0) == [Dropped("join_of_member")]
