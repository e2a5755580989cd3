"""Channels over real UDP on the loopback interface."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.config import SITE_CHARS_MAX, Order, SiteConfig, local, named_hosts
from sitestack.layers.batching import SIZE_BYTES, BatchingConfig
from sitestack.model.address import Physical
from sitestack.seal.key_ring import KeyRing
from sitestack.transport.udp import UdpStatistics
from tests.harness.channels import members, take, together
from tests.sitestack.seal.parties import KEY

#: With less, a slow machine makes two sites out of members that start together; with more, tests take longer.
JOIN_WAIT_S = 0.3


def config() -> SiteConfig:
    """Return a new site for each test: the group follows from the name."""
    site = local(f"test-{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}")
    return replace(site, discovery=replace(site.discovery, join_wait_s=JOIN_WAIT_S))


@pytest.mark.conforms("USR-1", "LA-12")
async def test_a_site_over_multicast_delivers_everything_in_one_order() -> None:
    site = config()
    with trio.fail_after(30):
        async with together(*[open_channel(site, name=name) for name in "ABC"]) as channels:

            async def talk(channel: Channel) -> None:
                for n in range(2_000):
                    await channel.send(f"{channel.name} {n} ".encode() * 10)

            async with trio.open_nursery() as nursery:
                for channel in channels:
                    nursery.start_soon(talk, channel)
            taken = [await take(channel, 6_000) for channel in channels]
            assert taken[0] == taken[1] == taken[2]
            numbers = channels[0].statistics().transport
            assert isinstance(numbers, UdpStatistics)
            assert numbers.received_datagrams > 0


@pytest.mark.conforms("LA-13", "LA-19")
async def test_a_site_without_multicast_finds_its_members_by_the_name_of_one() -> None:
    name = config().site
    port = random.SystemRandom().randrange(20_000, 30_000)
    named = named_hosts(name, (Physical("localhost", port),), port)
    loopback = replace(named.transport, interface="127.0.0.1")
    first = replace(named, transport=loopback)
    other = replace(named, transport=replace(loopback, port=0))
    with trio.fail_after(30):
        openings = [open_channel(config, name=name) for config, name in ((first, "A"), (other, "B"), (other, "C"))]
        async with together(*openings) as [a, b, c]:
            await c.send(b"x" * 100_000)
            for channel in (a, b, c):
                assert [message.source for message in await take(channel, 1)] == [c.address]


@pytest.mark.conforms("USR-1")
async def test_cancelling_leaves_no_task_and_no_socket() -> None:
    before = set(os.listdir("/proc/self/fd"))
    tasks = trio.lowlevel.current_statistics().tasks_living
    opened = 0
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with open_channel(config(), name="A") as a:
            opened = len(os.listdir("/proc/self/fd"))
            await a.send(b"x")
            scope.cancel()
            await trio.sleep_forever()
    assert opened > len(before)
    assert set(os.listdir("/proc/self/fd")) == before
    assert trio.lowlevel.current_statistics().tasks_living == tasks


#: With its size it divides a full batch.
MESSAGE_BYTES = 996
FULL = BatchingConfig().batch_bytes_max // (MESSAGE_BYTES + SIZE_BYTES)
#: The longest name takes the most room in each batch.
LONGEST = local("N" * SITE_CHARS_MAX)


async def _batches(sender: Channel, receiver: Channel, count: int) -> list[int]:
    """How many messages came in each batch, when so many were sent at once."""
    found: list[int] = []
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for _ in range(count):
                await sender.send(bytes(MESSAGE_BYTES))

        nursery.start_soon(send)
        async for item in receiver.batches():
            if isinstance(item, Delivery):
                found.append(item.batch.count)
            if sum(found) == count:
                return found
    raise AssertionError("the channel ended")


@pytest.mark.parametrize("order", ["total", "fifo"])
async def test_a_full_batch_fits_into_one_sealed_datagram(order: Order, autojump_clock: MockClock) -> None:
    async with members("A", "B", config=replace(LONGEST, order=order), keys=KeyRing.of(KEY)) as (a, b):
        assert FULL in await _batches(b, a, 20 * FULL)
        for channel in (a, b):
            assert channel.levels()["stack.fragment.member_bytes"].high == 0


async def test_the_first_of_a_stream_leaves_at_once_and_a_burst_is_a_full_batch_and_not_one_and_a_bit(
    autojump_clock: MockClock,
) -> None:
    config: SiteConfig = replace(LONGEST, order="fifo")
    async with members("A", "B", config=config) as (a, b):
        first, *rest = await _batches(a, b, 10 * FULL)
        assert first == 1
        assert sorted(rest) == [FULL - 1, *9 * [FULL]]
