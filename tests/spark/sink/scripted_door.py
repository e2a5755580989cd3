"""A server with scripted answers, which records posts."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from pyspark_relay.sink.publisher import NDJSON


class Post(NamedTuple):
    """A request."""

    key: str
    payload: bytes
    target: str
    token: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class ScriptedDoor:
    """The posts, and the next answers: 200, or those of `script`."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    #: Lines of each NDJSON request.
    requests: list[int] = field(default_factory=list)
    #: For each message, a status, 0 to close the connection in the place of an answer; None for 200.
    script: Callable[[Post], int | None] = lambda _: None
    retry_after: str = "1"
    takes_lines: bool = True

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
            if self.headers["Content-Type"] == NDJSON:
                self.answer_lines([json.loads(line) for line in payload.splitlines()] if door.takes_lines else [])
                return
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

        def answer_lines(self, lines: list[dict[str, Any]]) -> None:
            """Answer a line for each, up to one whose status closes the connection."""
            answers = []
            for line in lines:
                headers = tuple(sorted(line.get("headers", {}).items()))
                payload = base64.b64decode(line["base64"])
                target = f"/messages?scope={line['scope']}"
                post = Post(line["key"], payload, target, self.headers.get("Authorization", ""), headers)
                status = door.script(post)
                if status == 0:
                    self.close_connection = True
                    break
                if status is None:
                    door.posts.append(post)
                answers.append({"status": 200} if status is None else {"status": status, "error": f"told {status}"})
            door.requests.append(len(lines))
            if lines and not answers:
                return
            body = b"".join([json.dumps(each).encode() + b"\n" for each in answers])
            self.send_response(200)
            self.send_header("Content-Type", NDJSON if door.takes_lines else "application/json")
            self.send_header("Content-Length", str(len(body)))
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
