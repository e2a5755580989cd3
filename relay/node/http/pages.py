"""The dashboard's files. They say nothing of the node, so they need no token; what they show, they ask for with one."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_DIRECTORY = Path(__file__).parent / "dashboard"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Nothing from elsewhere, nothing inside the page's own text, no frame around it.
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
    """A route for each file, and `/` for the page itself."""
    files = sorted(each for each in _DIRECTORY.iterdir() if each.suffix in _TYPES)
    return [_route("/" if each.name == "index.html" else f"/dashboard/{each.name}", each) for each in files]


def _route(path: str, file: Path) -> Route:
    content = file.read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=_TYPES[file.suffix], headers=_HEADERS)

    return Route(path, answer, methods=["GET"])
