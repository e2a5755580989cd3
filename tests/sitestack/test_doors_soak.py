"""Channels on asyncio, uvloop and threads that open, cancel, crash and close for minutes leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import uvloop

import sitestack.aio
import sitestack.blocking
from sitestack.aio import _call as call_from_asyncio
from sitestack.blocking import perform as call_from_thread
from sitestack.config import SiteConfig, local
from sitestack.model.errors import ChannelClosed
from sitestack.model.message import Message
from tests.sitestack.test_aio import LIMIT_S, SITE

#: Duration of each soak in seconds.
SOAK_S = float(os.environ.get("SOAK_S", "200"))
SENDS = 50


class Left(NamedTuple):
    """What may leak: all but the kept channel's constant share."""

    threads: int
    sockets: int
    asyncio_tasks: int
    trio_tasks: int


def count_sockets() -> int:
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(file.readlink()).startswith("socket:")
    return count


async def count_trio_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def new_config() -> SiteConfig:
    """Return a site with real sockets, in which no other test takes part."""
    return replace(local(f"soak-{os.getpid()}-{random.getrandbits(32):08x}"), discovery=SITE.discovery)


def judge(seen: list[Left], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f" [{len(seen)} rounds, at last {seen[-1]}] ", end="")
    assert len(seen) > 2
    assert set(seen[1:]) == {seen[1]}, "the first round also imports and opens what stays"


async def follow(channel: sitestack.aio.Channel) -> None:
    with suppress(ChannelClosed):  # left while a call waited for its answer
        async for event in channel:
            if isinstance(event, Message) and event.call:
                await channel.answer(event, event.payload)


async def send_from_asyncio(channel: sitestack.aio.Channel) -> None:
    with suppress(ChannelClosed):  # cancelled with its block
        for number in range(SENDS):
            await channel.send(b"%d" % number)


async def use_on_asyncio(channel: sitestack.aio.Channel, ended: Callable[[], object]) -> None:
    """Send, ask, cancel and leave; a task that is cancelled here has crashed for the others."""
    following = asyncio.create_task(follow(channel))
    senders = [asyncio.create_task(send_from_asyncio(channel)) for _ in range(4)]
    await asyncio.sleep(random.uniform(0.0, 0.05))
    senders[0].cancel()
    await asyncio.wait(senders)
    with suppress(TimeoutError):
        async with asyncio.timeout(random.uniform(0.0, 0.02)):
            await channel.call(b"?", timeout_s=LIMIT_S)
    ended()
    following.cancel()
    await asyncio.wait([following])


async def round_on_asyncio(config: SiteConfig) -> None:
    async def member() -> None:
        async with sitestack.aio.open_channel(config) as channel:
            await use_on_asyncio(channel, lambda: None)
            await asyncio.sleep(LIMIT_S)

    crashing = asyncio.create_task(member())
    async with sitestack.aio.open_channel(config) as channel:
        await use_on_asyncio(channel, crashing.cancel)
    await asyncio.wait([crashing])


@pytest.mark.long
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_nothing_is_left_of_channels_on_asyncio(
    run: Callable[[Coroutine[Any, Any, None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    async def soak() -> None:
        ends = time.monotonic() + SOAK_S
        async with sitestack.aio.open_channel(new_config()) as kept:
            following = asyncio.create_task(follow(kept))
            while time.monotonic() < ends:
                await round_on_asyncio(new_config())
                tasks = await call_from_asyncio(count_trio_tasks)
                seen.append(Left(threading.active_count(), count_sockets(), len(asyncio.all_tasks()), tasks))
        await asyncio.wait([following])

    seen: list[Left] = []
    before = threading.enumerate(), count_sockets()
    run(soak())
    assert (threading.enumerate(), count_sockets()) == before
    judge(seen, capsys)


def follow_in_thread(channel: sitestack.blocking.Channel) -> None:
    with suppress(ChannelClosed):
        for event in channel:
            if isinstance(event, Message) and event.call:
                channel.answer(event, event.payload)


def use_in_threads(config: SiteConfig, pool: ThreadPoolExecutor) -> None:
    with sitestack.blocking.open_channel(config) as channel:
        following = pool.submit(follow_in_thread, channel)
        sending = [pool.submit(channel.send, b"%d" % number) for number in range(SENDS)]
        channel.call(b"?", timeout_s=random.uniform(0.0, 0.02))
        if random.random() < 0.5:
            raise ConnectionError("a crash while threads send")
        for each in sending:
            each.result(LIMIT_S)
        channel.leave()
        following.result(LIMIT_S)


@pytest.mark.long
def test_nothing_is_left_of_channels_on_threads(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Left] = []
    before = threading.enumerate(), count_sockets()
    ends = time.monotonic() + SOAK_S
    with ThreadPoolExecutor(1) as reader, sitestack.blocking.open_channel(new_config()) as kept:
        following = reader.submit(follow_in_thread, kept)
        while time.monotonic() < ends:
            config = new_config()
            with ThreadPoolExecutor(12) as pool:
                members = [pool.submit(use_in_threads, config, pool) for _ in range(2)]
                for each in members:
                    with suppress(ConnectionError):
                        each.result(LIMIT_S)
            seen.append(Left(threading.active_count(), count_sockets(), 0, call_from_thread(count_trio_tasks)))
        kept.leave()
        following.result(LIMIT_S)
    assert (threading.enumerate(), count_sockets()) == before
    judge(seen, capsys)
