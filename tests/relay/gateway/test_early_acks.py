"""With `order: fifo` another site's ACK may reach a member before its message: streams have no common order there."""

from __future__ import annotations

import pytest

from relay.replica.config import BufferConfig
from relay.replica.entries import Acked, LinkUp, SiteVector
from relay.replica.state import ReplicatedState
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

A, B, D = map(address, "ABD")
LINEAGE = ViewId(1, D)
VIEW = View(ViewId(2, A), ViewId(1, A), (A, B), ("A", "B"))


def linked(*sites: str) -> ReplicatedState:
    """A member of NYC that knows of a link to SFO."""
    state = ReplicatedState("NYC", BufferConfig(), sites)
    state.install(VIEW, 0.0)
    state.apply_link_up(LinkUp("SFO", LINEAGE, LINEAGE))
    return state


def batch(first: int) -> Batch:
    return Batch("NYC", B, Scope.ALL, first, 1, pack_body([b"x"]))


@pytest.mark.conforms("REL-13")
def test_a_batch_acknowledged_before_its_arrival_is_not_held() -> None:
    """Seeds 1 and 332: it was held until the next acknowledgement, and that of a new origin's first message for ever."""
    state = linked("SFO")
    state.apply_acked(Acked("SFO", LINEAGE, SiteVector({B: 1}, VIEW.id)))
    assert len(state.buffer) == 0
    state.append(batch(1), 1.0)
    assert len(state.buffer) == 0
    state.append(batch(2), 1.0)
    assert len(state.buffer) == 1


def test_it_is_held_as_long_as_a_third_site_lacks_it() -> None:
    state = linked("LON", "SFO")
    state.apply_acked(Acked("SFO", LINEAGE, SiteVector({B: 1}, VIEW.id)))
    state.append(batch(1), 1.0)
    assert len(state.buffer) == 2
