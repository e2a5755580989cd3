"""Channels of several clusters over one pair of sockets of the loopback interface, with keys and without, over UDP and TCP."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel, open_transport
from sitestack.config import SiteConfig, local
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed, ConfigurationError
from sitestack.model.message import Message
from sitestack.seal.key_ring import KeyRing
from sitestack.transport.shared import CHANNELS_MAX, SharedTransport
from sitestack.transport.shared_part import PartStatistics
from sitestack.transport.tcp import TcpStatistics
from tests.harness.channels import take, wait_for_view
from tests.harness.sockets import free_ports, until

#: As in the other tests over real sockets: with less, a slow machine makes two sites out of members that start together.
JOIN_WAIT_S = 0.3
CLUSTERS = ("one", "two", "three")
MESSAGES = 300


def config(kind: str = "udp", port: int = 0, hosts: tuple[Physical, ...] = ()) -> SiteConfig:
    """The settings of one process: its sockets, and how it finds the others."""
    run = f"{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}"
    site = local(f"shared-{run}")
    discovery = replace(site.discovery, join_wait_s=JOIN_WAIT_S, initial_hosts=hosts)
    assert kind in ("udp", "tcp")
    transport = replace(site.transport, kind="tcp" if kind == "tcp" else "udp", port=port)
    return replace(site, discovery=discovery, transport=transport)


def configs(kind: str, count: int = 2) -> list[SiteConfig]:
    """Of several processes of one run."""
    ports = free_ports(count) if kind == "tcp" else [0] * count
    hosts = tuple([Physical("127.0.0.1", port) for port in ports]) if kind == "tcp" else ()
    first = config(kind, ports[0], hosts)
    return [replace(first, transport=replace(first.transport, port=port)) for port in ports]


def keys_of(cluster: str) -> KeyRing:
    """Each cluster has keys of its own."""
    return KeyRing.of(cluster.encode().ljust(32))


@dataclass
class Process:
    """One process as far as its transport goes."""

    config: SiteConfig
    transport: SharedTransport
    sealed: bool

    @asynccontextmanager
    async def channel(self, cluster: str, name: str) -> AsyncIterator[Channel]:
        site = replace(self.config, site=f"{self.config.site}-{cluster}")
        keys = keys_of(cluster) if self.sealed else None
        async with open_channel(site, name=name, keys=keys, transport=self.transport) as channel:
            yield channel


@asynccontextmanager
async def processes(kind: str, sealed: bool, count: int = 2) -> AsyncIterator[list[Process]]:
    async with AsyncExitStack() as stack:
        opened = []
        for each in configs(kind, count):
            opened.append(Process(each, await stack.enter_async_context(open_transport(each)), sealed))
        with trio.fail_after(60):
            yield opened


async def converse(sender: Channel, receiver: Channel, count: int = MESSAGES) -> None:
    """The one sends, the other hears each in its place; the sender takes its own."""

    async def send() -> None:
        for n in range(count):
            await sender.send(b"%d" % n)

    async def hear(channel: Channel) -> None:
        heard = [message.payload for message in await take(channel, count)]
        assert heard == [b"%d" % n for n in range(count)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(hear, sender)
        nursery.start_soon(hear, receiver)


@asynccontextmanager
async def pairs(p: Process, q: Process) -> AsyncIterator[Mapping[str, tuple[Channel, Channel]]]:
    """Each cluster has a member in each of the two processes."""
    async with AsyncExitStack() as stack:
        opened = {}
        for cluster in CLUSTERS:
            a = await stack.enter_async_context(p.channel(cluster, f"A-{cluster}"))
            b = await stack.enter_async_context(q.channel(cluster, f"B-{cluster}"))
            opened[cluster] = (a, b)
        for a, b in opened.values():
            await wait_for_view(a, 2)
            await wait_for_view(b, 2)
        yield opened


@pytest.mark.conforms("LA-24")
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "insecure"])
@pytest.mark.parametrize("kind", ["udp", "tcp"])
async def test_three_clusters_share_two_pairs_of_sockets_and_closing_one_leaves_the_others(kind: str, sealed: bool) -> None:
    async with processes(kind, sealed) as [p, q], pairs(p, q) as channels:
        uuids = {channel.address for pair in channels.values() for channel in pair}
        places = {channel.transport.physical() for pair in channels.values() for channel in pair}
        assert (len(uuids), len(places)) == (6, 2)
        async with p.channel("brief", "A-brief") as brief, trio.open_nursery() as nursery:
            for a, b in channels.values():
                nursery.start_soon(converse, a, b)
            async with q.channel("brief", "B-brief") as other:
                await wait_for_view(brief, 2)
                await converse(brief, other, 20)
            await wait_for_view(brief, 1)
        assert not any(cluster.endswith("brief") for cluster in (*p.transport.clusters, *q.transport.clusters))
        for a, b in channels.values():
            assert len(a.view.members) == 2, "nobody was taken for gone"
            await converse(b, a, 20)
