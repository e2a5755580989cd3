"""What a process with a status answers over HTTP, be it a node or a router: alive, ready, its status, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from relay.node.http.access import Access
from relay.node.http.metrics import CONTENT_TYPE
from relay.node.http.token import BearerToken

#: The status of a process, as `relay status` shows it.
Describe = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Health:
    """Where the answers come from."""

    describe: Describe
    #: Of a status and a number of members that there must be: the reasons why the process is not ready.
    why_not_ready: Callable[[dict[str, Any], int], list[str]]
    #: Makes metrics of a status.
    expose: Callable[[dict[str, Any]], bytes]
    #: Whether the process has keys.
    is_secure: bool


def make_health_app(health: Health, token: BearerToken | None) -> Starlette:
    """An application of nothing else.

    With a token, whoever does not bear it is told whether the process is alive and ready, and nothing else.
    """
    return Starlette(routes=health_routes(health, Access(token)), exception_handlers={Exception: report})


def health_routes(health: Health, access: Access) -> list[BaseRoute]:
    """`/healthz`, `/readyz`, `/status` and `/metrics`."""

    async def healthz(_request: Request) -> Response:
        """Answer that the process is alive, which this answer itself proves: it is made in its event loop."""
        return PlainTextResponse("alive\n" if health.is_secure else "alive, insecure\n")

    async def readyz(request: Request) -> Response:
        """Ready; `?members=6` also wants that many members in the global view."""
        wanted = request.query_params.get("members", "0")
        if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 10):
            return PlainTextResponse("members must be a whole number.\n", 400)
        reasons = health.why_not_ready(health.describe(), int(wanted))
        if reasons:
            why = f"not ready: {'; '.join(reasons)}.\n" if access.may_read(request) else "not ready\n"
            return PlainTextResponse(why, 503)
        return PlainTextResponse("ready\n")

    async def status(_request: Request) -> Response:
        return JSONResponse(health.describe(), headers={"Cache-Control": "no-store"})

    async def metrics(_request: Request) -> Response:
        return Response(health.expose(health.describe()), media_type=CONTENT_TYPE)

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/status", access.guarded(status), methods=["GET"]),
        Route("/metrics", access.guarded(metrics), methods=["GET"]),
    ]


async def report(request: Request, error: Exception) -> Response:
    """Log an error of an application, which must cost one answer and not the process."""
    structlog.get_logger().error("http", path=request.url.path, exc_info=error)
    return PlainTextResponse("The process could not answer; its log says why.\n", 500)
