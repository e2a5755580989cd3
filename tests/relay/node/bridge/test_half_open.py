"""A bridge whose connections hang: nothing is closed and nothing arrives, as when a firewall has forgotten them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest
import trio

from relay.gateway.config import LinkConfig
from relay.node.bridge.bridge import BridgeConfig
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import Physical
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.harness.sockets import free_port

TIMEOUT_S = 0.6
LINK = LinkConfig(heartbeat_s=0.1, timeout_s=TIMEOUT_S)
QUICK = NodeConfig(discovery=DiscoveryConfig(join_wait_s=0.1, request_interval_s=0.05, settle_s=0.02))


class Firewall:
    """Stands before a relay and hands bytes on, until it forgets all connections that it has; it knows those made later."""

    def __init__(self, behind: Physical) -> None:
        self.place = Physical("127.0.0.1", free_port())
        self.connections = 0
        self._behind = behind
        #: Connections up to this number are forgotten.
        self._forgotten = 0

    async def serve(self) -> None:
        await trio.serve_tcp(self._pass, self.place.port, host=self.place.host)

    def forget(self) -> None:
        """From now on nothing of the present connections is handed on, not even their end."""
        self._forgotten = self.connections

    async def _pass(self, near: trio.SocketStream) -> None:
        self.connections += 1
        number = self.connections
        with suppress(OSError):
            far = await trio.open_tcp_stream(*self._behind)
            async with near, far, trio.open_nursery() as nursery:
                for source, target in ((near, far), (far, near)):
                    nursery.start_soon(self._copy, number, source, target, nursery.cancel_scope)

    async def _copy(self, number: int, source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError):
            async for data in source:
                if number > self._forgotten:
                    await target.send_all(data)
        if number <= self._forgotten:
            await trio.sleep_forever()
        both.cancel()


@asynccontextmanager
async def two_sites() -> AsyncIterator[tuple[RelayChannel, RelayChannel, list[Firewall]]]:
    """A alone in NYC and D alone in SFO, with a firewall before each."""
    binds = {site: Physical("127.0.0.1", free_port()) for site in ("NYC", "SFO")}
    walls = {site: Firewall(bind) for site, bind in binds.items()}
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            for wall in walls.values():
                nursery.start_soon(wall.serve)
            channels = []
            for site, name, other in (("NYC", "A", "SFO"), ("SFO", "D", "NYC")):
                bridge = BridgeConfig(bind=binds[site], peers={other: (walls[other].place,)})
                relay = RelaySettings(bridge=bridge, link=LINK, dial_s=0.05, dial_s_max=0.2)
                config = replace(QUICK, site=site, name=name, relay=relay)
                channels.append(
                    await stack.enter_async_context(open_channel(config, transport=MemoryNetwork().open(), insecure=True))
                )
            yield channels[0], channels[1], list(walls.values())
            nursery.cancel_scope.cancel()


async def take(channel: RelayChannel, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async for event in channel:
        if isinstance(event, Message):
            taken.append(event.payload)
            if len(taken) == count:
                break
    return taken


def numbered(site: str) -> list[bytes]:
    return [b"%s %d" % (site.encode(), n) for n in range(1, 20)]


@pytest.mark.long
@pytest.mark.conforms("USR-2")
async def test_a_bridge_whose_connections_are_forgotten_on_the_way_is_made_again_and_nothing_is_lost() -> None:
    async with two_sites() as (a, d, walls):
        while a.role is None or d.role is None or not (a.role.sites and d.role.sites):  # noqa: ASYNC110 (no event)
            await trio.sleep(0.01)
        await trio.sleep(TIMEOUT_S)
        before = [wall.connections for wall in walls]
        await trio.sleep(2 * TIMEOUT_S)
        assert [wall.connections for wall in walls] == before, "an idle link is kept by its heartbeats"
        for wall in walls:
            wall.forget()
        for one, other in zip(numbered("NYC"), numbered("SFO"), strict=True):
            await a.send(one)
            await d.send(other)
        for channel in (a, d):
            taken = await take(channel, 38)
            for site in ("NYC", "SFO"):
                assert [text for text in taken if text.startswith(site.encode())] == numbered(site)
        assert sum(wall.connections for wall in walls) > sum(before)
