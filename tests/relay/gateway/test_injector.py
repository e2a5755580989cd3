"""The injector: entries survive the flush that swallowed them, in order; who coordinates no more casts nothing."""

from __future__ import annotations

import pytest

from relay.gateway.injector import ELEMENT_BYTES, ENTRY_BYTES, Injector
from relay.gateway.window import LinkWindow
from relay.replica.entries import Relayed, RemoteBaseline, RemoteView, SiteVector, Trim
from relay.replica.held_entries import HeldEntry
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down
from tests.harness.relay.puppet import D, E, batch, remote_view
from tests.relay.gateway.test_holes import Link, holding

pytestmark = pytest.mark.conforms("REL-14")


def cast(injector: Injector) -> list[int]:
    """Return the numbers that it casts now."""
    frames = [effect.event for effect in injector.release() if isinstance(effect, Down)]
    return [frame.headers[0].position for frame in frames if isinstance(frame, Frame) and isinstance(frame.headers[0], Trim)]


def opened(*positions: int) -> Injector:
    injector = Injector(D)
    injector.reopen(False)
    for position in positions:
        injector.cast(Trim(position))
    return injector


def test_entries_are_cast_once_and_in_order() -> None:
    injector = opened(1, 2)
    assert cast(injector) == [1, 2]
    assert cast(injector) == []


def test_during_a_block_they_wait() -> None:
    injector = opened()
    injector.is_open = False
    injector.cast(Trim(1))
    assert cast(injector) == []
    injector.reopen(True)
    assert cast(injector) == []
    injector.reopen(False)
    assert cast(injector) == [1]


def test_undelivered_entries_are_cast_again_before_new_ones() -> None:
    injector = opened(1, 2, 3)
    cast(injector)
    injector.delivered()
    injector.is_open = False
    injector.cast(Trim(4))
    injector.reopen(False)
    assert cast(injector) == [2, 3, 4]


def test_bytes_that_wait_are_counted_until_they_are_back() -> None:
    injector = opened()
    injector.cast(Trim(1), batch(1))
    size = ENTRY_BYTES + ELEMENT_BYTES + len(batch(1).body)
    assert injector.waiting_bytes == size
    injector.release()
    assert injector.waiting_bytes == size
    injector.delivered()
    assert injector.waiting_bytes == 0
    injector.cast(Trim(2), batch(2))
    injector.close()
    assert injector.waiting_bytes == 0


LONG_NAMES = View(ViewId(1, D), ViewId(1, D), (D,), ("x" * 100_000,))


@pytest.mark.parametrize(
    ("entry", "body", "bytes_min"),
    [
        (RemoteBaseline("SFO", {Address(bytes([n]) * 16): 1 for n in range(100)}), None, 100 * ELEMENT_BYTES),
        (RemoteView("SFO", LONG_NAMES), None, 100_000),
        (Relayed(("y" * 60,) * 250), batch(1), 250 * 60),
    ],
)
def test_entries_count_by_their_origins_and_texts_beside_a_body_too(entry: Header, body: Batch | None, bytes_min: int) -> None:
    """C28: a lying site may send such entries without end while the stream is blocked."""
    injector = opened()
    injector.cast(entry, body)
    assert injector.waiting_bytes >= bytes_min
    injector.release()
    injector.delivered()
    assert injector.waiting_bytes == 0


def test_a_rewind_removes_entries_acknowledged_behind_a_hole_from_the_window() -> None:
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


def test_entries_received_but_not_acknowledged_stay_in_the_window() -> None:
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
