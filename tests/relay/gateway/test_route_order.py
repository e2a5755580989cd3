"""Frames of a route keep their order, also those that waited for room."""

from __future__ import annotations

import pytest

from relay.events import BridgeSend
from relay.gateway.connections import RouteId
from relay.gateway.routes import ROOM_BYTES
from relay.gateway.session import LinkSession
from relay.gateway.wire import FrameParser, Routed
from sitestack.stack.layer import Up
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World
from tests.relay.gateway.test_routes import chain

pytestmark = pytest.mark.conforms("REL-33")


def link_of(site: FakeSite, peer: str) -> LinkSession:
    gateway = site.relay.layer.gateway
    return gateway.table.connections[next(each for key, each in gateway.table.links.items() if key[0] == peer)].session


def waiting(link: LinkSession) -> list[Routed]:
    parser = FrameParser(1 << 24)
    parser.feed(b"".join(link._routed._frames))
    found = []
    while (frame := parser.next_frame()) is not None:
        assert isinstance(frame, Routed)
        found.append(frame)
    return found


def held_back(world: World, a: FakeSite) -> RouteId:
    """A chunk and the farewell after it are to be sent on the route to C; there was no room for the chunk only."""
    link, gateway = link_of(a, "B"), a.relay.layer.gateway
    route = next(each for key, each in gateway.table.links.items() if key[0] == "C")
    assert isinstance(route, RouteId)
    link._routed.bytes = ROOM_BYTES
    assert gateway.carrier.routes.write(route, b"chunk,") is None
    assert waiting(link) == []
    link._routed.bytes = 0
    assert gateway.carrier.routes.write(route, b"farewell") is None
    return route


def test_a_farewell_does_not_overtake_the_chunk_that_waits_when_the_route_ends() -> None:
    world, (a, *_) = chain("A", "B", "C")
    world.run(3)
    route = held_back(world, a)
    assert a.relay.layer.gateway.carrier.routes.end(route) == []
    sent = waiting(link_of(a, "B"))
    assert b"".join(each.data for each in sent) == b"chunk,farewell"
    assert [each.ended for each in sent] == [True]


def test_a_farewell_does_not_overtake_the_chunk_that_waits_when_there_is_room_again() -> None:
    world, (a, *_) = chain("A", "B", "C")
    world.run(3)
    held_back(world, a)
    effects = a.relay.layer.gateway.turn(world.now)
    sent = [each.event.data for each in effects if isinstance(each, Up) and isinstance(each.event, BridgeSend)]
    assert b"chunk,farewell" in b"".join(sent)
