"""Splits as the examples document them: in one process, with a network in memory that can be cut, and a mock clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import sitestack
from examples.replicated_counter import Counter, take_part
from sitestack import MemoryNetwork, Physical


class Net:
    """A network that can be cut between members, by the order in which they opened their transports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.network = MemoryNetwork(self._allow)
        self.apart: set[int] = set()
        genuine: Callable[..., AbstractAsyncContextManager[sitestack.Channel]] = sitestack.open_channel

        def open_channel(*arguments: Any, **options: Any) -> AbstractAsyncContextManager[sitestack.Channel]:
            return genuine(*arguments, transport=self.network.open(), **options)

        monkeypatch.setattr(sitestack, "open_channel", open_channel)

    def _allow(self, source: Physical, to: Physical) -> bool:
        return (source.port in self.apart) == (to.port in self.apart)


async def test_after_a_split_the_smaller_part_adopts_the_value_of_the_larger(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(monkeypatch)
    counters = {name: Counter() for name in "ABCD"}
    ends: dict[str, trio.MemorySendChannel[int]] = {}

    async def part(name: str, numbers: trio.MemoryReceiveChannel[int]) -> None:
        while await take_part(counters[name], "NYC", name, numbers):
            pass

    async def until(*values: int) -> None:
        while tuple(counter.value for counter in counters.values()) != values:  # noqa: ASYNC110 (they are in other tasks)
            await trio.sleep(0.1)

    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            for name in counters:
                ends[name], numbers = trio.open_memory_channel[int](0)
                nursery.start_soon(part, name, numbers)
                await trio.sleep(3)
            await ends["A"].send(1)
            await until(1, 1, 1, 1)
            net.apart = {4}
            await trio.sleep(30)
            await ends["B"].send(10)
            await ends["D"].send(100)
            await until(11, 11, 11, 101)
            net.apart = set()
            await until(11, 11, 11, 11)
            await ends["D"].send(1_000)
            await until(1_011, 1_011, 1_011, 1_011)
            for end in ends.values():
                end.close()
    assert "1011 by D" in capsys.readouterr().out
