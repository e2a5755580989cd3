"""HTTP answers of a node or router: liveness, readiness, status and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from relay.node.http.access import Access
from relay.node.http.metrics import CONTENT_TYPE
from relay.node.http.refusal import refuse, refuse_path

Describe = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Health:
    describe: Describe
    #: Returns the reasons why a process is not ready, from its status and the required members.
    why_not_ready: Callable[[Mapping[str, Any], int], list[str]]
    #: Renders a status as metrics.
    expose: Callable[[dict[str, Any]], bytes]
    is_secure: bool


def make_starlette(routes: Sequence[BaseRoute]) -> Starlette:
    """Return an application whose refusals are JSON."""
    return Starlette(routes=routes, exception_handlers={Exception: report, 404: refuse_path, 405: refuse_path})


def health_routes(health: Health, access: Access) -> list[BaseRoute]:
    async def healthz(_request: Request) -> Response:
        """Answer from the event loop: the process is alive."""
        return PlainTextResponse("alive\n" if health.is_secure else "alive, insecure\n")

    async def readyz(request: Request) -> Response:
        """Answer whether the process is ready.

        `?members=6` requires 6 members in the global view.
        """
        wanted = request.query_params.get("members", "0")
        if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 10):
            return refuse(400, "members: must be a whole number.")
        reasons = health.why_not_ready(health.describe(), int(wanted))
        if reasons:
            why = f"not ready: {'; '.join(reasons)}.\n" if access.has(request, "operate") else "not ready\n"
            return PlainTextResponse(why, 503)
        return PlainTextResponse("ready\n")

    async def status(_request: Request) -> Response:
        return JSONResponse(health.describe(), headers={"Cache-Control": "no-store"})

    async def metrics(_request: Request) -> Response:
        return Response(health.expose(health.describe()), media_type=CONTENT_TYPE)

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/status", access.guarded(status, "operate"), methods=["GET"]),
        Route("/metrics", access.guarded(metrics, "operate"), methods=["GET"]),
    ]


async def report(request: Request, error: Exception) -> Response:
    """Log an application error. It ends one answer, not the process."""
    structlog.get_logger().error("http request failed", path=request.url.path, exc_info=error)
    return refuse(500, "Internal error; see the log of the process.")
