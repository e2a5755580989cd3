"""A message names its sender, as the view calls it in which it was delivered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.message import Message
from sitestack.model.roster import Roster
from sitestack.model.view import View
from sitestack.transport.memory import MemoryNetwork
from tests.harness.addresses import address
from tests.harness.channels import members, one, take, wait_for_view


async def test_messages_and_batches_name_their_sender(autojump_clock: MockClock) -> None:
    async with members("A", "B") as [a, b]:
        await a.send(b"to all")
        [message] = await take(b, 1)
        assert message.sender == "A"
        assert "roster" not in repr(message)
        await a.send(b"to one", target=b.address)
        delivery = await anext(b.batches())
        assert isinstance(delivery, Delivery)
        assert delivery.sender == "A"
        assert b.name_of(a.address) == "A"


async def test_a_message_of_a_departed_member_still_names_its_sender(autojump_clock: MockClock) -> None:
    """A is slow: when it reads B's message, B is in no view any more, so the newest view has no name for it."""
    network = MemoryNetwork()
    async with one(network, "A") as a:
        async with one(network, "B") as b:
            await wait_for_view(a, 2)
            await b.send(b"last words")
            gone = b.address
        await wait_for_view(a, 1)
        [message] = await take(a, 1)
        assert isinstance(await anext(a), View)
        assert (message.payload, message.sender) == (b"last words", "B")
        assert a.name_of(gone) == str(gone)


async def test_message_equality_ignores_the_name_of_the_sender(autojump_clock: MockClock) -> None:
    """Members with different names for its sender, or none, have equal messages."""
    async with members("A") as [a]:
        await a.send(b"x")
        [message] = await take(a, 1)
        bare = Message(a.address, message.payload, message.id)
        assert bare == message
        assert hash(bare) == hash(message)
        assert bare.sender == str(a.address)


@pytest.mark.conforms("LA-2", "LA-3")
async def test_a_name_is_taken_along_to_the_next_connect_and_may_occur_twice(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with one(network, "A"):
        async with one(network, "") as first:
            name, address = first.name, first.address
        async with one(network, name) as again, one(network, name) as twin:
            await wait_for_view(twin, 3)
            assert again.name == twin.name == name
            assert len({address, again.address, twin.address}) == 3
            assert twin.view.names == ("A", name, name)
            await again.send(b"which of the two")
            [message] = await take(twin, 1)
            assert (message.sender, message.source) == (name, again.address)


class _Counting:
    """A view that counts how often its names are looked at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.looked = 0

    def named(self) -> Iterator[tuple[Address, str]]:
        self.looked += 1
        yield A, self.name
        yield ProxyUUID(A, "SFO"), f"{self.name}@SFO"


A = address("A")


def test_names_are_looked_up_only_once_on_first_use() -> None:
    view = _Counting("A")
    roster = Roster("NYC", [view])
    assert view.looked == 0
    assert [roster.name_of(A), roster.name_of(ProxyUUID(A, "SFO"))] == ["A", "A@SFO"]
    assert roster.name_of(ProxyUUID(A, "LON")) == "LON/41414141"
    assert view.looked == 1


@pytest.mark.conforms("LA-25")
async def test_the_tasks_are_named_after_the_site_and_the_member_and_nothing_is_left_of_them(autojump_clock: MockClock) -> None:
    names: list[str] = []

    class Watch(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            names.append(task.name)

    before = trio.lowlevel.current_statistics().tasks_living
    trio.lowlevel.add_instrument(Watch())
    with trio.move_on_after(5):
        async with members("A", "B"):
            await trio.sleep_forever()
    tasks = ("backlog of", "channel of", "names for", "residence of")
    assert sorted(names) == [f"{task} {member} in NYC" for task in tasks for member in "AB"]
    assert trio.lowlevel.current_statistics().tasks_living == before
