"""Sites whose members find each other at gossip routers, or talk through them: real sockets, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.seal.key_ring import KeyRing
from tests.harness.channels import take, wait_for_view
from tests.relay.router.routers import RING, Served, router, site

LIMIT_S = 45
TUNNEL = TransportConfig(kind="tunnel")


@asynccontextmanager
async def three(config: SiteConfig, keys: KeyRing | None) -> AsyncIterator[list[Channel]]:
    """A, B and C in one view."""
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(open_channel(config, name=name, keys=keys)) for name in "ABC"]
        for channel in channels:
            await wait_for_view(channel, 3)
        yield channels


async def send_and_take(channels: list[Channel], first: int, count: int) -> None:
    """Let all members send; all deliver the same in one order."""
    for n in range(first, first + count):
        for channel in channels:
            await channel.send(b"%s %d" % (channel.name.encode(), n))
    taken = [[message.payload for message in await take(channel, count * len(channels))] for channel in channels]
    assert taken[0] == taken[1] == taken[2]
    assert len(set(taken[0])) == count * len(channels)


@asynccontextmanager
async def two_routers(transport: TransportConfig, ring: KeyRing | None) -> AsyncIterator[tuple[Served, Served, list[Channel]]]:
    """Three members with two routers."""
    async with router(ring=ring) as first, router(ring=ring) as second:
        with trio.fail_after(LIMIT_S):
            async with three(site(transport, first.place, second.place), ring) as channels:
                yield first, second, channels


@pytest.mark.conforms("LA-14", "LA-16")
@pytest.mark.parametrize("transport", [TransportConfig(), TransportConfig(kind="tcp")], ids=["udp", "tcp"])
@pytest.mark.parametrize("ring", [None, RING], ids=["insecure", "keys"])
async def test_members_that_know_only_the_routers_form_a_site(transport: TransportConfig, ring: KeyRing | None) -> None:
    async with two_routers(transport, ring) as (first, _, channels):
        a, b, c = channels
        known = [each.entry for each in first.server.router.registry.others("NYC", a.address)]
        assert [(entry.address, entry.name) for entry in known] == [(b.address, "B"), (c.address, "C")]
        assert [entry.physical for entry in known] == [b.transport.physical(), c.transport.physical()]
        assert first.server.router.casts == first.server.router.sends == 0
        first.kill()
        await send_and_take(channels, 0, 100)


@pytest.mark.conforms("LA-15")
@pytest.mark.parametrize("ring", [None, RING], ids=["insecure", "keys"])
async def test_in_a_tunnel_all_goes_through_the_routers_and_the_loss_of_one_loses_nothing(ring: KeyRing | None) -> None:
    async with two_routers(TUNNEL, ring) as (first, second, channels):
        await send_and_take(channels, 0, 100)
        assert first.server.router.casts > 0
        assert first.server.router.sends > 0
        view = channels[0].view
        first.kill()
        await send_and_take(channels, 100, 100)
        assert channels[0].view == view
        assert second.server.router.casts > 0


@pytest.mark.long
async def test_without_a_router_for_longer_than_a_member_may_be_silent_the_view_stays() -> None:
    detection = FailureDetectionConfig(heartbeat_interval_s=0.25, timeout_s=1.0, verify_timeout_s=0.5)
    async with router(ring=RING) as only:
        config = site(TUNNEL, only.place)
        config = replace(config, protocols=replace(config.protocols, failure_detection=detection))
        with trio.fail_after(LIMIT_S):
            async with three(config, RING) as channels:
                view = channels[0].view
                only.kill()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send_and_take, channels, 0, 50)
                    await trio.sleep(2 * (detection.timeout_s + detection.verify_timeout_s))
                    await only.start_again()
                assert [channel.view for channel in channels] == [view] * 3


@pytest.mark.conforms("LA-15", "LA-16")
async def test_the_only_router_is_started_again_and_nothing_is_lost() -> None:
    with trio.fail_after(LIMIT_S):
        async with router(ring=RING) as only, three(site(TUNNEL, only.place), RING) as channels:
            view = channels[0].view
            await send_and_take(channels, 0, 50)
            async with trio.open_nursery() as nursery:
                only.kill()
                nursery.start_soon(send_and_take, channels, 50, 50)
                await trio.sleep(0.3)
                await only.start_again()
            assert only.server.router.registered >= 3
            assert channels[0].view == view


@pytest.mark.parametrize("transport", [TransportConfig(kind="tcp"), TUNNEL], ids=["tcp", "tunnel"])
async def test_a_member_lost_by_the_routers_is_excluded_before_the_heartbeat_timeout(
    transport: TransportConfig,
) -> None:
    detection = FailureDetectionConfig(heartbeat_interval_s=0.25, timeout_s=60.0, verify_timeout_s=0.5)
    async with router(ring=RING) as only:
        config = site(transport, only.place)
        leader = replace(config.membership.leader, flush_timeout_s=2 * detection.timeout_s)
        membership = replace(config.membership, leader=leader)
        config = replace(config, protocols=replace(config.protocols, failure_detection=detection), membership=membership)
        with trio.fail_after(detection.timeout_s / 3):
            async with open_channel(config, name="A", keys=RING) as a, trio.open_nursery() as nursery:
                life = trio.CancelScope()

                async def live() -> None:
                    with life:
                        async with open_channel(config, name="B", keys=RING):
                            await trio.sleep_forever()

                nursery.start_soon(live)
                await wait_for_view(a, 2)
                life.cancel()  # as a kill: it sends nothing
                await wait_for_view(a, 1)
