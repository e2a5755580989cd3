"""The channel as an application sees it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from sitestack.channel.open import make_local
from sitestack.channel.receiving.inbox import Delivery
from sitestack.channel.sending.sending import BURST_BYTES, BURST_MESSAGES
from sitestack.layers.batching import BatchingStatistics
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.envelope import Envelope, wrap
from sitestack.model.errors import ChannelClosed, ConfigurationError, JoinFailed, LocalError, MessageTooLarge
from sitestack.model.message import Batch, Message, MessageId, Scope, pack_body
from sitestack.model.view import View
from sitestack.transport.memory import MemoryNetwork
from tests.harness.addresses import address
from tests.harness.channels import NYC, members, one, take, wait_for_view, with_batching, with_flow


async def test_a_message_contains_its_sender_and_id(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await a.send(b"x", scope="site")
        [x] = await take(b, 1)
        await a.send(b"y")
        [y] = await take(b, 1)
        assert x == Message(a.address, b"x", MessageId("NYC", a.address, Scope.SITE, 1))
        assert y == Message(a.address, b"y", MessageId("NYC", a.address, Scope.ALL, 1))


async def test_views_come_in_their_place_and_batches_whole(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        for n in range(10):
            await a.send(b"%d" % n)  # the first finds an idle channel and leaves at once; the others come together behind it
        seen: list[Delivery | View] = []
        async for item in b.batches():
            assert isinstance(item, Delivery | View)
            seen.append(item)
            if isinstance(item, Delivery) and item.batch.last == 10:
                break
        assert [item.names for item in seen if isinstance(item, View)] == [("A", "B")]
        alone, rest = [item for item in seen if isinstance(item, Delivery)]
        assert (alone.source, list(alone.payloads())) == (a.address, [b"0"])
        assert (rest.source, list(rest.payloads())) == (a.address, [b"%d" % n for n in range(1, 10)])
        assert [message.id.n for message in rest.messages()] == list(range(2, 11))


async def test_the_view_names_the_members_and_follows_joins_and_leaves(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with one(network, "A") as a:
        assert (a.view.names, a.view.coordinator) == (("A",), a.address)
        async with one(network, "B") as b:
            assert b.view.names == ("A", "B")
            await wait_for_view(a, 2)
        await wait_for_view(a, 1)


@pytest.mark.conforms("LA-2", "LA-3")
async def test_a_name_is_generated_from_the_host_and_every_connect_gets_a_new_address(autojump_clock: MockClock) -> None:
    first, second = make_local("NYC", ""), make_local("NYC", "")
    assert first.name.startswith(f"{os.uname().nodename}-")
    assert first.name != second.name
    assert first.address != second.address
    assert make_local("NYC", "B").name == make_local("NYC", "B").name == "B"
    assert len({make_local("NYC", "").name for _ in range(100)}) > 90, "of 65536 random parts"


# -- sending ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"", b"the same"])
async def test_send_executes_one_checkpoint_per_burst(autojump_clock: MockClock, key: bytes) -> None:
    async with members("A") as (a,):
        await trio.sleep(1)
        for burst in range(3):
            if burst:
                with trio.testing.assert_checkpoints():
                    await a.send(b"x", key=key)
            for _ in range(BURST_MESSAGES - (burst > 0)):
                with trio.testing.assert_no_checkpoints():
                    await a.send(b"x", key=key)
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await a.send(bytes(BURST_BYTES))


async def test_a_send_that_was_cancelled_has_sent_nothing(autojump_clock: MockClock) -> None:
    """Also when it waits for credit: the sender knows what to send again."""
    config = with_batching(NYC, send_credit_bytes=20_000, window_bytes=10_000)
    async with members("A", config=config) as (a,):
        sent: list[bytes] = []
        for n in range(2_000):
            with trio.CancelScope() as scope:
                scope.cancel()
                payload = b"%d" % n + bytes(n % 50)
                await a.send(payload)
                sent.append(payload)
            if scope.cancelled_caught and n % 3 == 0:
                await trio.sleep(0.001)
        assert 100 < len(sent) < 2_000
        await a.send(b"end")
        assert [message.payload for message in await take(a, len(sent) + 1)] == [*sent, b"end"]


async def test_a_lone_message_waits_for_no_timer(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await trio.sleep(1.1)  # between two heartbeats
        started = trio.current_time()
        await a.send(b"x")
        await take(b, 1)
        assert trio.current_time() - started < 1e-6


async def test_a_sender_without_credit_waits_until_it_has_some(autojump_clock: MockClock) -> None:
    """Undelivered messages block the sender; it resumes by itself."""
    cut = False
    network = MemoryNetwork(lambda source, to: not cut)
    config = with_batching(NYC, send_credit_bytes=100_000, window_bytes=50_000)
    async with members("A", "B", config=config, network=network) as (a, b):
        cut = True
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(200):
                await b.send(bytes(1_000))
                sent += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            await trio.sleep(0.5)
            assert 90 <= sent <= 110
            cut = False
            assert len(await take(a, 200)) == 200
        assert sent == 200


async def test_a_reader_that_does_not_read_stops_the_senders(autojump_clock: MockClock) -> None:
    config = with_batching(
        with_flow(NYC, window_bytes=50_000, backlog_bytes_max=100_000),
        send_credit_bytes=50_000,
        batch_bytes_max=10_000,
        window_bytes=50_000,
        message_bytes_max=10_000,
    )
    async with members("A", "B", config=config) as (a, b):
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(1_000):
                await a.send(bytes(1_000))
                sent += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            nursery.start_soon(take, a, 1_000)
            await trio.sleep(10)
            assert 100 <= sent <= 300
            assert b.levels()["backlog_bytes"].now <= 250_000
            assert len(await take(b, 1_000)) == 1_000


NO_SCOPE = r"^the scope is 'all' or 'site', not .*; one member is a target$"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((bytes(1_001),), MessageTooLarge, "1001 bytes are more than the allowed 1000"),
        *[((bad,), TypeError, f"a message must be bytes, not {type(bad).__name__}") for bad in ("text", 5, None, [b"x"])],
        *[((b"x", target), LocalError, NO_SCOPE) for target in (address("A"), "SFO")],
    ],
)
async def test_an_unsuitable_message_or_scope_is_refused_and_not_sent(
    autojump_clock: MockClock, arguments: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    async with members("A", config=with_batching(NYC, message_bytes_max=1_000)) as (a,):
        with pytest.raises(error, match=says):
            await a.send(*arguments)
        await a.send(b"next")
        assert [(message.payload, message.id.n) for message in await take(a, 1)] == [(b"next", 1)]


async def test_a_buffer_is_sent_as_it_was_when_it_was_handed_over(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        buffer = bytearray(b"before")
        await a.send(buffer)
        await a.send(memoryview(buffer)[::2])
        buffer[:] = b"after!"
        assert [message.payload for message in await take(b, 2)] == [b"before", b"bfr"]


# -- the end ---------------------------------------------------------------------------------------------------------------


async def test_after_leaving_iteration_ends_and_sending_is_refused(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        await a.send(b"last")
        await a.leave()
        with pytest.raises(ChannelClosed):
            await a.send(b"too late")
        await a.leave()
        events = [event async for event in a]
        assert [event.payload for event in events if isinstance(event, Message)] == [b"last"]
        assert [batch async for batch in a.batches()] == []


async def test_a_waiting_reader_and_sender_are_released_when_the_membership_ends(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    config = with_batching(NYC, send_credit_bytes=10_000, window_bytes=5_000)
    async with members("A", "B", config=config, network=network) as (a, b):
        ended: list[str] = []

        async def read() -> None:
            async for _ in a:
                pass
            ended.append("reader")

        async def write() -> None:
            with suppress(ChannelClosed):
                while True:
                    await a.send(bytes(1_000), target=b.address)
            ended.append("writer")

        network.allow = lambda source, to: False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(write)
            await trio.sleep(0.1)
            assert ended == []
            a._driver.left = True
            a._driver.wake()
        assert sorted(ended) == ["reader", "writer"]
        network.allow = lambda source, to: True


async def test_leaving_an_unreachable_site_takes_a_bounded_time(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with one(network, "A"), one(network, "B") as b:
        await b.send(b"never delivered")
        network.allow = lambda source, to: False
        started = trio.current_time()
        await b.leave()
        waits = b.config.protocols.batching.stop_timeout_s + b.config.membership.leave_timeout_s
        assert trio.current_time() - started < waits + 1


async def test_an_error_in_the_block_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with members("A"):
            raise mine
    assert caught.value is mine


async def test_a_join_that_exceeds_its_timeout_raises_join_failed(autojump_clock: MockClock) -> None:
    config = replace(NYC, channel=replace(NYC.channel, join_timeout_s=0.1))
    with pytest.raises(JoinFailed, match=r"site NYC could not be joined within 0\.1 s"):
        async with one(MemoryNetwork(), "A", config):
            pass


async def test_a_configuration_that_cannot_work_is_refused_with_all_its_problems(autojump_clock: MockClock) -> None:
    bad = replace(NYC, site="", transport=replace(NYC.transport, datagram_bytes_max=70_000, multicast_group="10.0.0.1"))
    with pytest.raises(ConfigurationError) as caught:
        async with one(MemoryNetwork(), "A", bad):
            pass
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "site",
        "transport.multicast_group",
        "transport.datagram_bytes_max",
    ]


SECOND_WITHOUT = pack_body([wrap(Envelope(headers={"h": b"1"}), b"first"), b"no envelope"], envelopes=True)


@pytest.mark.parametrize(("body", "reason"), [(b"\xff" * 12, "body"), (SECOND_WITHOUT, "envelope")])
async def test_an_invalid_batch_is_dropped_whole_and_counted(autojump_clock: MockClock, body: bytes, reason: str) -> None:
    """Also its first message, which could perhaps be read."""
    async with members("A") as (a,):
        bad = Batch("NYC", a.address, Scope.ALL, 1, 2, body)
        good = Batch("NYC", a.address, Scope.ALL, 3, 1, pack_body([b"good"]))
        for batch in (bad, good):
            a._inbox.put(Delivery(Address(a.address), batch))
        assert [message.payload for message in await take(a, 1)] == [b"good"]
        assert a.statistics().stack["drops"] == {reason: 1}


async def test_a_multicast_without_loopback_is_delivered_at_all_members_but_its_sender(
    autojump_clock: MockClock,
) -> None:
    """Sent by the coordinator and by another member, among others that they want back; their numbers are as they were sent."""
    async with members("A", "B", "C") as channels:
        a, b, c = channels
        for n in range(100):
            await a.send(b"a%d" % n, loopback=n % 3 == 0)
            await b.send(b"b%d" % n, scope="site", loopback=n % 4 == 0)
        taken = await take(c, 200)
        assert [m.payload for m in taken if m.source == a.address] == [b"a%d" % n for n in range(100)]
        assert [m.payload for m in taken if m.source == b.address] == [b"b%d" % n for n in range(100)]
        assert await take(a, 134) == [m for m in taken if m.source != a.address or (m.id.n - 1) % 3 == 0]
        assert await take(b, 125) == [m for m in taken if m.source != b.address or (m.id.n - 1) % 4 == 0]
        await trio.sleep(1)  # the message without loopback comes last
        for channel in (a, b):
            batching = channel.statistics().stack["batching"]
            assert isinstance(batching, BatchingStatistics)
            assert (channel.levels()["stack.batching.outstanding_bytes"].now, batching.messages) == (0, 100)


# -- out of band -----------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("U2-18")
async def test_they_reach_their_target_once_and_are_numbered_apart(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        for n in range(50):
            await a.send(b"o%d" % n, target=b.address)
            await a.send(b"u%d" % n, target=b.address, oob=True)
        await a.send(b"all")
        taken = await take(b, 101)
        ordered = [message.payload for message in taken if message.scope is Scope.UNICAST]
        assert ordered == [b"o%d" % n for n in range(50)]
        urgent = [message for message in taken if message.scope is Scope.OOB]
        assert sorted(message.payload for message in urgent) == sorted(b"u%d" % n for n in range(50))
        assert Message(a.address, b"u0", MessageId("NYC", a.address, Scope.OOB, 1)) in urgent
        assert [message.payload for message in await take(c, 1)] == [b"all"]


@pytest.mark.conforms("U2-18")
async def test_one_to_oneself_and_one_to_a_proxy_of_a_member_arrive_like_any_other(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await a.send(b"me", target=a.address, oob=True)
        await a.send(b"you", target=ProxyUUID(b.address, "NYC"), oob=True)
        assert [message.payload for message in await take(a, 1)] == [b"me"]
        assert [message.payload for message in await take(b, 1)] == [b"you"]


@pytest.mark.conforms("U2-18")
async def test_multicasts_and_messages_to_other_sites_cannot_be_out_of_band(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        with pytest.raises(LocalError, match="only members of this site get messages out of band"):
            await a.send(b"x", oob=True)
        with pytest.raises(LocalError, match="in another site"):
            await a.send(b"x", target=ProxyUUID(b.address, "SFO"), oob=True)
        await a.send(b"y", target=b.address, oob=True)
        [y] = await take(b, 1)
        assert y.id.n == 1
