"""A busy sender fills its batches, and each travels in one datagram."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.config import SITE_CHARS_MAX, Order, SiteConfig, local
from sitestack.layers.batching import SIZE_BYTES, BatchingConfig
from sitestack.layers.fragment.layer import FragmentStatistics
from sitestack.seal.key_ring import KeyRing
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import members, wait_for_view
from tests.sitestack.seal.parties import KEY

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
    config, network, ring = replace(LONGEST, order=order), MemoryNetwork(), KeyRing.of(KEY)
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(open_channel(config, name=name, keys=ring, transport=network.open()))
            for name in "AB"
        ]
        await wait_for_view(a, 2)
        assert FULL in await _batches(b, a, 20 * FULL)
        for channel in (a, b):
            fragment = channel.statistics().stack["fragment"]
            assert isinstance(fragment, FragmentStatistics)
            assert fragment.frames_cut == 0


async def test_the_first_of_a_stream_leaves_at_once_and_a_burst_is_a_full_batch_and_not_one_and_a_bit(
    autojump_clock: MockClock,
) -> None:
    config: SiteConfig = replace(LONGEST, order="fifo")
    async with members("A", "B", config=config) as (a, b):
        first, *rest = await _batches(a, b, 10 * FULL)
        assert first == 1
        assert sorted(rest) == [FULL - 1, *9 * [FULL]]
