"""A server with scripted answers, which records posts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from relay.client.exchange import NDJSON
from tests.harness.http_server import QuietHandler, serving


class Post(NamedTuple):
    """A line of a request."""

    key: str
    payload: bytes
    scope: str
    token: str


@dataclass
class ScriptedDoor:
    """The posts, and the next answers: 200, or those of `script`."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    #: The status for a message; None for 200.
    script: Callable[[Post], int | None] = lambda _: None

    def payloads(self) -> list[bytes]:
        """As members show them: each key once."""
        return list({each.key: each.payload for each in self.posts}.values())


@contextmanager
def scripted_door() -> Iterator[ScriptedDoor]:
    """The door, open on loopback."""
    door = ScriptedDoor()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == NDJSON
            lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
            body = b"".join([json.dumps(self.answer(json.loads(line))).encode() + b"\n" for line in lines])
            self.send_response(200)
            self.send_header("Content-Type", NDJSON)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def answer(self, line: dict[str, Any]) -> dict[str, Any]:
            payload = base64.b64decode(line["base64"])
            post = Post(line["key"], payload, line["scope"], self.headers.get("Authorization", ""))
            if (status := door.script(post)) is not None:
                return {"status": status, "error": f"told {status}"}
            door.posts.append(post)
            return {"status": 200, "id": [], "key": post.key, "repeated": False}

    with serving(Handler) as door.url:
        yield door
