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
from tests.harness.channels import take
from tests.relay.node.test_relay_channel import World, sees


@pytest.mark.conforms("LA-24")
async def test_sites_sharing_one_transport_receive_each_message_once_over_the_bridge() -> None:
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


@pytest.mark.conforms("REL-35")
async def test_groups_that_members_start_in_different_orders_are_each_relayed_by_the_member_that_started_it() -> None:
    orders = World({"orders": ("A", "B"), "orders-sfo": ("D",)})
    prices = World({"prices": ("A", "B"), "prices-sfo": ("E",)})
    transport = TransportConfig(interface="127.0.0.1")

    def config(world: World, site: str, name: str) -> NodeConfig:
        return replace(world.config(site, name), transport=transport)

    with trio.fail_after(60):
        async with (
            open_transport(config(orders, "orders", "A")) as first,
            open_transport(config(orders, "orders", "B")) as second,
            orders.member("orders-sfo", "D") as d,
            prices.member("prices-sfo", "E") as e,
            open_channel(config(orders, "orders", "A"), transport=first) as orders_a,
            open_channel(config(prices, "prices", "B"), transport=second) as prices_b,
            open_channel(config(prices, "prices", "A"), transport=first) as prices_a,
            open_channel(config(orders, "orders", "B"), transport=second) as orders_b,
        ):
            for channel in (orders_a, orders_b):
                await sees(channel, "A", "B", "D")
            for channel in (prices_a, prices_b):
                await sees(channel, "A", "B", "E")
            assert orders_b.view is not None
            assert prices_a.view is not None
            assert (orders_b.view.names, prices_a.view.names) == (("A", "B"), ("B", "A")), "the oldest member comes first"
            assert orders_a.role is not None
            assert prices_b.role is not None
            assert (orders_a.role.sites, prices_b.role.sites) == (("orders-sfo",), ("prices-sfo",))
            assert (orders_b.role, prices_a.role) == (None, None)
            for n in range(20):
                await orders_b.send(b"order %d" % n)
                await prices_a.send(b"price %d" % n)
            assert [message.payload for message in await take(d, 20)] == [b"order %d" % n for n in range(20)]
            assert [message.payload for message in await take(e, 20)] == [b"price %d" % n for n in range(20)]
