"""The HTTP paths of a node and their answers. Nothing is stored, and no answer but that to a message waits for the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from relay.node.http.access import Access
from relay.node.http.event_ring import EventRing, UnknownId
from relay.node.http.event_stream import EventStream, Streams
from relay.node.http.messages import MESSAGES, RETRY_AFTER_S, FindChannel, Messages
from relay.node.http.metrics import CONTENT_TYPE, exposition
from relay.node.http.openapi import describe_api
from relay.node.http.pages import page_routes
from relay.node.http.token import BearerToken
from relay.node.readiness import why_not_ready

#: The status of a node, as `relay status` shows it.
Describe = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """What a node serves."""

    describe: Describe
    #: The sites that the node is to be linked to while it relays.
    peers: Sequence[str]
    ring: EventRing
    channel: FindChannel
    #: Counts messages to all sites that were sent.
    count_sent: Callable[[int], None]
    version: str
    #: Whether the node has keys.
    is_secure: bool = True


def make_app(node: Served, token: BearerToken | None = None) -> Starlette:
    """The application of one node.

    With a token, whoever does not bear it is told whether the node is alive and ready, and nothing else.
    """
    access = Access(token)
    answers = _Answers(node, access, token is not None)
    messages = Messages(node.channel, node.count_sent)
    routes = [
        Route("/healthz", answers.healthz, methods=["GET"]),
        Route("/readyz", answers.readyz, methods=["GET"]),
        Route("/openapi.json", answers.openapi, methods=["GET"]),
        Route("/status", access.guarded(answers.status), methods=["GET"]),
        Route("/metrics", access.guarded(answers.metrics), methods=["GET"]),
        Route("/events", access.guarded(answers.events), methods=["GET"]),
        Route(MESSAGES, access.guarded(messages.post), methods=["POST"]),
        *page_routes(),
    ]
    return Starlette(routes=routes, exception_handlers={Exception: _report})


class _Answers:
    """The answers to GET."""

    def __init__(self, node: Served, access: Access, has_token: bool) -> None:
        self._node = node
        self._access = access
        self._streams = Streams()
        self._api = describe_api(node.version, token=has_token)

    async def healthz(self, _request: Request) -> Response:
        """Answer that the member is alive, which this answer itself proves: it is made in the member's event loop."""
        return PlainTextResponse("alive\n" if self._node.is_secure else "alive, insecure\n")

    async def readyz(self, request: Request) -> Response:
        """Ready; `?members=6` also wants that many members in the global view."""
        wanted = request.query_params.get("members", "0")
        if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 10):
            return PlainTextResponse("members must be a whole number.\n", 400)
        reasons = why_not_ready(self._node.describe(), self._node.peers, int(wanted))
        if reasons:
            why = f"not ready: {'; '.join(reasons)}.\n" if self._access.may_read(request) else "not ready\n"
            return PlainTextResponse(why, 503)
        return PlainTextResponse("ready\n")

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(self._api)

    async def status(self, _request: Request) -> Response:
        return JSONResponse(self._node.describe(), headers={"Cache-Control": "no-store"})

    async def metrics(self, _request: Request) -> Response:
        return Response(exposition(self._node.describe()), media_type=CONTENT_TYPE)

    async def events(self, request: Request) -> Response | EventStream:
        """A stream; it begins after the event that the client names, with the oldest one, or with the next one."""
        ring, query = self._node.ring, request.query_params
        messages = query.get("messages", "yes") != "no"
        asked = request.headers.get("last-event-id", "") or query.get("last_event_id", "")
        try:
            after = ring.number_of(asked) if asked else ring.newest
        except UnknownId:
            return JSONResponse({"error": "Last-Event-ID: is the id of no event."}, 400)
        if self._streams.is_full:
            return JSONResponse({"error": "There are too many streams."}, 503, {"Retry-After": str(RETRY_AFTER_S)})
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if not asked and query.get("from") == "oldest":
            after = ring.oldest(messages) - 1
        return EventStream(ring, self._streams, after or 0, messages=messages, foreign=asked if after is None else "")


async def _report(request: Request, error: Exception) -> Response:
    """Log an error of this application, which must cost one answer and not the member."""
    structlog.get_logger().error("http", path=request.url.path, exc_info=error)
    return PlainTextResponse("The node could not answer; its log says why.\n", 500)
