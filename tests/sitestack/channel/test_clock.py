"""The stack's clock counts the time of a suspended machine, as the clocks of its peers do."""

from __future__ import annotations

import time

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel import clock
from sitestack.channel.clock import STEP_S, StackClock
from sitestack.layers.unicast import UnicastStatistics
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import members, take


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
