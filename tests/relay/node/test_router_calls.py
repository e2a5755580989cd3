"""Sites whose relays can only call, and meet at gossip routers: real sockets on the loopback interface, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay.keys.directory import read_key_ring
from relay.node.bridge import BridgeConfig
from relay.node.channel import RelayChannel, open_channel
from relay.node.settings import NodeConfig, RelaySettings, SecuritySettings
from sitestack.seal.proofs import Proofs
from sitestack.transport.memory import MemoryNetwork
from tests.relay.node.test_relay_channel import QUICK, sees, take
from tests.relay.router.routers import ANY_PORT, Served

LIMIT_S = 45


@asynccontextmanager
async def routers(count: int, keys: Path | None) -> AsyncIterator[list[Served]]:
    """Routers that serve both sites."""
    sites = {site: None if keys is None else Proofs(site, read_key_ring(keys / site)) for site in ("NYC", "SFO")}
    async with trio.open_nursery() as nursery:
        yield [Served(ANY_PORT, sites, nursery) for _ in range(count)]
        nursery.cancel_scope.cancel()


def config(site: str, name: str, places: list[Served], keys: Path | None) -> NodeConfig:
    """A member that nobody can call: it has no port for the bridge."""
    [other] = {"NYC", "SFO"} - {site}
    at = tuple([each.place for each in places])
    relay = RelaySettings(bridge=BridgeConfig(peers={other: at}, routers=at), dial_s=0.05, dial_s_max=0.2)
    security = SecuritySettings(insecure=True) if keys is None else SecuritySettings(keys=str(keys / site))
    return replace(QUICK, site=site, name=name, relay=relay, security=security)


@asynccontextmanager
async def two_sites(count: int, keys: Path | None) -> AsyncIterator[tuple[list[Served], list[RelayChannel]]]:
    """A and B in NYC, D and E in SFO, with so many routers; everybody sees everybody."""
    with trio.fail_after(LIMIT_S):
        async with routers(count, keys) as places, AsyncExitStack() as stack:
            channels = []
            for site, names in {"NYC": "AB", "SFO": "DE"}.items():
                network = MemoryNetwork()
                for name in names:
                    member = open_channel(config(site, name, places, keys), transport=network.open())
                    channels.append(await stack.enter_async_context(member))
            for channel in channels:
                await sees(channel, "A", "B", "D", "E")
            yield places, channels


async def send_and_take(channels: list[RelayChannel], word: bytes, count: int = 20) -> None:
    """Each sends; each takes all."""
    for n in range(count):
        for channel in channels:
            await channel.send(b"%s %s %d" % (channel.name.encode(), word, n))
    for channel in channels:
        taken = [message.payload for message in await take(channel, count * len(channels))]
        for sender in channels:
            own = [payload for payload in taken if payload.startswith(sender.name.encode())]
            assert own == [b"%s %s %d" % (sender.name.encode(), word, n) for n in range(count)]


async def test_messages_cross_though_neither_site_can_be_called(keys: Path | None) -> None:
    async with two_sites(1, keys) as (places, channels):
        await send_and_take(channels, b"first")
        large = b"x" * 1_000_000
        await channels[0].send(large)
        for channel in channels:
            assert [message.payload for message in await take(channel, 1)] == [large]
        [spliced] = places[0].server.router.switchboard.splices()
        assert spliced.carried_bytes > len(large)
        assert {spliced.called_site, spliced.calling_site} == {"NYC", "SFO"}
        bridge = channels[0].statistics().bridge
        assert (bridge.listening, bridge.routers_waiting) == (False, 1)
