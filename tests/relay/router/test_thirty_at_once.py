"""Thirty members that start at once join one view, by each way of discovery, over loopback sockets.

They share one process and one processor. `tests/simulation/test_thirty_at_once.py` bounds their virtual time.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pytest
import trio

from relay.router.server import RouterServer
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, local
from sitestack.model.address import Physical
from tests.harness.sockets import free_port, free_ports

pytestmark = pytest.mark.long

COUNT = 30
#: From the moment at which the last one runs.
WITHIN_S = 10.0
#: As long as a busy machine may make of that.
PATIENCE_S = 6 * WITHIN_S

#: The configuration of a member, by its number.
Configs = Callable[[int], SiteConfig]


def plain() -> SiteConfig:
    site = local(f"thirty-{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}")
    return replace(site, transport=replace(site.transport, multicast=False))


@asynccontextmanager
async def by_multicast() -> AsyncIterator[Configs]:
    site = plain()
    yield lambda number: replace(site, transport=replace(site.transport, multicast=True))


@asynccontextmanager
async def by_hosts() -> AsyncIterator[Configs]:
    """Three of them are named."""
    site, ports = plain(), [*free_ports(3), *[0] * COUNT]
    site = replace(
        site, discovery=replace(site.discovery, initial_hosts=tuple([Physical("127.0.0.1", port) for port in ports[:3]]))
    )
    yield lambda number: replace(site, transport=replace(site.transport, port=ports[number]))


class _NameServer(trio.abc.HostnameResolver):
    """Knows one name, which is that of all members."""

    async def getaddrinfo(self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        assert host in (b"members", "members")
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", (_address(number), int(port))) for number in range(COUNT)]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise AssertionError("nobody asks for it")


def _address(number: int) -> str:
    """An address for each, as behind the name of a headless service all have one port."""
    return f"127.77.0.{number + 1}"


@asynccontextmanager
async def by_dns() -> AsyncIterator[Configs]:
    site, port = plain(), free_port()
    site = replace(site, discovery=replace(site.discovery, dns=Physical("members", port)))
    trio.socket.set_custom_hostname_resolver(_NameServer())
    try:
        yield lambda number: replace(site, transport=replace(site.transport, interface=_address(number), port=port))
    finally:
        trio.socket.set_custom_hostname_resolver(None)


@asynccontextmanager
async def by_router(kind: Literal["udp", "tunnel"] = "udp") -> AsyncIterator[Configs]:
    site = plain()
    async with trio.open_nursery() as nursery:
        router = RouterServer(Physical("127.0.0.1", 0), {site.site: None})
        nursery.start_soon(router.serve)
        discovery = replace(site.discovery, routers=(router.address,))
        site = replace(site, discovery=discovery, transport=replace(site.transport, kind=kind))
        yield lambda number: site
        nursery.cancel_scope.cancel()


WAYS: dict[str, Callable[[], AbstractAsyncContextManager[Configs]]] = {
    "multicast": by_multicast,
    "hosts": by_hosts,
    "DNS": by_dns,
    "router": by_router,
    "tunnel": partial(by_router, "tunnel"),
}


@pytest.mark.conforms("LA-12", "LA-13")
@pytest.mark.parametrize("way", WAYS)
async def test_thirty_that_start_at_once_are_in_one_view(way: str, record_property: Callable[[str, object], None]) -> None:
    views: dict[str, float] = {}
    everybody = trio.Event()

    async def be_member(config: SiteConfig, name: str) -> None:
        async with open_channel(config, name=name) as channel:
            await see_all(channel)
            views[name] = trio.current_time() - began
            if len(views) == COUNT:
                everybody.set()
            await everybody.wait()

    async def see_all(channel: Channel) -> None:
        while len(channel.view.members) < COUNT:
            await anext(channel)

    with trio.fail_after(PATIENCE_S):
        async with WAYS[way]() as configs, trio.open_nursery() as nursery:
            began = trio.current_time()
            for number in range(COUNT):
                nursery.start_soon(be_member, configs(number), f"M{number}")
            await everybody.wait()
            nursery.cancel_scope.cancel()
    record_property("seconds", max(views.values()))
    print(f"{way}: {max(views.values()):.1f} s")
