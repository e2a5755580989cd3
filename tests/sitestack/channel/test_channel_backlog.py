"""Members whose inbox is above its bound: one that answers in its receiving task, and one that leaves."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import Order, SiteConfig
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC, members, one, wait_for_view, with_batching


def with_backlog(order: Order = "total") -> SiteConfig:
    """Bounds so small that a few dozen answers reach them."""
    flow = replace(NYC.protocols.flow_control, window_bytes=20_000, backlog_bytes_max=80_000)
    config = replace(NYC, order=order, protocols=replace(NYC.protocols, flow_control=flow))
    return with_batching(config, message_bytes_max=10_000, batch_bytes_max=4_000, window_bytes=10_000, send_credit_bytes=40_000)


async def answer(channel: Channel, to_all: bool) -> None:
    """A large answer to each small request, in the task that receives."""
    async for event in channel:
        if isinstance(event, Message) and event.payload[:1] == b"q":
            await channel.send(b"r" * 2_000, target=None if to_all else event.source)


async def count(channel: Channel, seen: dict[str, int]) -> None:
    async for event in channel:
        if isinstance(event, Message):
            kind = event.payload[:1].decode()
            seen[kind] = seen.get(kind, 0) + 1


@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("order", ["total", "fifo"])
async def test_who_answers_in_the_task_that_receives_answers_everything(
    autojump_clock: MockClock, order: Order, to_all: bool
) -> None:
    """Its own answers fill its inbox, and it takes them out only after it has sent the next."""
    async with members("A", "B", config=with_backlog(order)) as (a, b):
        seen: dict[str, int] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, a, to_all)
            nursery.start_soon(count, b, seen)
            with trio.move_on_after(60):
                for _ in range(500):
                    await b.send(b"q" * 200)
            await trio.sleep(60)
            assert seen == {"q": 500, "r": 500}
            nursery.cancel_scope.cancel()


async def test_who_answers_comes_to_where_a_joiner_waits_for_its_state(autojump_clock: MockClock) -> None:
    """The joiner reads nothing before, so no member has credit; messages without loopback fill no inbox of the
    sender's.
    """
    network, config = MemoryNetwork(), with_backlog()
    taken: list[bytes] = []
    go = trio.Event()

    def open_one(name: str) -> AbstractAsyncContextManager[Channel]:
        return open_channel(config, name=name, transport=network.open(), get_state=lambda: b"state", set_state=taken.append)

    async def provide(channel: Channel) -> None:
        async for event in channel:
            if isinstance(event, Message) and event.payload[:1] == b"q":
                await go.wait()
                await channel.send(b"r" * 2_000, loopback=False)

    async with open_one("A") as a, trio.open_nursery() as nursery:
        nursery.start_soon(provide, a)
        for _ in range(200):
            await a.send(b"q" * 100)
        await trio.sleep(1)
        async with open_one("C") as c:
            go.set()
            seen: dict[str, int] = {}
            with trio.move_on_after(60):
                await count(c, seen)
            assert (taken, seen) == ([b"state"], {"r": 200})
            nursery.cancel_scope.cancel()


async def test_who_leaves_its_block_with_a_full_inbox_stops_nobody(autojump_clock: MockClock) -> None:
    """Its backlog ends with it, so the others have credit, and its last messages are delivered."""
    network, config = MemoryNetwork(), with_backlog()
    async with one(network, "A", config) as a, trio.open_nursery() as nursery:
        async with one(network, "B", config) as b:
            await wait_for_view(a, 2)
            seen: dict[str, int] = {}
            nursery.start_soon(count, a, seen)

            async def flood() -> None:
                while True:
                    await a.send(b"x" * 1_000)
                    await trio.sleep(0.001)

            nursery.start_soon(flood)
            await trio.sleep(1)
            before = seen["x"]
            await trio.sleep(1)
            assert seen == {"x": before}, "B takes nothing, so A has no credit"
            await b.send(b"last word")
            started = trio.current_time()
        assert trio.current_time() - started < 1
        assert seen["l"] == 1
        assert seen["x"] > before
        assert "uncertain_at_stop" not in b._stack.drops
        assert b.levels()["backlog_bytes"].now == 0
        assert [event async for event in b] == []
        nursery.cancel_scope.cancel()
