"""The foreground process of a gossip router: it serves its sites and reports its status."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
import trio

from relay.node.bridge.credentials import LOOK_INTERVAL_S
from relay.node.config.settings import NodeConfig
from relay.node.http.credentials import Credentials
from relay.node.site_keys import SiteKeys
from relay.node.status.loop_watch import LoopWatch
from relay.node.status.status import plain_level
from relay.router.server import RouterServer
from relay.router.switchboard import Spliced
from sitestack.model.address import Physical
from sitestack.seal.proofs import Proofs
from sitestack.transport.accepting import Admissions


@dataclass(frozen=True, slots=True)
class _Site:
    """A served site. Without keys the router accepts every client as a member."""

    name: str
    keys: SiteKeys | None
    proofs: Proofs | None


async def run_router(configs: Sequence[NodeConfig], bind: Physical, http: Physical | None) -> None:
    """Serve the configured sites until SIGTERM or SIGINT; SIGHUP rereads the keys and tokens.

    `http`: address for health, status and metrics; None disables them. The first configuration sets
    the log and the settings of HTTP. Raises LocalError if the port or the keys are unavailable.
    """
    first = replace(configs[0], http=replace(configs[0].http, bind=http))
    credentials = Credentials(first)
    daemon = RouterDaemon([_site(config) for config in configs], bind, credentials)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            if http is not None:
                # Imported on demand: the HTTP libraries double the memory of the process.
                from relay.node.http.access import Access  # noqa: PLC0415
                from relay.node.http.health import Health, health_routes, make_starlette  # noqa: PLC0415
                from relay.node.http.metrics import router_exposition  # noqa: PLC0415
                from relay.node.http.server import serve_http  # noqa: PLC0415

                secure = not any(config.security.insecure for config in configs)
                health = Health(daemon.describe, why_not_ready, router_exposition, secure)
                tokens, tls = credentials.tokens, credentials.tls
                app = make_starlette(health_routes(health, Access(tokens)))
                await nursery.start(serve_http, app, http, daemon.http_admissions, first.http, tls, tokens)
            nursery.start_soon(daemon.run)
            await daemon.obey(signals)
            nursery.cancel_scope.cancel()


def why_not_ready(status: Mapping[str, Any], members: int) -> list[str]:
    """Return why a router is not ready: fewer than `members` members are registered."""
    registered = sum(map(len, status["sites"].values()))
    return [f"{registered} of {members} members are registered"] if registered < members else []


def _splice(spliced: Spliced, now: float) -> dict[str, Any]:
    return {
        "called": spliced.called_site,
        "calling": spliced.calling_site,
        "age_s": round(now - spliced.since, 3),
        "bytes": spliced.carried_bytes,
    }


def _site(config: NodeConfig) -> _Site:
    if not config.security.keys:
        return _Site(config.site, None, None)
    keys = SiteKeys(Path(config.security.keys))
    return _Site(config.site, keys, Proofs(config.site, keys.ring))


class RouterDaemon:
    def __init__(self, sites: Sequence[_Site], bind: Physical, credentials: Credentials) -> None:
        """Bind the port. Raises ConfigurationError."""
        self._credentials = credentials
        self.http_admissions = Admissions()
        self._sites = sites
        self._server = RouterServer(bind, {site.name: site.proofs for site in sites})
        self._loop = LoopWatch()
        self._started = trio.current_time()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        for site in self._sites:
            if site.proofs is None:
                self._log.warning(
                    "insecure: every host that reaches the port can register, and list the registered members", site=site.name
                )
        self._log.info("router", address=str(self._server.address), sites=[site.name for site in self._sites])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._loop.run)
            nursery.start_soon(self._watch_keys)
            await self._server.serve()

    async def obey(self, signals: AsyncIterator[int]) -> None:
        """Reread the keys on SIGHUP; return on any other signal."""
        async for number in signals:
            if number != signal.SIGHUP:
                self._log.info("leaving", signal=signal.Signals(number).name)
                return
            self._credentials.reread()
            self._reread_keys()

    async def _watch_keys(self) -> None:
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            self._reread_keys()

    def _reread_keys(self) -> None:
        for site in self._sites:
            if site.keys is not None and site.proofs is not None and (ring := site.keys.look()) is not None:
                site.proofs.ring = ring
                self._log.info("keys reloaded", site=site.name, in_use=ring.in_use.hex())

    def describe(self) -> dict[str, Any]:
        server, router = self._server, self._server.router
        registered = {cluster: sorted(each.entry.name for each in members) for cluster, members in router.registry.clusters()}
        return {
            "version": version("sitestack"),
            "bind": str(server.address),
            "uptime_s": round(trio.current_time() - self._started, 3),
            "sites": {site.name: registered.get(site.name, []) for site in self._sites},
            "secure": {site.name: site.proofs is not None for site in self._sites},
            "splices": [_splice(each, trio.current_time()) for each in router.switchboard.splices()],
            "queues": [plain_level(name, level) for name, level in server.levels().items()],
            "refused": dict(router.refused),
            "problems": list(self._problems()),
            "statistics": {
                "registrations": router.registered,
                "queries": router.queries,
                "casts": router.casts,
                "sends": router.sends,
                "calls": router.switchboard.calls,
                "spliced": router.switchboard.spliced,
                "spliced_bytes": router.switchboard.carried_bytes,
                "sent_bytes": server.outboxes.sent_bytes,
                "lost_datagrams": server.outboxes.lost_datagrams,
                "refused_http": self.http_admissions.refused,
                "stalls": self._loop.stalls,
                "stalled_s": round(self._loop.stalled_s, 3),
            },
        }

    def _problems(self) -> list[str]:
        keys = {f"keys of {site.name}": site.keys.problem for site in self._sites if site.keys is not None}
        troubles = {"connections": self._server.admissions.trouble, "http": self.http_admissions.trouble}
        return [f"{where}: {why}." for where, why in {**keys, **troubles}.items() if why]
