"""The HTTP paths of a node or a router, and their answers. Only GET; nothing is stored, and no answer waits for the node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from relay.node.http.metrics import CONTENT_TYPE, exposition
from relay.node.http.token import BearerToken
from relay.node.readiness import why_not_ready

#: The status of a node, as `relay status` shows it.
Describe = Callable[[], dict[str, Any]]
#: Of a status and a number of members that there must be: the reasons why whoever has it is not ready.
WhyNotReady = Callable[[dict[str, Any], int], list[str]]


def make_app(describe: Describe, peers: Sequence[str], token: BearerToken | None = None) -> Starlette:
    """The application of one node. `peers` are the sites that it is to be linked to while it relays."""
    return make_status_app(describe, lambda status, members: why_not_ready(status, peers, members), exposition, token)


def make_status_app(
    describe: Describe, why_not: WhyNotReady, expose: Callable[[dict[str, Any]], bytes], token: BearerToken | None
) -> Starlette:
    """The application of whatever has a status; `expose` makes metrics of it.

    With a token, whoever does not bear it is told whether the process is alive and ready, and nothing else.
    """

    def may_read(request: Request) -> bool:
        return token is None or token.is_in(request.headers.get("authorization", ""))

    def guarded(answer: Callable[[], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if not may_read(request):
                return PlainTextResponse("This wants the token.\n", 401, {"WWW-Authenticate": "Bearer"})
            return answer()

        return endpoint

    async def healthz(_request: Request) -> Response:
        """Answer that the member is alive, which this answer itself proves: it is made in the member's event loop."""
        return PlainTextResponse("alive\n")

    async def readyz(request: Request) -> Response:
        """Ready; `?members=6` also wants that many members in the global view."""
        wanted = request.query_params.get("members", "0")
        if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 10):
            return PlainTextResponse("members must be a whole number.\n", 400)
        reasons = why_not(describe(), int(wanted))
        if reasons:
            return PlainTextResponse(f"not ready: {'; '.join(reasons)}.\n" if may_read(request) else "not ready\n", 503)
        return PlainTextResponse("ready\n")

    def status() -> Response:
        return JSONResponse(describe(), headers={"Cache-Control": "no-store"})

    def metrics() -> Response:
        return Response(expose(describe()), media_type=CONTENT_TYPE)

    paths = {"/healthz": healthz, "/readyz": readyz, "/status": guarded(status), "/metrics": guarded(metrics)}
    return Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in paths.items()],
        exception_handlers={Exception: _report},
    )


async def _report(request: Request, error: Exception) -> Response:
    """Log an error of this application, which must cost one answer and not the member."""
    structlog.get_logger().error("http", path=request.url.path, exc_info=error)
    return PlainTextResponse("The node could not answer; its log says why.\n", 500)
