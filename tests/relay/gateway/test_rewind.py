"""After a rewind the window holds exactly the entries that the peer has still to acknowledge."""

from __future__ import annotations

import pytest

from relay.gateway.window import LinkWindow
from relay.replica.entries import SiteVector
from relay.replica.held_entries import HeldEntry
from tests.harness.relay.puppet import D, E, remote_view
from tests.relay.gateway.test_holes import Link, holding

pytestmark = pytest.mark.conforms("REL-14")


def test_what_was_acknowledged_behind_a_hole_leaves_the_window_with_the_rewind() -> None:
    """The peer lost D's message and has E's for good: it acknowledges once, and then waits for entries behind the
    full window.
    """
    link = Link(holding([(D, 1), (E, 1)], {D: 1, E: 1}))
    link.sender.rewind(SiteVector())
    assert link.tells(D) == [1]
    link.sender.acknowledged(SiteVector({E: 1}), 0.0)
    assert link.sender.in_flight_bytes > 0, "D's is still on its way"
    link.sender.rewind(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes == 0
    link.sender.window = LinkWindow(1, 1)
    assert link.sender.next_frame(1 << 20, 0.0) is not None, "there is room for what it lacks"


def test_what_the_peer_has_and_has_not_acknowledged_stays_in_the_window() -> None:
    """It is not stable there yet, and an ACK for it will come."""
    link = Link(holding([(D, 1), (E, 1)], {D: 1, E: 1}))
    link.sender.rewind(SiteVector())
    assert link.tells(D) == [1]
    link.sender.rewind(SiteVector({E: 1}))
    assert link.sender.in_flight_bytes > 0
    link.sender.acknowledged(SiteVector({E: 1}), 0.0)
    assert link.sender.in_flight_bytes == 0


def test_a_view_that_the_peer_knows_already_does_not_keep_the_window_full() -> None:
    """The peer had it from another part of this site, and acknowledges only new entries."""
    state = holding([(D, 1), (D, 2)], {D: 2})
    state.buffer.adopt_entries(0, [HeldEntry(None, remote_view(1, D)), *state.buffer.give()], None, 0.0)
    link = Link(state)
    link.sender.rewind(SiteVector())
    assert link.tells(D) == [1, 2]
    link.sender.acknowledged(SiteVector({D: 2}), 0.0)
    assert link.sender.in_flight_bytes == 0
