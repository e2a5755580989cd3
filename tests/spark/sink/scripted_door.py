"""A server with scripted answers, which records posts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Post(NamedTuple):
    """A request."""

    key: str
    payload: bytes
    target: str
    token: str


@dataclass
class ScriptedDoor:
    """The posts, and the next answers: 200, or those of `script`."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    #: A status, 0 to close the connection in the place of an answer; None for 200.
    script: Callable[[Post], int | None] = lambda _: None
    retry_after: str = "1"

    def keys(self) -> list[str]:
        return [each.key for each in self.posts]

    def payloads(self) -> list[bytes]:
        """As members show them: each key once."""
        return list({each.key: each.payload for each in self.posts}.values())


@contextmanager
def scripted_door() -> Iterator[ScriptedDoor]:
    """The door, open on loopback."""
    door = ScriptedDoor()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            payload = self.rfile.read(int(self.headers["Content-Length"]))
            quoted = self.headers["Idempotency-Key"]
            assert quoted[0] == quoted[-1] == '"'
            post = Post(quoted[1:-1], payload, self.path, self.headers.get("Authorization", ""))
            status = door.script(post)
            if status == 0:
                self.close_connection = True
                return
            if status is None:
                door.posts.append(post)
            body = json.dumps({} if status is None else {"error": f"told {status}"}).encode()
            self.send_response(status or 200)
            self.send_header("Content-Length", str(len(body)))
            if status is not None:
                self.send_header("Retry-After", door.retry_after)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    door.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield door
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
