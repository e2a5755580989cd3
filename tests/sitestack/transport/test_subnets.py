"""Members in different subnets, with a router between them and no multicast; one behind address translation.

Skipped where the system allows no namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from relay_lab.drills.wires import has_wires
from tests.harness.sockets import until
from tests.harness.subnets import EXTERNAL, Member, Subnets, open_subnets

pytestmark = pytest.mark.long

PORT = 7_800
#: How many numbers each is to hear of each other from some moment on.
SOME = 100


@pytest.fixture(autouse=True)
async def _namespaces() -> None:
    if not await has_wires():
        pytest.skip("the system lets us make no network namespaces")


def all_see(members: Collection[Member]) -> Callable[[], bool]:
    names = sorted(member.name for member in members)
    return lambda: all(member.views and sorted(member.views[-1]) == names for member in members)


async def go_on(members: Collection[Member]) -> None:
    """Wait until all see each other, and each receives more from all, itself included."""
    await until(all_see(members))
    for sender in members:
        marks = {member: member.last(sender.name) + SOME for member in members}
        await until(lambda marks=marks, sender=sender: all(each.last(sender.name) >= mark for each, mark in marks.items()))  # type: ignore[misc]


def lost_nothing(members: Collection[Member]) -> None:
    """Check that all deliveries are without gap and duplicate."""
    for member in members:
        assert len(member.heard) >= len(members)
        for numbers in member.heard.values():
            assert numbers == list(range(numbers[0], numbers[-1] + 1))


def hosts(subnets: Subnets) -> list[tuple[str, int]]:
    """The first two are named to all others."""
    return [(subnets.address(number), PORT) for number in range(2)]


async def start(subnets: Subnets, *names: str) -> list[Member]:
    return [await subnets.member(number, name, hosts(subnets), PORT) for number, name in enumerate(names)]


async def start_again(subnets: Subnets, name: str) -> Member:
    """In a subnet that is new."""
    return await subnets.member(await subnets.add(), name, hosts(subnets), PORT)


async def start_translated(subnets: Subnets) -> list[Member]:
    """A, B, and C behind address translation, at another port from outside."""
    outer_port = PORT + 10_000
    await subnets.translate(2, PORT, outer_port)
    members = await start(subnets, "A", "B")
    external = {"external_host": EXTERNAL, "external_port": outer_port}
    return [*members, await subnets.member(2, "C", hosts(subnets), PORT, **external)]


@pytest.mark.conforms("LA-13")
async def test_members_in_routed_subnets_find_each_other_by_hosts_and_send_to_each() -> None:
    async with open_subnets(3) as subnets:
        members = await start(subnets, "A", "B", "C")
        await go_on(members)
        lost_nothing(members)


@pytest.mark.conforms("LA-4", "LA-5")
async def test_a_pod_that_moves_under_load_is_found_where_it_is_and_not_where_it_was() -> None:
    """Killed, and started with its name in another subnet; then so is the coordinator, which is named to the others."""
    async with open_subnets(3) as subnets:
        a, b, c = await start(subnets, "A", "B", "C")
        await go_on([a, b, c])
        c.kill()
        moved = await start_again(subnets, "C")
        await go_on([a, b, moved])
        a.kill()
        members = [b, moved, await start_again(subnets, "A")]
        await go_on(members)
        lost_nothing(members)
        names = sorted(name for name, _ in b.heard)
        assert names == ["A", "A", "B", "C", "C"], "who starts anew has a uuid of its own, under the same name"


@pytest.mark.conforms("LA-4")
@pytest.mark.parametrize("number", [0, 2])
async def test_a_member_readdressed_under_load_continues_at_its_new_address(number: int) -> None:
    """It is the same process, with the same UUID; the first one coordinates, and is named to the others."""
    async with open_subnets(3) as subnets:
        members = [await subnets.member(each, name, hosts(subnets), PORT, interface="eth0") for each, name in enumerate("ABC")]
        await go_on(members)
        views = [len(each.views) for each in members]
        await subnets.readdress(number, f"198.18.{number}.77")
        for _ in range(5):  # several times as long as silence takes to be noticed
            await go_on(members)
        lost_nothing(members)
        assert [len(each.views) for each in members] == views


@pytest.mark.conforms("LA-8")
async def test_a_member_behind_address_translation_is_reached_at_its_external_address_and_port() -> None:
    """Its own address leads nowhere."""
    async with open_subnets(3) as subnets:
        for interface in ("r0", "r1"):
            await subnets.router(
                f"ip route replace blackhole {subnets.address(2)} table 50; ip rule add iif {interface} table 50"
            )
        members = await start_translated(subnets)
        await go_on(members)
        lost_nothing(members)


@pytest.mark.conforms("LA-6")
async def test_a_member_whose_external_address_vanishes_under_load_is_reached_at_its_own_and_not_missed() -> None:
    async with open_subnets(3) as subnets:
        members = await start_translated(subnets)
        await go_on(members)
        views = [len(each.views) for each in members]
        await subnets.router(f"ip route replace blackhole {EXTERNAL} && ip rule del iif r2 table 100")
        for _ in range(5):  # several times as long as silence takes to be noticed
            await go_on(members)
        lost_nothing(members)
        assert [len(each.views) for each in members] == views
