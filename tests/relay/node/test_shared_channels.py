"""Members of two linked sites in one process, over one pair of sockets: they hear each other by the bridge alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from relay.node.channel import open_channel
from relay.node.config.settings import NodeConfig
from sitestack.channel.open import open_transport
from sitestack.config import TransportConfig
from sitestack.model.address import ProxyUUID
from tests.relay.node.test_relay_channel import World, sees, take


@pytest.mark.conforms("LA-24")
async def test_two_linked_sites_over_one_transport_hear_each_other_across_the_bridge_and_once() -> None:
    world, transport = World(), TransportConfig(interface="127.0.0.1")

    def config(site: str, name: str) -> NodeConfig:
        return replace(world.config(site, name), transport=transport)

    with trio.fail_after(60):
        async with open_transport(config("NYC", "A")) as shared:
            async with (
                open_channel(config("NYC", "A"), transport=shared) as a,
                open_channel(config("SFO", "D"), transport=shared) as d,
            ):
                await sees(a, "A", "D")
                await sees(d, "A", "D")
                for n in range(20):
                    await a.send(b"%d" % n)
                heard = await take(d, 20)
                assert [message.payload for message in heard] == [b"%d" % n for n in range(20)]
                assert {message.source for message in heard} == {ProxyUUID(a.address, "NYC")}
                assert shared.clusters == ("NYC", "SFO")
            assert not shared.clusters
