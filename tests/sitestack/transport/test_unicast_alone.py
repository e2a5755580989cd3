"""Reliable unicast over sockets, without membership: two processes that know of each other, and losses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio

from sitestack.channel.driver import Driver
from sitestack.config import TransportConfig
from sitestack.layers.resolver import Resolver, ResolverConfig
from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Event, SetPhysical
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport.udp import UdpTransport

LOOPBACK = TransportConfig(interface="127.0.0.1", multicast=False)
COUNT = 200


class Lossy(UdpTransport):
    """Loses each third datagram that it is to send."""

    number = 0

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        for each in datagrams:
            self.number += 1
            if self.number % 3:
                super().send([each])


class Talker:
    """Two layers, a socket, and the arrived messages; no view, no discovery, no group."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.local = Local("NYC", Address.make(rng), f"talker {seed}", rng)
        self.transport = Lossy(LOOPBACK, Physical("239.1.1.1", 9), watched=False)
        layers = [Unicast(self.local, UnicastConfig()), Resolver(self.local, replace(ResolverConfig(), multicast=False))]
        self.stack = Stack(self.local.address, layers, "NYC", 1_400)
        self.driver = Driver(self.stack, self.transport, None, lambda effects: None, self._take)
        self.heard: list[bytes] = []

    def _take(self, events: Sequence[Event | Frame]) -> None:
        for event in events:
            if isinstance(event, Frame) and event.batch is not None:
                self.heard += event.batch.payloads()

    def knows(self, other: Talker) -> None:
        self.stack.down(SetPhysical(other.local.address, other.transport.physical(), 1), trio.current_time())

    def say(self, to: Talker, n: int) -> None:
        body = pack_body([b"%d" % n])
        batch = Batch("NYC", self.local.address, Scope.UNICAST, n, 1, body, to.local.address, "NYC")
        self.stack.down(Frame(self.local.address, to.local.address, (), batch), trio.current_time())
        self.driver.wake()


@pytest.mark.conforms("U2-12")
async def test_two_transports_with_unicast_and_no_membership_deliver_reliably_and_in_order() -> None:
    a, b = Talker(1), Talker(2)
    try:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for talker, other in ((a, b), (b, a)):
                    talker.knows(other)
                    nursery.start_soon(talker.driver.run)
                for n in range(1, COUNT + 1):
                    a.say(b, n)
                    b.say(a, n)
                    await trio.lowlevel.checkpoint()
                while min(len(a.heard), len(b.heard)) < COUNT:  # noqa: ASYNC110 (the driver has no event for it)
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
    finally:
        a.transport.close()
        b.transport.close()
    assert a.heard == b.heard == [b"%d" % n for n in range(1, COUNT + 1)]
    assert Lossy.number == 0
    assert min(a.transport.number, b.transport.number) > 3, "something was lost on the way"
