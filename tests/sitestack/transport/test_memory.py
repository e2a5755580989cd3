"""The network inside one process."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sitestack.model.address import Physical
from sitestack.transport.memory import QUEUED_DATAGRAMS_MAX, MemoryNetwork


async def test_a_multicast_reaches_all_and_a_unicast_its_target_only() -> None:
    network = MemoryNetwork()
    a, b, c = network.open(), network.open(), network.open()
    a.send([(None, b"all"), (b.address, b"b")])
    await b.wait()
    assert b.receive() == [(b"all", a.address), (b"b", a.address)]
    assert c.receive() == a.receive() == [(b"all", a.address)]


async def test_wait_returns_only_when_something_is_there(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    a, b = network.open(), network.open()
    with trio.move_on_after(5) as waited:
        await b.wait()
    assert waited.cancelled_caught
    a.send([(b.address, b"x")])
    await b.wait()
    b.receive()
    with trio.move_on_after(5) as waited:
        await b.wait()
    assert waited.cancelled_caught


def test_the_network_loses_what_it_is_told_to_lose_and_what_is_for_nobody() -> None:
    cut: set[Physical] = set()
    network = MemoryNetwork(lambda source, to: not {source, to} & cut)
    a, b = network.open(), network.open()
    cut.add(b.address)
    a.send([(b.address, b"lost")])
    cut.clear()
    a.send([(b.address, b"kept")])
    assert b.receive() == [(b"kept", a.address)]
    b.close()
    a.send([(b.address, b"nobody"), (None, b"all")])
    assert b.receive() == []


def test_a_reader_that_does_not_read_loses_datagrams() -> None:
    network = MemoryNetwork()
    a, b = network.open(), network.open()
    a.send([(b.address, b"x")] * (QUEUED_DATAGRAMS_MAX + 3))
    assert b.statistics().overrun_datagrams == 3
    assert len(b.receive()) == QUEUED_DATAGRAMS_MAX
