"""Bridges over real TCP on the loopback interface, ordered about by a test instead of a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import trio

from relay.events import BridgeConnected, BridgeReceived, BridgeSend, BridgeWritten, Dial, Listen
from relay.gateway.wire import VERSION, Hello, encode
from relay.node.bridge.bridge import Bridge, BridgeConfig
from relay.node.bridge.credentials import Credentials
from relay.node.bridge.tls import TlsStream
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.view import ViewId
from tests.harness.addresses import address
from tests.harness.sockets import free_port, until

E = TypeVar("E", bound=Event)


#: A gateway's first message on every connection; without certificates no other message is accepted before it.
HELLO = encode(Hello(VERSION, "SFO", ViewId(1, address("A")), ViewId(1, address("A")), address("A"), "A", 1, 1, 1))


class Site:
    """A bridge and its events. `keys`: the directory of its certificates; None: it has none, and sends HELLO when it
    calls.

    The events leave HELLO out at both ends.
    """

    def __init__(self, config: BridgeConfig, nursery: trio.Nursery, keys: Path | None = None) -> None:
        self.told: list[Event] = []
        self._happened = trio.Event()
        self.credentials = None if keys is None else Credentials(keys, keys.name)
        self.bridge = Bridge(config, self._handle, self._handle, nursery, self.credentials)
        self.address = config.bind or Physical("127.0.0.1", 0)
        #: Connections without a received HELLO.
        self._greeting = set[int]()

    def _handle(self, event: Event) -> None:
        told = self._greet(event) if self.credentials is None else event
        if told is None:
            return
        self.told.append(told)
        self._happened.set()
        self._happened = trio.Event()

    def _greet(self, event: Event) -> Event | None:
        """The event without HELLO."""
        match event:
            case BridgeConnected(number, dialed):
                self._greeting.add(number)
                if dialed is not None:
                    self.bridge.carry_out(BridgeSend(number, HELLO))
            case BridgeWritten(number) if number in self._greeting:
                self._greeting.remove(number)
                return None
            case BridgeReceived(number, data) if number in self._greeting and data.startswith(HELLO):
                self._greeting.remove(number)
                return BridgeReceived(number, data.removeprefix(HELLO)) if data != HELLO else None
        return event

    async def hears(self, kind: type[E]) -> E:
        """The oldest event of this kind that was not asked for yet."""
        while True:
            for event in self.told:
                if isinstance(event, kind):
                    self.told.remove(event)
                    return event
            await self._happened.wait()

    async def receives(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (await self.hears(BridgeReceived)).data
        return data

    async def listens(self) -> None:
        self.bridge.carry_out(Listen())
        await until(lambda: self.bridge.statistics().listening)

    def transport(self, number: int) -> trio.SocketStream:
        """The TCP stream of a connection."""
        stream = self.bridge._connections[number].stream
        return stream._transport if isinstance(stream, TlsStream) else stream


def at_port(config: BridgeConfig | None = None) -> BridgeConfig:
    """The same at a free port."""
    return replace(config or BridgeConfig(), bind=Physical("127.0.0.1", free_port()))


@asynccontextmanager
async def two_sites(config: BridgeConfig | None = None, keys: Path | None = None) -> AsyncIterator[tuple[Site, Site]]:
    """NYC and SFO with this configuration. `keys`: the key directory of both."""
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            sites = [None if keys is None else keys / name for name in ("NYC", "SFO")]
            yield Site(at_port(config), nursery, sites[0]), Site(at_port(config), nursery, sites[1])
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def linked(config: BridgeConfig | None = None, keys: Path | None = None) -> AsyncIterator[tuple[Site, int, Site, int]]:
    """The same, and SFO has called NYC: the two sites, each with the number of its connection."""
    async with two_sites(config, keys) as (nyc, sfo):
        await nyc.listens()
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        dialed, accepted = await sfo.hears(BridgeConnected), await nyc.hears(BridgeConnected)
        assert (dialed.dialed, accepted.dialed) == (("NYC", nyc.address), None)
        yield nyc, accepted.connection, sfo, dialed.connection
