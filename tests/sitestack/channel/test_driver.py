"""When a turn runs: inside `send` on an idle channel, at each datagram while idle, and for all that is there amid a stream."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from sitestack.assembly import build_stack
from sitestack.channel.channel import Channel
from sitestack.channel.driver import STREAM_TURNS, TURN_S_MAX, Driver, DriverStatistics
from sitestack.config import lan
from sitestack.layers.unicast import UnicastStatistics
from sitestack.layers.unicast.headers import SendFirst
from sitestack.model.address import Address, Physical
from sitestack.model.events import Connect
from sitestack.model.frame import Frame
from sitestack.stack.layer import Local
from sitestack.stack.stack import Datagram
from sitestack.transport import clock
from sitestack.transport.clock import STEP_S, StackClock
from sitestack.transport.memory import MemoryNetwork, MemoryTransport
from sitestack.wire.codec import FRAMES_MAX
from tests.harness.channels import members, take


def turns_of(*channels: Channel) -> list[DriverStatistics]:
    return [channel.statistics().driver for channel in channels]


async def become_idle(*channels: Channel) -> None:
    """Wait until what joining has brought is over, and no turn counts as part of a stream any more."""
    while any(channel._driver._streaming for channel in channels):  # noqa: ASYNC110 (it changes with the heartbeats)
        await trio.sleep(0.05)
    await trio.sleep(0.001)


async def test_send_on_an_idle_channel_transmits_before_it_returns(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        for sender, target in ((a, None), (b, None), (c, a.address)):
            await become_idle(a, b, c)
            before = turns_of(a, b, c)
            with trio.testing.assert_no_checkpoints():
                await sender.send(b"x", target=target)
            after = turns_of(a, b, c)
            assert sum(each.sent_datagrams for each in after) > sum(each.sent_datagrams for each in before)
            assert sum(each.immediate_turns for each in after) == sum(each.immediate_turns for each in before) + 1


async def test_a_message_delivered_within_send_waits_in_the_inbox(autojump_clock: MockClock) -> None:
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


async def test_the_number_of_turns_of_a_stream_is_bounded_by_its_full_batches(autojump_clock: MockClock) -> None:
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


@pytest.mark.parametrize("how", ["multicast", "unicast", "amid a stream"])
async def test_an_error_of_a_turn_inside_send_or_after_it_ends_the_block(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sent: list[bool] = []

    def broken(now: float) -> None:
        raise AssertionError("broken invariant")

    async def be_a_member() -> None:
        async with members("A") as (a,):
            if how != "amid a stream":
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


class Machine:
    """A machine that is suspended by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept_s = 1_000.0
        monkeypatch.setattr(clock, "suspended_s", lambda: self.slept_s)


async def test_a_suspension_is_added_and_noise_is_not(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    stack_clock = StackClock()
    assert stack_clock.now() == trio.current_time()
    for noise in (0.5, -0.5, STEP_S, -300.0):
        machine.slept_s = 1_000.0 + noise
        assert stack_clock.now() == trio.current_time()
    machine.slept_s = 1_250.0
    assert stack_clock.now() == trio.current_time() + 250.0
    machine.slept_s = 1_249.0
    assert stack_clock.now() == trio.current_time() + 250.0, "it never goes back"
    assert stack_clock.to_trio(stack_clock.now()) == trio.current_time()


def test_this_machine_tells_how_long_it_was_suspended() -> None:
    began = time.monotonic()
    assert 0.0 <= clock.suspended_s() - clock.suspended_s() + STEP_S <= 2 * STEP_S
    assert time.monotonic() - began < STEP_S * 100


async def test_after_a_suspension_an_old_unicast_is_given_up_and_not_sent_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer has forgotten its sender after `tombstone_s`, and would deliver it a second time."""
    machine, network = Machine(monkeypatch), MemoryNetwork()
    async with members("A", "B", network=network) as (a, b):
        there = b.transport.physical()[0]
        network.allow = lambda source, to: source != there
        await a.send(b"x", target=b.address)
        await trio.sleep(0.05)
        machine.slept_s += 250.0
        network.allow = lambda source, to: True
        await trio.sleep(30)
        received: list[bytes] = []
        with trio.move_on_after(1):
            while True:
                received += [message.payload for message in await take(b, 1)]
        assert received == [b"x"]
        unicast = a.statistics().stack["unicast"]
        assert isinstance(unicast, UnicastStatistics)
        assert unicast.given_up_frames >= 1


#: Datagrams that two sockets hand over at a time.
AT_A_TIME = 512
WATCHED_S = 2.0


class Flooded(MemoryTransport):
    """A transport with more datagrams than a member can read."""

    datagram: tuple[bytes, Physical]

    def __init__(self) -> None:
        super().__init__(MemoryNetwork(), Physical("memory", 1))
        self.sent_at: list[float] = []

    def receive(self) -> list[tuple[bytes, Physical]]:
        return [self.datagram] * AT_A_TIME

    def send(self, datagrams: Sequence[Datagram]) -> None:
        self.sent_at.append(trio.current_time())


@pytest.mark.long
async def test_heartbeats_are_sent_during_a_flood_of_datagrams() -> None:
    rng = random.Random(1)
    local, stranger = Local("NYC", Address.make(rng), "A", rng), Address.make(rng)
    stack, transport = build_stack(local, lan("NYC")), Flooded()
    frame = stack.codec.encode_frame(Frame(stranger, local.address, (SendFirst(1 << 60),) * 3, None, True))
    data = stack.codec.encode_datagram(stranger, local.address, [frame] * FRAMES_MAX)
    transport.datagram = data, Physical("10.9.9.9", 9)
    driver = Driver(stack, transport, None, lambda effects: None, lambda events: None)
    stack.down(Connect(transport.physical()), trio.current_time())
    began = trio.current_time()
    turns = [began]
    while turns[-1] < began + WATCHED_S:
        driver.turn(trio.current_time())
        turns.append(trio.current_time())
    assert max(after - before for before, after in pairwise(turns)) < 20 * TURN_S_MAX
    assert stack.drops.keys() == {"unicast_stale_send_first"}
    assert max(after - before for before, after in pairwise([began, *transport.sent_at])) < WATCHED_S / 2


async def test_a_wakeup_without_work_costs_no_turn() -> None:
    rng = random.Random(1)
    local = Local("NYC", Address.make(rng), "A", rng)
    stack, transport = build_stack(local, lan("NYC")), MemoryNetwork(lambda source, to: False).open()
    driver = Driver(stack, transport, None, lambda effects: None, lambda events: None)
    stack.down(Connect(transport.physical()), trio.current_time())
    driver.turn(trio.current_time())
    before = driver.statistics().turns
    driver.turn(trio.current_time())
    assert driver.statistics().turns == before
    driver.wake()
    driver.turn(trio.current_time())
    assert driver.statistics().turns == before + 1
    driver.turn(trio.current_time() + 60.0)  # something is due by then
    assert driver.statistics().turns == before + 2
