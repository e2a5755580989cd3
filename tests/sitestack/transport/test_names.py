"""Names of members: their addresses, and unknown names."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sitestack.model.address import Physical
from sitestack.transport.interfaces import RETRY_S, Names
from tests.conftest import Zone

POD = Physical("relay.nyc", 7601)


def at(*hosts: str) -> tuple[Physical, ...]:
    return tuple(Physical(host, POD.port) for host in hosts)


@pytest.mark.conforms("LA-13")
async def test_a_name_stands_for_all_its_addresses_in_a_stable_order(autojump_clock: MockClock, zone: Zone) -> None:
    zone.hosts["relay.nyc"] = ["10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1"]
    assert await Names([POD]).find(10.0) == at("10.0.0.1", "10.0.0.2", "10.0.0.3")


async def test_as_long_as_no_name_is_known_it_is_asked_again(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([POD])
    with trio.fail_after(RETRY_S * 3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names.find, 10.0)
            await trio.sleep(RETRY_S * 1.5)
            zone.hosts["relay.nyc"] = ["10.0.0.1"]
    assert names.addresses() == at("10.0.0.1")


@pytest.mark.parametrize("silent", [False, True])
async def test_a_member_does_not_wait_for_names_for_ever(autojump_clock: MockClock, zone: Zone, silent: bool) -> None:
    zone.silent = silent
    began = trio.current_time()
    assert await Names([POD]).find(10.0) == ()
    assert trio.current_time() - began == pytest.approx(10.0)


async def test_names_that_are_not_known_do_not_hide_those_that_are(autojump_clock: MockClock, zone: Zone) -> None:
    zone.hosts["relay.nyc"] = ["10.0.0.1"]
    impossible = Physical(f"{'x' * 70}..nyc", 1)
    assert await Names([Physical("gone.nyc", 1), impossible, POD]).find(10.0) == at("10.0.0.1")


async def test_pods_that_move_are_told_and_a_name_server_that_is_away_changes_nothing(
    autojump_clock: MockClock, zone: Zone
) -> None:
    told: list[tuple[Physical, ...]] = []
    names = Names([POD])
    zone.hosts["relay.nyc"] = ["10.0.0.1"]
    await names.find(10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(names.follow, 5.0, told.append)
        await trio.sleep(11.0)
        assert (told, zone.asked) == ([], 3)
        del zone.hosts["relay.nyc"]
        await trio.sleep(5.0)
        assert (told, names.addresses()) == ([], at("10.0.0.1"))
        zone.hosts["relay.nyc"] = ["10.0.0.7", "10.0.0.8"]
        await trio.sleep(5.0)
        assert told == [at("10.0.0.7", "10.0.0.8")]
        nursery.cancel_scope.cancel()


async def test_addresses_are_not_looked_up_again(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([Physical("10.0.0.1", 7601)])
    zone.hosts["10.0.0.1"] = ["10.0.0.1"]
    assert await names.find(10.0) == at("10.0.0.1")
    with trio.fail_after(1.0):
        await names.follow(5.0, lambda addresses: pytest.fail("nothing has changed"))
