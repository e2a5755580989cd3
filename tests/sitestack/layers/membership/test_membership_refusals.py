"""Headers that arrive too late, too early or from the wrong member are dropped under a separate name, and change
nothing.
"""

from __future__ import annotations

import pytest

from sitestack.layers.membership import Membership, MembershipConfig
from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.headers import (
    Commit,
    FlushReject,
    FlushReply,
    FlushRequest,
    Give,
    Given,
    JoinRequest,
    LeaveRequest,
    MergeAnswer,
    MergeRefusal,
    MergeReply,
    MergeRequest,
    Prepare,
    Prepared,
    Share,
    Shared,
    ViewTag,
)
from sitestack.layers.membership.layer import BLOCKED_TIMEOUT_S
from sitestack.layers.sequencer import Forward
from sitestack.model.address import Address
from sitestack.model.events import Connect, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import frames_in

A, B, C, D, X = map(address, "ABCDX")
VIEW = view_of(3, "ABC")
NEXT = ViewId(4, A)
THREE = View(NEXT, VIEW.lineage, (A, B, C), ("A", "B", "C"))

CONFIG = MembershipConfig(held_frames_max=2, leader=LeaderTimes(joiners_max=1))


def fresh(name: str) -> Membership:
    """Return a process that has been ordered to join."""
    layer = Membership(local_of(name), CONFIG)
    layer.down(Connect(()), 0.0)
    return layer


def member(name: str, view: View = VIEW) -> Membership:
    """One that came into this view as a joiner does."""
    layer = fresh(name)
    prepare = Prepare(None, view, {}, {}, False, ())
    hear(layer, view.id.creator, prepare)
    effects = hear(layer, view.id.creator, Commit(view.id))
    installed = next(each.event for each in effects if isinstance(each, Announce))
    assert isinstance(installed, ViewInstalled)
    layer.up(installed, 0.0)
    return layer


def hear(layer: Membership, source: Address, *headers: Header) -> list[Effect]:
    return layer.up(Frame(source, B, headers), 1.0)


def prepare(base: ViewId | None = VIEW.id, view: View = THREE) -> Prepare:
    return Prepare(base, view, {}, {}, False, ())


def promise(layer: Membership, proposal: ViewId) -> None:
    assert any(isinstance(each, Announce) for each in hear(layer, proposal.creator, FlushRequest(proposal)))


@pytest.mark.parametrize(
    ("reason", "source", "header"),
    [
        ("join_of_member", B, JoinRequest("B", False)),
        ("leave_of_stranger", X, LeaveRequest()),
        ("stale_flush_reply", B, FlushReply(NEXT, VIEW.id, None, {})),
        ("stale_flush_reject", B, FlushReject(NEXT, NEXT, False)),
        ("stale_prepared", B, Prepared(NEXT, ())),
        ("stale_shared", B, Shared(NEXT)),
        ("stale_share", B, Share(NEXT, ())),
        ("stale_give", B, Give(NEXT, ())),
        ("stale_given", B, Given(NEXT, ())),
        ("stale_commit", B, Commit(NEXT)),
        ("stale_prepare", B, prepare()),
        ("merge_request", B, MergeRequest(ViewId(9, B))),
        ("merge_request", X, MergeRequest(ViewId(9, X))),
        ("merge_reply", X, MergeReply(view_of(9, "X"))),
        ("merge_answer", X, MergeAnswer(1)),
        ("merge_refusal", X, MergeRefusal((C,))),
        ("old_view", B, ViewTag(ViewId(2, A))),
    ],
)
def test_a_header_that_belongs_to_no_current_operation_is_dropped(reason: str, source: Address, header: Header) -> None:
    coordinator = member("A")
    before = coordinator.statistics()
    assert hear(coordinator, source, header) == [Dropped(reason)]
    assert coordinator.statistics() == before


@pytest.mark.parametrize(
    ("reason", "step"), [("stale_give", Give(NEXT, ())), ("stale_share", Share(NEXT, ())), ("stale_commit", Commit(NEXT))]
)
def test_a_step_of_a_change_after_a_promise_to_another_leader_is_refused_so_that_its_leader_knows(
    reason: str, step: Header
) -> None:
    """All members of the other parts would stand still until the leader's time is up."""
    layer = member("B")
    promise(layer, NEXT)
    hear(layer, A, prepare(view=View(NEXT, VIEW.lineage, VIEW.members, VIEW.names)))
    promised = ViewId(NEXT.counter, C)
    hear(layer, C, FlushRequest(promised))
    reject = Down(Frame(B, A, (FlushReject(NEXT, promised, False),)))
    assert hear(layer, A, step) == [Dropped(reason), reject]


