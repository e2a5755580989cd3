"""Lists of messages."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.receiving.inbox import Delivery
from sitestack.channel.sending.sending import PORTION_BYTES, PORTION_MESSAGES, portions
from sitestack.layers.batching import SIZE_BYTES
from sitestack.model.errors import ChannelClosed, MessageTooLarge
from sitestack.model.message import Scope
from tests.harness.channels import NYC, members, take, with_batching


async def test_a_list_comes_like_as_many_single_messages(autojump_clock: MockClock) -> None:
    config = with_batching(NYC, batch_bytes_max=2_000)
    async with members("A", "B", config=config) as (a, b):
        payloads = [b"%d" % n + bytes(n % 50) for n in range(1_000)]
        await a.send(b"before")
        assert await a.send_many(payloads) == 1_000
        await a.send(b"after")
        found = await take(b, 1_002)
        assert [each.payload for each in found] == [b"before", *payloads, b"after"]
        assert [each.id.n for each in found] == list(range(1, 1_003))


async def test_a_list_goes_where_it_is_sent(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        await a.send_many([b"1", bytearray(b"2")], target=b.address)
        await a.send_many([memoryview(b"3")], scope="site", loopback=False)
        await a.send_many([])
        await a.send(b"end", scope="site")
        assert sorted([(each.payload, each.scope) for each in await take(b, 4)]) == [
            (b"1", Scope.UNICAST),
            (b"2", Scope.UNICAST),
            (b"3", Scope.SITE),
            (b"end", Scope.SITE),
        ]
        assert [each.payload for each in await take(c, 2)] == [b"3", b"end"]
        assert [each.payload for each in await take(a, 1)] == [b"end"]


async def test_of_a_list_with_one_that_cannot_be_sent_nothing_is_sent(autojump_clock: MockClock) -> None:
    config = with_batching(NYC, message_bytes_max=100)
    async with members("A", config=config) as (a,):
        with pytest.raises(MessageTooLarge):
            await a.send_many([b"x", bytes(101)])
        with pytest.raises(TypeError, match="must be bytes, not str"):
            await a.send_many([b"x", "y"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="must be bytes, not int"):
            await a.send_many(b"xyz")  # type: ignore[arg-type]
        await a.send(b"only")
        assert [each.payload for each in await take(a, 1)] == [b"only"]
        await a.leave()
        with pytest.raises(ChannelClosed):
            await a.send_many([b"x"])


async def test_a_list_waits_for_credit_and_a_cancelled_one_has_sent_its_beginning(autojump_clock: MockClock) -> None:
    config = with_batching(NYC, send_credit_bytes=100_000, window_bytes=50_000, message_bytes_max=10_000)
    payloads = [b"%06d" % n + bytes(994) for n in range(20_000)]
    async with members("A", config=config) as (a,):
        with trio.move_on_after(1) as waiting:
            await a.send_many(payloads)
        assert waiting.cancelled_caught, "nothing is taken, so there is no credit"
        with trio.move_on_after(1):
            async for item in a.batches():
                if isinstance(item, Delivery):
                    got = list(item.payloads())
                    assert got == payloads[: len(got)]
                    payloads = payloads[len(got) :]
        assert 0 < len(payloads) < 20_000


async def test_a_list_gives_others_their_turn_in_between(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        with trio.testing.assert_checkpoints():
            await a.send_many([b"x"])


@pytest.mark.parametrize("size", [0, 1, 96, 996, PORTION_BYTES, 2 * PORTION_BYTES])
def test_a_portion_is_as_large_as_it_may_be(size: int) -> None:
    payloads = [b"%d" % n + bytes(size) for n in range(10_000 if size < 1_000 else 5)]
    found = list(portions(payloads))
    assert [each for portion in found for each in portion] == payloads
    for portion, following in pairwise(found):
        total = sum(map(len, portion)) + SIZE_BYTES * len(portion)
        assert len(portion) == 1 or total <= PORTION_BYTES
        assert total + len(following[0]) + SIZE_BYTES > PORTION_BYTES or len(portion) == PORTION_MESSAGES


def test_an_empty_list_has_no_portions() -> None:
    assert list(portions([])) == []
