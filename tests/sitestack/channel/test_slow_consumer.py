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
from sitestack.config import SiteConfig
from sitestack.model.errors import SlowConsumer
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message
from tests.harness.channels import members
from tests.sitestack.channel.test_channel_backlog import with_backlog


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


async def test_who_takes_nothing_is_left_out_after_the_hold_time_and_the_others_go_on(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("exclude")) as site:
        await trio.sleep(20)
        assert 4.0 <= site.longest_s < 4.0 + 2.0
        assert len(site.a.view.members) == 2
        assert trio.current_time() - site.last_s < 0.1


@pytest.mark.long
async def test_it_is_told_so_when_it_takes_and_when_it_sends(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("exclude")) as site:
        await trio.sleep(20)
        for attempt in (site.c.__anext__, lambda: site.c.send(b"late")):
            with pytest.raises(SlowConsumer, match="C in NYC has left: its application took nothing for 4 s"):
                await attempt()


async def test_with_the_policy_slow_the_site_waits_however_long(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("slow")) as site:
        await trio.sleep(60)
        assert trio.current_time() - site.last_s > 50
        assert len(site.a.view.members) == 3


async def test_who_takes_slowly_stays_and_the_site_goes_at_its_pace(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("exclude")) as site, trio.open_nursery() as nursery:

        async def take_slowly() -> None:
            while True:
                await site.c.__anext__()
                await trio.sleep(0.1)

        nursery.start_soon(take_slowly)
        await trio.sleep(60)
        assert len(site.a.view.members) == 3
        assert trio.current_time() - site.last_s < 10
        nursery.cancel_scope.cancel()


async def test_who_takes_nothing_while_its_multicasts_wait_for_another_site_stays(autojump_clock: MockClock) -> None:
    """The application may pass messages to a task that sends, and so wait for that site."""
    async with flooded(with_policy("exclude")) as site:
        site.c._gate.hold_back(True)
        await trio.sleep(60)
        assert len(site.a.view.members) == 3
        site.c._gate.hold_back(False)
        await trio.sleep(8)
        assert len(site.a.view.members) == 2


async def test_who_takes_nothing_while_nobody_waits_for_it_stays(autojump_clock: MockClock) -> None:
    async with members("A", "B", config=with_policy("exclude")) as (a, b):
        await a.send(b"x")
        await trio.sleep(60)
        assert len(a.view.members) == 2
        assert [event.payload async for event in _first_message(b)] == [b"x"]


async def _first_message(channel: Channel) -> AsyncIterator[Message]:
    async for event in channel:
        if isinstance(event, Message):
            yield event
            return


async def test_with_the_policy_gap_it_stays_and_is_told_exactly_what_it_does_not_get(autojump_clock: MockClock) -> None:
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


async def test_who_takes_again_is_waited_for_again(autojump_clock: MockClock) -> None:
    async with flooded(with_policy("gap")) as site:
        await trio.sleep(20)
        site.longest_s = 0.0
        await anext(site.c)
        await trio.sleep(20)
        assert 3.0 <= site.longest_s < 4.0 + 2.0