def test_the_view_in_force_is_not_prepared_again() -> None:
    """It was promised, but there is no flush any more: the streams are running, and a cut of them cannot be reached."""
    layer = member("B")
    assert hear(layer, A, Prepare(VIEW.id, VIEW, {A: 10**6}, {}, False, ())) == [Dropped("stale_prepare")]


def test_a_process_without_a_view_drops_join_and_leave_requests() -> None:
    layer = fresh("B")
    assert hear(layer, C, JoinRequest("C", False)) == [Dropped("join_without_view")]
    assert hear(layer, C, LeaveRequest()) == [Dropped("leave_of_stranger")]


def test_joiners_beyond_the_bound_are_not_taken_and_may_ask_again() -> None:
    coordinator = member("A")
    assert hear(coordinator, D, JoinRequest("D", True)) == []
    assert hear(coordinator, X, JoinRequest("X", False)) == [Dropped("joiners")]
    assert hear(coordinator, D, JoinRequest("D", True)) == []
    assert coordinator.levels()["joiners"].now == 1


def test_frames_of_a_view_are_not_sent_to_non_members() -> None:
    """There it would be held for a view that may never come."""
    layer = member("B")
    inside, outside = Frame(B, C, (Forward(),)), Frame(B, X, (Forward(),))
    assert layer.down(inside, 1.0) == [Down(inside.push(ViewTag(VIEW.id)))]
    assert layer.down(outside, 1.0) == [Dropped("not_in_view")]
    said = Frame(B, X, (), Batch("NYC", B, Scope.UNICAST, 1, 1, b"\0\0\0\0", X, "NYC"))
    assert layer.down(said, 1.0) == [Down(said)]


def test_a_cut_of_a_view_that_was_never_installed_here_is_not_reached_for() -> None:
    """The cut belongs to a view with other streams: its numbers mean nothing here."""
    layer = member("B")
    request = View(ViewId(5, A), VIEW.lineage, (A, B, C), ("A", "B", "C"))
    promise(layer, request.id)
    assert hear(layer, A, prepare(base=ViewId(4, C), view=request)) == [Dropped("foreign_prepare")]
    assert layer.levels()["blocked"].now == 1


def test_members_that_do_not_answer_a_flush_in_time_are_counted() -> None:
    coordinator = member("A")
    hear(coordinator, B, LeaveRequest())
    started = coordinator.expire(1.0 + CONFIG.leader.batch_s)
    assert len(started) == 3, "all three are asked"
    due = 1.0 + CONFIG.leader.batch_s + CONFIG.leader.flush_timeout_s
    effects = coordinator.expire(due)
    assert Dropped("flush_timeout", 3) in effects


def test_a_coordinator_whose_answered_proposal_is_never_completed_flushes_by_itself() -> None:
    """The member with the higher proposal is alive and has forgotten it: no member suspects it."""
    coordinator = member("A")
    promise(coordinator, ViewId(9, C))
    due = 1.0 + BLOCKED_TIMEOUT_S
    assert [each.dest for each in frames_in(coordinator.expire(due), Down)] == [A, B, C]


def test_a_flood_of_later_view_frames_by_one_member_evicts_no_frames_of_others() -> None:
    layer = member("B")
    for n in range(5):
        assert hear(layer, A, ViewTag(ViewId(1_000 + n, A))) == ([] if n < 2 else [Dropped("held_frames")])
    assert hear(layer, C, ViewTag(NEXT)) == [Dropped("held_frames")]
    levels = layer.levels()
    assert (levels["held_frames"].now, levels["held_frames"].bound) == (2, 2)
    assert hear(layer, C, ViewTag(NEXT)) == [Dropped("held_frames")]
    promise(layer, NEXT)
    hear(layer, A, prepare())
    effects = hear(layer, A, Commit(NEXT))
    installed = next(each.event for each in effects if isinstance(each, Announce))
    released = layer.up(installed, 1.0)
    assert [each.event.source for each in released if isinstance(each, Up) and isinstance(each.event, Frame)] == [C]
