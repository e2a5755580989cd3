"""A chain of three sites as an application sees it: real TCP between neighbours, and none between the ends."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
import trio

from relay.node.bridge.bridge import BridgeConfig
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings
from sitestack.model.address import Physical, ProxyUUID
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take
from tests.harness.sockets import free_ports
from tests.relay.node.test_relay_channel import QUICK, sees


def chain() -> dict[str, NodeConfig]:
    """NYC - LON - SFO, a member each."""
    places = {site: Physical("127.0.0.1", port) for site, port in zip(("NYC", "LON", "SFO"), free_ports(3), strict=True)}
    neighbours = {"NYC": ("LON",), "LON": ("NYC", "SFO"), "SFO": ("LON",)}
    via = {"NYC": {"SFO": "LON"}, "SFO": {"NYC": "LON"}, "LON": {}}
    configs = {}
    for site, place in places.items():
        peers: dict[str, tuple[Physical, ...]] = {each: (places[each],) for each in neighbours[site]}
        forward = ("NYC", "SFO") if site == "LON" else ()
        bridge = BridgeConfig(bind=place, peers=peers, via=via[site], forward=forward)
        configs[site] = replace(QUICK, site=site, name=site[0], relay=RelaySettings(bridge=bridge, dial_s=0.05, dial_s_max=0.2))
    return configs


def member(config: NodeConfig) -> AbstractAsyncContextManager[RelayChannel]:
    return open_channel(config, transport=MemoryNetwork().open())


@pytest.mark.conforms("REL-33")
async def test_multicasts_and_unicasts_reach_the_other_end() -> None:
    configs = chain()
    with trio.fail_after(30):
        async with member(configs["NYC"]) as nyc, member(configs["LON"]) as lon, member(configs["SFO"]) as sfo:
            for channel in (nyc, lon, sfo):
                await sees(channel, "N", "L", "S")
            await nyc.send(b"from one end")
            large = b"x" * 3_000_000
            await sfo.send(large)
            assert sorted([message.payload for message in await take(lon, 2)]) == [b"from one end", large]
            assert sorted([message.payload for message in await take(nyc, 2)]) == [b"from one end", large]
            await nyc.send(b"to you", target=ProxyUUID(sfo.address, "SFO"))
            assert sorted([message.payload for message in await take(sfo, 3)]) == [b"from one end", b"to you", large]
