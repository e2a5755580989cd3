"""Waiting pieces of routes have a bound for every sender; losses at the bound are counted."""

from __future__ import annotations

import pytest

from relay.gateway.config import LinkConfig
from relay.gateway.session import ROUTE_ENDS_BYTES
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES, Routed
from tests.harness.relay.puppet import D
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World
from tests.relay.gateway.test_route_order import link_of, waiting
from tests.relay.gateway.test_routes import arrive, chain, everybody_has
from tests.relay.gateway.test_session import session

pytestmark = pytest.mark.conforms("REL-33")

BOUND = 20_000


def small_chain() -> tuple[World, list[FakeSite]]:
    world, sites = chain("A", "B", "C", link=LinkConfig(routed_bytes_max=BOUND))
    world.run(3)
    return world, sites


def test_an_end_has_a_small_reserve_for_itself_and_none_for_its_data() -> None:
    link = session(LinkConfig(routed_bytes_max=BOUND))
    last = Routed("A", "C", D, 1, 5, (), True, bytes(6_000))
    bare = Routed("A", "C", D, 1, 5, (), True, b"")
    assert [link.send_routed(last) for _ in range(5)] == [True] * 3 + [False] * 2
    assert link.routed_bytes <= BOUND
    assert link.send_routed(bare)
    for _ in range(10_000):
        link.send_routed(bare)
    assert not link.send_routed(bare)
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES


def test_a_neighbour_that_ends_routes_for_ever_fills_nothing_beyond_the_bound() -> None:
    """Above the bound an end is handed on without its data, above the reserve it is dropped; both are counted."""
    _world, (_, b, _) = small_chain()
    link = link_of(b, "C")
    for n in range(5_000):
        last = Routed("A", "C", D, n, 1, (), True, bytes(6_000))
        arrive(b, "A", last)
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES
    handed_on = waiting(link)
    assert all(each.ended for each in handed_on)
    assert [len(each.data) for each in handed_on] == [6_000] * 3 + [0] * (len(handed_on) - 3)
    assert b.relay.drops["route_full"] == 5_000 - 3


def test_a_neighbour_that_sends_nonsense_for_ever_is_answered_within_the_bound() -> None:
    _world, (_, b, _) = small_chain()
    link = link_of(b, "A")
    for n in range(5_000):
        arrive(b, "A", Routed("A", "X", D, n, 1, (), False, b"x"))
    assert BOUND < link.routed_bytes <= BOUND + ROUTE_ENDS_BYTES
    assert b.relay.drops["route_refused"] == 5_000
    assert b.relay.drops["route_full"] == 5_000 - len(waiting(link))


def test_an_end_with_more_than_its_own_link_takes_waits_and_loses_nothing() -> None:
    """A route that fills its own link ends there, and begins again with the same: it would for ever."""
    world, sites = chain("A", "B", "C", link=LinkConfig(chunk_bytes=2_000, routed_bytes_max=2_000 + ROUTED_OVERHEAD_BYTES))
    world.run(3)
    a = sites[0]
    for n in range(50):
        a.members[1].send(f"A{'x' * 3_000}{n}")
    world.run(3)
    everybody_has(sites, "A", [f"A{'x' * 3_000}{n}" for n in range(50)])
    assert "route_full" not in a.relay.drops


def test_a_piece_that_the_link_does_not_take_ends_the_route_and_makes_no_silent_hole() -> None:
    world, (a, b, c) = small_chain()
    a.members[1].send("x" * 3 * BOUND)
    world.run(1)
    assert b.members[1].words == ["x" * 3 * BOUND]
    assert a.relay.drops["route_full"] > 0
    assert "route_hole" not in c.relay.drops
