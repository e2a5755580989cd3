"""A member whose application does not read blocks its site for a bounded time, and leaves with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.config import Order, SiteConfig
from sitestack.model.errors import SlowConsumer
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC, members, one, take, wait_for_view, with_batching, with_flow


def with_policy(policy: Literal["exclude", "gap", "slow"]) -> SiteConfig:
    config = with_backlog()
    return replace(config, channel=replace(config.channel, backlog_policy=policy, backlog_hold_s=4.0))


@dataclass
class Flooded:
    """A sends all the time, A and B take, and C takes nothing."""

    a: Channel
    b: Channel
    c: Channel
    sent: int = 0
    #: When B took something last, and the longest time that it waited for it.
    last_s: float = field(default_factory=trio.current_time)
    longest_s: float = 0.0

    async def send(self) -> None:
        while True:
            await self.a.send(b"x" * 1_000)
            self.sent += 1
            await trio.sleep(0.001)

    async def take(self, channel: Channel) -> None:
        async for event in channel:
            if channel is self.b and isinstance(event, Message):
                now = trio.current_time()
                self.longest_s, self.last_s = max(self.longest_s, now - self.last_s), now


@asynccontextmanager
async def flooded(config: SiteConfig) -> AsyncIterator[Flooded]:
    async with members("A", "B", "C", config=config) as (a, b, c), trio.open_nursery() as nursery:
        site = Flooded(a, b, c)
        for channel in (a, b):
            nursery.start_soon(site.take, channel)
        nursery.start_soon(site.send)
        yield site
        nursery.cancel_scope.cancel()


async def take_slowly(channel: Channel) -> None:
    async for _ in channel:
        await trio.sleep(0.1)


@pytest.mark.slow
async def test_a_non_reading_member_is_excluded_after_the_hold_time_and_others_continue(autojump_clock: MockClock) -> None:
    """Reading and sending there tell why."""
    async with flooded(with_policy("exclude")) as site:
        await trio.sleep(20)
        assert 4.0 <= site.longest_s < 4.0 + 2.0
        assert len(site.a.view.members) == 2
        assert trio.current_time() - site.last_s < 0.1
        for attempt in (site.c.__anext__, lambda: site.c.send(b"late")):
            with pytest.raises(SlowConsumer, match="C in NYC has left: its application took nothing for 4 s"):
                await attempt()


async def test_with_the_policy_slow_the_site_waits_however_long(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("slow")) as site:
        await trio.sleep(60)
        assert trio.current_time() - site.last_s > 50
        assert len(site.a.view.members) == 3


async def test_a_slowly_reading_member_stays_and_its_site_continues(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("exclude")) as site, trio.open_nursery() as nursery:
        nursery.start_soon(take_slowly, site.c)
        await trio.sleep(60)
        assert len(site.a.view.members) == 3
        assert trio.current_time() - site.last_s < 10
        nursery.cancel_scope.cancel()


async def test_a_member_that_reads_the_messages_of_a_batch_one_by_one_stays(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("exclude")) as site, trio.open_nursery() as nursery:

        async def send_batches() -> None:
            while True:
                await site.a.send_many([b"x"] * 500)
                await trio.sleep(0.1)

        nursery.start_soon(take_slowly, site.c)
        nursery.start_soon(send_batches)
        await trio.sleep(20)
        assert len(site.a.view.members) == 3
        nursery.cancel_scope.cancel()


async def test_a_non_reading_member_stays_while_its_multicasts_wait_for_another_site(autojump_clock: MockClock) -> None:
    """The application may pass messages to a task that sends, and so wait for that site."""
    async with flooded(with_policy("exclude")) as site:
        site.c._gate.hold_back(True)
        await trio.sleep(60)
        assert len(site.a.view.members) == 3
        site.c._gate.hold_back(False)
        await trio.sleep(8)
        assert len(site.a.view.members) == 2


async def test_a_non_reading_member_stays_while_no_member_waits_for_it(autojump_clock: MockClock) -> None:
    async with members("A", "B", config=with_policy("exclude")) as (a, b):
        await a.send(b"x")
        await trio.sleep(60)
        assert len(a.view.members) == 2
        assert [message.payload for message in await take(b, 1)] == [b"x"]


@pytest.mark.slow
async def test_with_the_policy_gap_a_non_reading_member_stays_and_receives_exact_gaps(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("gap")) as site:
        await trio.sleep(20)
        assert 4.0 <= site.longest_s < 4.0 + 2.0, "the others have waited once"
        assert len(site.a.view.members) == 3
        assert site.c.levels()["backlog_bytes"].now < 200_000
        numbers, gaps = [], []
        with trio.move_on_after(5):
            async for event in site.c:
                match event:
                    case Message():
                        numbers.append(event.id.n)
                    case Gap():
                        gaps.append((event.first, event.last))
                        assert (event.reason, event.origin) == (GapReason.BACKLOG, site.a.address)
                        numbers += range(event.first, event.last + 1)
        assert numbers == list(range(1, len(numbers) + 1)), "every number once and in order, as a message or in a gap"
        assert len(numbers) > site.sent - 100
        assert 1 <= len(gaps) <= 2, "one gap, however often it was looked at"


async def test_a_member_that_reads_again_is_waited_for_again(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("gap")) as site:
        await trio.sleep(20)
        site.longest_s = 0.0
        await anext(site.c)
        await trio.sleep(20)
        assert 3.0 <= site.longest_s < 4.0 + 2.0


def with_backlog(order: Order = "total") -> SiteConfig:
    """Bounds so small that a few dozen answers reach them."""
    config = with_flow(replace(NYC, order=order), window_bytes=20_000, backlog_bytes_max=80_000)
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
async def test_a_member_that_answers_in_its_receiving_task_answers_all_messages(
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


async def test_a_provider_that_answers_messages_still_provides_a_state_to_a_joiner(autojump_clock: MockClock) -> None:
    """The joiner reads nothing before, so no member has credit; messages without loopback fill no inbox of the
    sender's.
    """
    network, config = MemoryNetwork(), with_backlog()
    taken: list[bytes] = []
    go = trio.Event()

    state = {"get_state": lambda: b"state", "set_state": taken.append}

    async def provide(channel: Channel) -> None:
        async for event in channel:
            if isinstance(event, Message) and event.payload[:1] == b"q":
                await go.wait()
                await channel.send(b"r" * 2_000, loopback=False)

    async with one(network, "A", config, **state) as a, trio.open_nursery() as nursery:
        nursery.start_soon(provide, a)
        for _ in range(200):
            await a.send(b"q" * 100)
        await trio.sleep(1)
        async with one(network, "C", config, **state) as c:
            go.set()
            seen: dict[str, int] = {}
            with trio.move_on_after(60):
                await count(c, seen)
            assert (taken, seen) == ([b"state"], {"r": 200})
            nursery.cancel_scope.cancel()


async def test_a_member_that_leaves_with_a_full_inbox_blocks_no_other_member(autojump_clock: MockClock) -> None:
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
