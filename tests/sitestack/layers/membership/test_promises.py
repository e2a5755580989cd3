"""The promises of one member: only upwards, and only to a leader that it knows and has no reason to refuse."""

from __future__ import annotations

from sitestack.layers.membership.headers import FlushReject, Prepare
from sitestack.layers.membership.promises import NO_VIEW, Promises
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

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


def test_a_joiner_takes_any_prepare_that_makes_it_a_member() -> None:
    joiner = Promises()
    assert joiner.promised == NO_VIEW
    invitation = Prepare(None, View(ViewId(4, A), VIEW.lineage, (A, B), ("A", "B")), {}, {}, False, ())
    assert joiner.accepts(invitation, B)
    assert not joiner.accepts(invitation, D)


def test_a_view_ends_the_block_and_what_was_prepared() -> None:
    participant = member()
    participant.promise(ViewId(4, A), 1.0)
    participant.promise(ViewId(5, B), 2.0)
    assert participant.blocked_since == 1.0
    previous = participant.install(View(ViewId(4, A), VIEW.lineage, (A, B), ("A", "B")))
    assert previous == VIEW
    assert not participant.blocked_since
    assert not participant.prepare
    assert participant.promised == ViewId(5, B), "a promise is never taken back"
