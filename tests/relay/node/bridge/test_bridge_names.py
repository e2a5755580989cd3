"""Peers of the bridge given as names: looked up at every call, and every failure is a failed call."""

from __future__ import annotations

import socket

import pytest
import trio

from relay.events import BridgeConnected, Dial, DialFailed
from relay.node.bridge.bridge import Bridge, BridgeConfig
from sitestack.model.address import Physical
from sitestack.model.events import Event
from tests.conftest import Zone

#: Loopback addresses without a listener.
NOBODY = ("127.0.0.2", "127.0.0.3")


async def dial(place: Physical) -> Event:
    """Return the result of one call."""
    told, happened = list[Event](), trio.Event()

    def hear(event: Event) -> None:
        told.append(event)
        happened.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            bridge = Bridge(BridgeConfig(dial_timeout_s=0.5), hear, hear, nursery)
            bridge.carry_out(Dial("SFO", place))
            await happened.wait()
            nursery.cancel_scope.cancel()
    return told[0]


async def test_a_relay_that_has_moved_is_found_under_its_name_at_the_next_call(zone: Zone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as relay:
        peer = Physical("relay.sfo", relay.getsockname()[1])
        zone.hosts["relay.sfo"] = NOBODY
        assert await dial(peer) == DialFailed("SFO", peer)
        zone.hosts["relay.sfo"] = ("127.0.0.1",)
        assert await dial(peer) == BridgeConnected(1, ("SFO", peer))


async def test_of_a_name_that_stands_for_all_members_the_one_that_listens_is_found(zone: Zone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as relay:
        peer = Physical("relay.sfo", relay.getsockname()[1])
        zone.hosts["relay.sfo"] = (*NOBODY, "127.0.0.1")
        assert await dial(peer) == BridgeConnected(1, ("SFO", peer))


@pytest.mark.parametrize("host", ["nowhere.sfo", "not..a.name", "x" * 70])
async def test_a_name_that_stands_for_nothing_is_a_call_that_failed(zone: Zone, host: str) -> None:
    peer = Physical(host, 7700)
    assert await dial(peer) == DialFailed("SFO", peer)


async def test_a_name_server_that_does_not_answer_costs_no_more_than_a_call(zone: Zone) -> None:
    zone.silent = True
    began = trio.current_time()
    peer = Physical("relay.sfo", 7700)
    assert await dial(peer) == DialFailed("SFO", peer)
    assert trio.current_time() - began < 5.0
