"""Access control: the node's tokens and their rights, and no access for web pages of other origins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import ASGIApp

from relay.node.http.refusal import refuse
from relay.node.http.token import TOKEN_REQUIRED, Right, Tokens, is_loopback

#: Keys in a request's state.
KEEP_PLACE, TOKEN_NAME = "keep_place", "token_name"

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Access:
    """Access check. With tokens, requests must have one with the right. Without, pages of other origins have no access."""

    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens

    def has(self, request: Request, right: Right) -> bool:
        if self._tokens is None:
            return True
        token = self._tokens.find(request.headers.get("authorization", ""))
        return token is not None and right in token.rights

    def guarded(self, endpoint: Endpoint, *rights: Right) -> Endpoint:
        """Return the endpoint with an access check: one of these rights is enough."""

        async def answer(request: Request) -> ASGIApp:
            if self._tokens is None:
                if why := why_foreign(request):
                    return refuse(403, why)
            elif (token := self._tokens.find(request.headers.get("authorization", ""))) is None:
                return refuse(401, TOKEN_REQUIRED)
            elif not token.rights.intersection(rights):
                return refuse(403, f"The token {token.name} lacks the right {' or '.join(rights)}.")
            else:
                request.scope["state"][TOKEN_NAME] = token.name
            request.scope["state"][KEEP_PLACE]()
            return await endpoint(request)

        return answer


def why_foreign(request: Request) -> str:
    """Return why the request comes from a page of another origin, or an empty string.

    Browsers send the page's origin, or at least the relation of the two sites. A DNS rebinding page
    sends its own host name.
    """
    host = request.headers.get("host", "")
    origin = request.headers.get("origin", host)
    other = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if other or (origin != host and origin.partition("://")[2] != host):
        return "Pages of other origins are not answered."
    server = request.scope.get("server") or ("", 0)
    name = (host if host.endswith("]") else host.rpartition(":")[0] or host).strip("[]")
    if is_loopback(str(server[0])) and name and not is_loopback(name):
        return "Use the address of this machine, not a name."
    return ""
