"""A site is slow only if it does not acknowledge what its link may carry (X11)."""

from __future__ import annotations

import pytest

from relay.gateway.least_pace import LeastPace
from relay.gateway.link_table import LinkTable
from relay.gateway.watermarks import Watermarks
from relay.replica.config import BufferConfig
from relay.replica.entries import LinkPace
from relay.replica.pace import Pace
from relay.replica.state import ReplicatedState
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.addresses import address, view_of

A = address("A")
THERE = view_of(1, "DE")


class SilentLinks(LinkTable):
    """Links on which nothing is acknowledged."""

    def __init__(self) -> None:
        pass

    def acked_bytes(self, key: object) -> int:
        return 0


@pytest.mark.parametrize(("sendable", "expected"), [(-1, []), (3, [LinkPace("SFO", THERE.lineage, True)])])
def test_a_site_that_lacks_only_what_the_own_site_holds_back_is_not_slow(sendable: int, expected: list[LinkPace]) -> None:
    """No other member holds these entries, as behind a hole inside the site: a gap would be lost for the other site only."""
    state = ReplicatedState("NYC", BufferConfig(budget_entries=4), ("SFO",))
    state.remote("SFO").show(THERE)
    state.remote("SFO").lineage(THERE.lineage).epoch = THERE.id
    for n in range(1, 9):
        state.buffer.append(Batch("NYC", A, Scope.ALL, n, 1, pack_body([b"x"])), None, 0.0)
    watermarks = Watermarks(state)
    watermarks.sendable = sendable
    paces = LeastPace(state, Pace(state, {}), SilentLinks(), watermarks, least_bytes_s=1_000, grace_s=10.0)
    assert paces.due(0.0) == []
    assert paces.next_due == 10.0
    assert paces.due(10.0) == expected
