"""Access: who may read and publish. A node's token, and that no foreign web page speaks through somebody's browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from relay.node.http.token import BearerToken, is_loopback

#: Name, in the state of a request, of the function by which its connection keeps its place until the request is answered.
KEEP_PLACE = "keep_place"

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Access:
    """With a token, whoever bears it. Without one, every program that reaches the port; but no page of another origin."""

    def __init__(self, token: BearerToken | None) -> None:
        self._token = token

    def may_read(self, request: Request) -> bool:
        """Whether this request may be told everything."""
        return self._token is None or self._token.is_in(request.headers.get("authorization", ""))

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint for those who may, and a refusal for the others."""

        async def answer(request: Request) -> ASGIApp:
            if not self.may_read(request):
                return PlainTextResponse("This wants the token.\n", 401, {"WWW-Authenticate": "Bearer"})
            if self._token is None and (why := why_foreign(request)):
                return PlainTextResponse(f"{why}\n", 403)
            request.scope["state"][KEEP_PLACE]()
            return await endpoint(request)

        return answer


def why_foreign(request: Request) -> str:
    """Why a browser must have sent this on behalf of a page of somebody else; empty for all others.

    Browsers name the page's origin in requests to other origins, and in all that change something. A page that has its own name
    resolve to this machine (DNS rebinding) is known by that name, which no program uses for an address of loopback.
    """
    host = request.headers.get("host", "")
    origin = request.headers.get("origin", host)
    if origin != host and urlsplit(origin).netloc != host:
        return "Pages of other origins are not answered."
    server = request.scope.get("server") or ("", 0)
    name = host.rpartition(":")[0] or host
    if is_loopback(str(server[0])) and name and not is_loopback(name):
        return "At an address of this machine, call it by that address."
    return ""
