"""Routers for tests: the real sockets on the loopback interface, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from relay.router.server import RouterServer
from sitestack.config import SiteConfig, TransportConfig
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import Physical
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import Proofs

ANY_PORT = Physical("127.0.0.1", 0)
RING = KeyRing.of(bytes(range(32)))


class Served:
    """A router that runs, which can be killed and started again at its port."""

    def __init__(self, bind: Physical, sites: Mapping[str, Proofs | None], nursery: trio.Nursery) -> None:
        self._sites = sites
        self._nursery = nursery
        self.server = RouterServer(bind, sites)
        self.place = self.server.address
        self._run()

    def _run(self) -> None:
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._serve, self.server, self._scope, self._ended)

    async def _serve(self, server: RouterServer, scope: trio.CancelScope, ended: trio.Event) -> None:
        with scope:
            await server.serve()
        ended.set()

    def kill(self) -> None:
        """End it as a kill would: the members notice that their connections close."""
        self._scope.cancel()

    async def start_again(self) -> None:
        """Start a new router at the port of the killed one; it knows no member."""
        await self._ended.wait()
        self.server = RouterServer(self.place, self._sites)
        self._run()


@asynccontextmanager
async def router(
    bind: Physical = ANY_PORT, *, ring: KeyRing | None = None, sites: tuple[str, ...] = ("NYC",)
) -> AsyncIterator[Served]:
    """A router of these sites, with proofs when there is a ring."""
    async with trio.open_nursery() as nursery:
        yield Served(bind, {site: None if ring is None else Proofs(site, ring) for site in sites}, nursery)
        nursery.cancel_scope.cancel()


def site(transport: TransportConfig, *routers: Physical) -> SiteConfig:
    """NYC on this machine, whose members find each other by these routers alone."""
    plain = replace(transport, interface="127.0.0.1", multicast=False)
    return SiteConfig("NYC", transport=plain, discovery=DiscoveryConfig(routers=routers, join_wait_s=0.3))
