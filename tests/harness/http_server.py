"""HTTP servers on the loopback interface that answer as a test wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve with a handler, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(status: int, body: bytes = b"", path: str = "") -> Iterator[str]:
    """Answer each GET with a status, and with 404 outside the path, if one is given."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(status if path in ("", self.path) else 404)
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        yield url
