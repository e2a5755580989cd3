"""After a rewind the window holds what the peer has still to acknowledge, and nothing else."""

from __future__ import annotations

from relay.replica.entries import SiteVector
from tests.relay.gateway.test_holes import Link, holding
from tests.relay.puppet import D, E


def test_what_was_acknowledged_behind_a_hole_leaves_the_window_with_the_rewind() -> None:
    """The peer lost D's message and has E's for good: it says so once, and then waits for what the full window keeps back."""
    link = Link(holding([(D, 1), (E, 1)], {D: 1, E: 1}))
    link.sender.rewind(SiteVector())
    assert link.tells(D) == [1]
    link.sender.acknowledged(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes > 0, "D's is still on its way"
    link.sender.rewind(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes == 0
    assert link.sender.next_frame(1, 1 << 20) is not None, "there is room for what it lacks"


def test_what_the_peer_has_and_has_not_acknowledged_stays_in_the_window() -> None:
    """It is not stable there yet, and an ACK for it will come."""
    link = Link(holding([(D, 1), (E, 1)], {D: 1, E: 1}))
    link.sender.rewind(SiteVector())
    assert link.tells(D) == [1]
    link.sender.rewind(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes > 0
    link.sender.acknowledged(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes == 0
