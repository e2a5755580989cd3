"""HTTP paths of a node and their answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from relay.node.config.settings import HttpSettings
from relay.node.http.access import Access
from relay.node.http.event_ring import EventRing, UnknownId
from relay.node.http.event_stream import EventStream
from relay.node.http.health import Describe, Health, health_routes, make_starlette
from relay.node.http.messages import MESSAGES, FindChannel, Messages
from relay.node.http.metrics import exposition
from relay.node.http.refusal import refuse
from relay.node.http.token import Tokens
from relay.node.status.verdict import why_not_ready


@dataclass(frozen=True, slots=True)
class Served:
    """Functions and facts of the node for its HTTP application."""

    describe: Describe
    ring: EventRing
    channel: FindChannel
    count_sent: Callable[[int], None]
    version: str
    is_secure: bool
    #: The other connections are for probes and requests.
    streams_max: int = HttpSettings().streams_max()


def make_app(node: Served, tokens: Tokens | None = None) -> Starlette:
    """Return the application of one node. With tokens, requests without one receive only liveness and readiness."""
    access = Access(tokens)
    health = Health(node.describe, why_not_ready, exposition, node.is_secure)
    answers = _Answers(node, access, has_token=tokens is not None)
    messages = Messages(node.channel, node.count_sent)
    routes = [
        *health_routes(health, access),
        Route("/openapi.json", answers.openapi, methods=["GET"]),
        Route("/events", access.guarded(answers.events, "operate", "read"), methods=["GET"]),
        Route(MESSAGES, access.guarded(messages.post, "publish"), methods=["POST"]),
        *page_routes(),
    ]
    return make_starlette(routes)


def describe_api(version: str, *, token: bool) -> dict[str, Any]:
    api: dict[str, Any] = json.loads((Path(__file__).parent / "openapi.json").read_text(encoding="utf-8"))
    api["info"]["version"] = version
    for operation in [] if token else [each for methods in api["paths"].values() for each in methods.values()]:
        operation["security"] = []
    return api


class _Answers:
    def __init__(self, node: Served, access: Access, *, has_token: bool) -> None:
        self._node = node
        self._access = access
        self._streams = trio.CapacityLimiter(node.streams_max)
        self._api = describe_api(node.version, token=has_token)

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(self._api)

    async def events(self, request: Request) -> Response | EventStream:
        """Return a stream after the named event, from the oldest one, or of new ones."""
        ring, query = self._node.ring, request.query_params
        messages = query.get("messages", "yes") != "no"

        def is_allowed() -> bool:
            return self._access.has(request, "read") or (not messages and self._access.has(request, "operate"))

        if not is_allowed():
            return refuse(403, "The token lacks the right read: ask for ?messages=no.")
        asked = request.headers.get("last-event-id", "") or query.get("last_event_id", "")
        try:
            after = ring.number_of(asked) if asked else ring.newest
        except UnknownId:
            return refuse(400, "Last-Event-ID: is not the id of an event.")
        if self._streams.available_tokens < 1:
            return refuse(503, "Too many streams.")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if not asked and query.get("from") == "oldest":
            after = ring.oldest(messages) - 1
        foreign = asked if after is None else ""
        return EventStream(ring, self._streams, after or 0, messages=messages, foreign=foreign, is_allowed=is_allowed)


_DIRECTORY = Path(__file__).parent / "dashboard"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: No content of other origins, no inline scripts or styles, and no frames.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """Return a route for each file, and `/` for the page."""
    files = sorted(each for each in _DIRECTORY.iterdir() if each.suffix in _TYPES)
    return [_route("/" if each.name == "index.html" else f"/dashboard/{each.name}", each) for each in files]


def _route(path: str, file: Path) -> Route:
    content = file.read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=_TYPES[file.suffix], headers=_HEADERS)

    return Route(path, answer, methods=["GET"])
