"""When a turn runs: inside `send` on an idle channel, at each datagram while idle, and for all that is there amid a stream."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.driver import STREAM_TURNS, DriverStatistics
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import members, take


def turns_of(*channels: Channel) -> list[DriverStatistics]:
    return [channel.statistics().driver for channel in channels]


async def become_idle(*channels: Channel) -> None:
    """Wait until what joining has brought is over, and no turn counts as part of a stream any more."""
    while any(channel._driver._streaming for channel in channels):  # noqa: ASYNC110 (it changes with the heartbeats)
        await trio.sleep(0.05)
    await trio.sleep(0.001)


async def test_what_an_idle_channel_sends_leaves_inside_send(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        for sender, target in ((a, None), (b, None), (c, a.address)):
            await become_idle(a, b, c)
            before = turns_of(a, b, c)
            with trio.testing.assert_no_checkpoints():
                await sender.send(b"x", target=target)
            after = turns_of(a, b, c)
            assert sum(each.sent_datagrams for each in after) > sum(each.sent_datagrams for each in before)
            assert sum(each.immediate_turns for each in after) == sum(each.immediate_turns for each in before) + 1


async def test_what_send_delivers_inside_itself_waits_in_the_inbox(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        await become_idle(a)
        waiting = a._inbox.backlog_bytes.now
        with trio.testing.assert_no_checkpoints():
            await a.send(b"x")
        assert a._inbox.backlog_bytes.now > waiting
        [message] = await take(a, 1)
        assert message.payload == b"x"


async def test_a_burst_is_one_message_and_then_full_batches(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await become_idle(a, b)
        before, _ = turns_of(a, b)
        for n in range(200):
            await a.send(b"%d" % n)
        assert [message.payload for message in await take(b, 200)] == [b"%d" % n for n in range(200)]
        after, _ = turns_of(a, b)
        assert after.immediate_turns == before.immediate_turns + 1
        assert after.turns - before.turns < STREAM_TURNS


async def test_a_stream_takes_as_few_turns_as_bursts(autojump_clock: MockClock) -> None:
    """The saturation guard: turns are counted, which no busy machine changes."""
    async with members("A", "B", "C") as channels:
        await become_idle(*channels)
        before = turns_of(*channels)
        count = 3_000

        async def talk(channel: Channel) -> None:
            for _ in range(count):
                await channel.send(bytes(1_000))

        async with trio.open_nursery() as nursery:
            for channel in channels:
                nursery.start_soon(talk, channel)
                nursery.start_soon(take, channel, 3 * count)
        pairs = list(zip(turns_of(*channels), before, strict=True))
        spent = sum(after.turns - earlier.turns for after, earlier in pairs)
        assert spent < 3 * (3 * count * 1_000 / (32 * 1024)), "three for each full batch, at all members together"
        assert sum(after.immediate_turns - earlier.immediate_turns for after, earlier in pairs) <= 6


@pytest.mark.parametrize("how", ["multicast", "unicast"])
async def test_an_error_of_a_turn_inside_send_is_raised_by_the_channel(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sent: list[bool] = []

    def broken(now: float) -> None:
        raise AssertionError("broken invariant")

    async def be_a_member() -> None:
        async with members("A") as (a,):
            await become_idle(a)
            monkeypatch.setattr(a._stack, "flush", broken)
            await a.send(b"x", target=a.address if how == "unicast" else None)
            sent.append(True)
            await a.send(b"after it, before the channel has noticed")
            sent.append(True)
            await trio.sleep_forever()

    with pytest.raises(AssertionError, match="broken invariant"):
        await be_a_member()
    assert sent == [True, True]


async def test_a_deadline_that_a_turn_inside_send_has_set_is_met(autojump_clock: MockClock) -> None:
    """The frame is lost, and its retransmission is due before every deadline that the sleeping driver knew."""
    network = MemoryNetwork()
    async with members("A", "B", network=network) as (a, b):
        await become_idle(a, b)
        network.allow = lambda source, to: False
        await a.send(b"x", target=b.address)
        network.allow = lambda source, to: True
        began = trio.current_time()
        [message] = await take(b, 1)
        assert message.payload == b"x"
        assert trio.current_time() - began <= 0.16, "the first repetition comes after 0.1 s and half of it as jitter"


async def test_a_sleep_lasts_for_many_turns_while_idle(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await become_idle(a, b)
        await trio.sleep(0.01)
        sleeps = set()
        before, _ = turns_of(a, b)
        for _ in range(5):
            await b.send(b"x", target=a.address)
            await trio.sleep(0.0005)
            sleeps.add(id(a._driver._nap))
        after, _ = turns_of(a, b)
        assert after.turns >= before.turns + 5
        assert len(sleeps) == 1


async def test_leaving_inside_send_s_turn_ends_the_channel(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        await become_idle(a)
        await a.send(b"x")
        with trio.fail_after(5):
            await a.leave()
