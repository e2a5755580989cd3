"""Access control: the node's token, and no access for web pages of other origins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from relay.node.http.token import BearerToken, is_loopback

#: Key in a request's state: function that keeps the connection's place until the answer.
KEEP_PLACE = "keep_place"

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Access:
    """Access check.

    With a token, requests must have it. Without one, any program that reaches the port has access,
    but pages of other origins do not.
    """

    def __init__(self, token: BearerToken | None) -> None:
        self._token = token

    def may_read(self, request: Request) -> bool:
        """Return whether this request may read everything."""
        return self._token is None or self._token.is_in(request.headers.get("authorization", ""))

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with an access check."""

        async def answer(request: Request) -> ASGIApp:
            if not self.may_read(request):
                return PlainTextResponse("This path requires the token.\n", 401, {"WWW-Authenticate": "Bearer"})
            if self._token is None and (why := why_foreign(request)):
                return PlainTextResponse(f"{why}\n", 403)
            request.scope["state"][KEEP_PLACE]()
            return await endpoint(request)

        return answer


def why_foreign(request: Request) -> str:
    """Return why the request comes from a page of another origin, or an empty string.

    Browsers send the page's origin with each cross-origin request and each change. A DNS rebinding
    page sends its own host name, which no program uses for a loopback address.
    """
    host = request.headers.get("host", "")
    origin = request.headers.get("origin", host)
    if origin != host and urlsplit(origin).netloc != host:
        return "Pages of other origins are not answered."
    server = request.scope.get("server") or ("", 0)
    name = host.rpartition(":")[0] or host
    if is_loopback(str(server[0])) and name and not is_loopback(name):
        return "Use the address of this machine, not a name."
    return ""
