"""Calls, headers, probes and places, as an application of one site sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from sitestack.calls.calls import NoAnswer
from sitestack.calls.flush import Lack
from sitestack.channel.channel import Channel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.channel.sending.sending import PORTION_BYTES, PORTION_MESSAGES, Reach, portions
from sitestack.layers.batching import SIZE_BYTES
from sitestack.model.address import AllOf, ProxyUUID, RelayOf
from sitestack.model.errors import ChannelClosed, LocalError, MessageTooLarge
from sitestack.model.message import Message, Scope
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC, members, one, take, wait_for_view, with_batching


async def answer_all(channel: Channel, log: list[str]) -> None:
    """An application that answers each question with its name, and records the questions."""
    async for event in channel:
        if isinstance(event, Message):
            log.append(event.payload.decode())
            if event.call:
                await channel.answer(event, channel.name.encode())


@pytest.mark.conforms("SEQ-19")
async def test_successive_calls_by_different_members_have_one_order_at_all_members(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as channels, trio.open_nursery() as nursery:
        logs: list[list[str]] = [[] for _ in channels]
        for channel, log in zip(channels, logs, strict=True):
            nursery.start_soon(answer_all, channel, log)
        for n in range(12):
            caller = channels[n % 3]
            result = await caller.call(b"%d" % n, timeout_s=30)
            assert result.enough
            assert {caller.name_of(member): answer for member, answer in result.answers.items()} == dict(
                zip("ABC", (b"A", b"B", b"C"), strict=True)
            )
            assert [log[n:] for log in logs] == [[str(n)]] * 3, "all have it when the call returns"
        nursery.cancel_scope.cancel()
    assert logs == [[str(n) for n in range(12)]] * 3


async def test_one_answer_ends_a_call_in_mode_first_but_not_in_the_default_mode(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c), trio.open_nursery() as nursery:
        nursery.start_soon(answer_all, b, [])
        result = await a.call(b"anybody?", mode="first", timeout_s=30)
        assert (result.answers, result.late, result.enough) == ({b.address: b"B"}, (a.address, c.address), True)
        result = await a.call(b"two of you?", [b.address, c.address], timeout_s=2)
        assert (result.answers, result.late, result.enough) == ({b.address: b"B"}, (c.address,), False)
        nursery.cancel_scope.cancel()


@pytest.mark.conforms("REL-34")
async def test_a_call_does_not_wait_for_a_leaving_member(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with one(network, "A") as a, one(network, "B") as b, trio.open_nursery() as nursery:
        async with one(network, "C") as c:
            await wait_for_view(a, 3)
            nursery.start_soon(answer_all, b, [])
            results = []

            async def ask() -> None:
                results.append(await a.call(b"?", [b.address, c.address], timeout_s=1_000))

            nursery.start_soon(ask)
            await take(c, 1)
        with trio.fail_after(60):
            while not results:  # noqa: ASYNC110 (nothing else tells of a result)
                await trio.sleep(0.1)
        assert results[0].unreachable == {c.address: NoAnswer.LEFT}
        assert (list(results[0].answers), results[0].enough) == ([b.address], False)
        nursery.cancel_scope.cancel()


async def test_a_late_answer_to_a_call_is_not_delivered_to_the_application(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        assert (await a.call(b"question", [b.address], timeout_s=1)).late == (b.address,)
        [question] = await take(b, 1)
        assert (question.payload, question.call > 0, question.scope) == (b"question", True, Scope.UNICAST)
        await b.answer(question, b"too late")
        await b.send(b"after it", target=a.address)
        [message] = await take(a, 1)
        assert (message.payload, message.call) == (b"after it", 0)
        with pytest.raises(LocalError, match="has stopped waiting"):
            await a.answer(message, b"?")
        assert a.levels()["calls"].now == 0


@pytest.mark.conforms("SEQ-6", "REL-18")
async def test_headers_arrive_with_the_message_and_change_nothing_else(autojump_clock: MockClock) -> None:
    """Sent by a member that is not the coordinator, among messages without any, and to one member."""
    async with members("A", "B") as (a, b):
        for n in range(30):
            await b.send(b"%d" % n, headers={"n": b"%d" % n, "type": b"x"} if n % 3 == 0 else None, loopback=n % 2 == 0)
        await b.send(b"to you", target=a.address, headers={"n": b"u"})
        taken = await take(a, 31)
        multicasts = [message for message in taken if message.scope is Scope.ALL]
        assert [message.payload for message in multicasts] == [b"%d" % n for n in range(30)]
        assert [message.id.n for message in multicasts] == list(range(1, 31))
        assert [dict(message.headers) for message in multicasts] == [
            {"n": b"%d" % n, "type": b"x"} if n % 3 == 0 else {} for n in range(30)
        ]
        [unicast] = [message for message in taken if message.scope is Scope.UNICAST]
        assert (unicast.payload, unicast.headers["n"], unicast.call) == (b"to you", b"u", 0)
        own = await take(b, 15)
        assert own == [message for message in multicasts if message.id.n % 2]
        with pytest.raises(LocalError):
            await b.send(b"", headers={"large": bytes(5_000)})


async def test_out_of_band_to_a_site_is_once_for_each_member(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        await a.send(b"quick", scope="site", oob=True, headers={"h": b"1"})
        await b.send(b"not to me", scope="site", oob=True, loopback=False)
        for channel, expected in ((a, 2), (b, 1), (c, 2)):
            taken = await take(channel, expected)
            assert {message.scope for message in taken} == {Scope.OOB}
            assert (b"quick", b"1") in [(message.payload, message.headers.get("h")) for message in taken]
        with pytest.raises(LocalError, match="out of band"):
            await a.send(b"x", oob=True)


async def test_a_place_of_the_own_site_resolves_to_its_members(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await b.send(b"all", target=AllOf("NYC"))
        await b.send(b"relay", target=RelayOf("NYC"))
        assert [message.payload for message in await take(a, 2)] == [b"all", b"relay"]
        assert [message.payload for message in await take(b, 1)] == [b"all"]
        with pytest.raises(LocalError, match="SFO"):
            await a.send(b"x", target=AllOf("SFO"))
        with pytest.raises(TypeError, match="names need not be unique"):
            await a.call(b"?", ["B"], timeout_s=1)  # type: ignore[list-item]
        result = await a.call(b"?", [ProxyUUID(b.address, "NYC"), b.address], timeout_s=1)
        assert result.late == (b.address,), "one member, asked once"


async def test_flushed_messages_are_delivered_at_all_members_before_any_is_read(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        for n in range(500):
            await b.send(b"%d" % n)
        scopes: tuple[Reach, ...] = ("all", "site")
        for scope in scopes:
            flushed = await b.flushed(scope, timeout_s=30)
            assert (set(flushed.has), flushed.lacks, flushed.everywhere) == ({a.address, b.address, c.address}, {}, True)
        for channel in (a, b, c):
            assert channel.levels()["backlog_bytes"].now > 0
            assert [message.payload for message in await take(channel, 500)] == [b"%d" % n for n in range(500)]


@contextmanager
def _unheard(network: MemoryNetwork, channel: Channel) -> Iterator[None]:
    """Nothing reaches this member."""
    [place] = channel.transport.physical()
    before, network.allow = network.allow, lambda source, target: target != place
    yield
    network.allow = before


async def test_a_flush_names_a_member_that_does_not_answer(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with members("A", "B", "C", network=network) as (a, b, c):
        with _unheard(network, c):
            await a.send(b"x")
            flushed = await a.flushed(timeout_s=0.5)
            assert flushed.lacks == {c.address: Lack.NO_ANSWER}
            assert (set(flushed.has), flushed.everywhere) == ({a.address, b.address}, False)
        assert (await a.flushed(timeout_s=30)).everywhere


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
