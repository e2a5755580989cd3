"""Locks and leaders of a site: two members in one process, with datagrams in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import SecuritySettings
from relay.structures.lock import Leader, Lock
from sitestack.layers.membership.config import MembershipConfig
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError
from sitestack.structures.locks import Request
from sitestack.transport.memory import MemoryNetwork
from tests.harness.sockets import until
from tests.relay.node.test_relay_channel import QUICK

SITE = replace(
    QUICK,
    site="NYC",
    agreement="uniform",
    membership=MembershipConfig(when_split="majority", members=2),
    security=SecuritySettings(insecure=True),
)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[RelayChannel, RelayChannel]]:
    network = MemoryNetwork()
    with trio.fail_after(60):
        async with (
            open_channel(SITE, name="A", transport=network.open()) as one,
            open_channel(SITE, name="B", transport=network.open()) as other,
        ):
            await until(lambda: one.view.is_primary and len(one.view.members) == 2)
            yield one, other


async def test_a_lock_passes_from_member_to_member_with_larger_tokens() -> None:
    async with pair() as (one, other):
        mine, theirs = Lock(one, "jobs"), Lock(other, "jobs")
        tokens: list[int] = []

        async def wait() -> None:
            async with theirs as token:
                tokens.append(token)

        async with trio.open_nursery() as nursery, mine as token:
            tokens.append(token)
            assert mine.token == token
            assert mine.holder == one.address
            with pytest.raises(LocalError, match="make another one"):
                await mine.acquire()
            nursery.start_soon(wait)
            await trio.sleep(0.1)
            assert theirs.token is None
        assert len(tokens) == 2
        assert tokens[1] > tokens[0]
        assert theirs.token is None


async def test_a_cancelled_request_does_not_hold_the_lock() -> None:
    async with pair() as (one, other):
        async with Lock(one, "jobs"):
            with trio.move_on_after(0.1):
                await Lock(other, "jobs").acquire()
        async with Lock(one, "jobs"):
            pass


async def test_without_the_majority_option_it_is_refused_in_one_sentence() -> None:
    config = replace(SITE, membership=MembershipConfig(), agreement="survivors")
    async with open_channel(config, name="A", transport=MemoryNetwork().open()) as channel:
        with pytest.raises(ConfigurationError, match=r"relay\.Leader needs membership\.when_split: majority, agreement"):
            Leader(channel, "boss")


async def test_a_request_ends_with_the_channel() -> None:
    async with pair() as (one, other), Lock(one, "jobs"):

        async def wait() -> None:
            with pytest.raises(ChannelClosed):
                await Lock(other, "jobs").acquire()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.1)
            await other.leave()


async def test_a_leader_whose_duty_ends_or_fails_or_is_cancelled_makes_room_for_the_next_one() -> None:
    async def work(token: int) -> None:
        await trio.sleep(0.1)

    async def fail(token: int) -> None:
        raise ValueError("the duty failed")

    async def go_on(token: int) -> None:
        await trio.sleep_forever()

    async with pair() as (one, other):
        await Leader(one, "boss").run(work)
        with pytest.raises(ValueError, match="the duty failed"):
            await Leader(one, "boss").run(fail)
        with trio.move_on_after(0.5):
            await Leader(one, "boss").run(go_on)
        await Leader(other, "boss").run(work)


async def test_all_tasks_learn_that_the_lock_was_released() -> None:
    async with pair() as (one, _):
        lock = Lock(one, "jobs")
        async with trio.open_nursery() as nursery, lock:
            nursery.start_soon(lock.wait_lost)
            nursery.start_soon(lock.wait_lost)
            await trio.sleep(0.1)


async def test_a_lock_that_is_lost_in_the_turn_that_grants_it_is_asked_for_again() -> None:
    async with pair() as (one, _):
        locks = one.locks
        assert locks is not None
        ask = locks.request

        def lose_first(name: str, changed: Callable[[], None]) -> Request:
            made = ask(name, changed)
            if made.number == 1:
                locks.release(made)
            return made

        locks.request = lose_first  # type: ignore[method-assign]
        async with Lock(one, "jobs") as token:
            assert token


async def test_bad_names_are_refused() -> None:
    async with pair() as (one, _):
        for name in ("", "x" * 129):
            with pytest.raises(LocalError, match="has 1 to 128 bytes"):
                Lock(one, name)
