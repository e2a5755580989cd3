"""The clients of examples/http post a message again, with its key, when that may help, and for so long only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.examples.test_http_examples import commands
from tests.harness.sockets import free_port

LIMIT_S = 60.0
languages = pytest.mark.parametrize("language", ["curl", "node", pytest.param("go", marks=pytest.mark.long)])


@contextmanager
def answering(*statuses: int, why: bytes = b"not now", closes: int = 0) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A node with these answers, the last one repeated. Records the keys and bodies of posts.

    It closes the first `closes` connections without an answer.
    """
    posted: list[tuple[str, bytes]] = []
    closed = [None] * closes

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            if closed:
                closed.pop()
            else:
                super().handle()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = statuses[min(len(posted), len(statuses) - 1)]
            posted.append((self.headers["Idempotency-Key"], body))
            said = b"{}" if status == 200 else why
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", posted
        finally:
            server.shutdown()
            thread.join()


def post(language: str, directory: Path, *urls: str, give_up_s: int = 60) -> subprocess.CompletedProcess[str]:
    """What became of two lines."""
    command, _ = commands(language, directory)
    environment = {**os.environ, "RELAY_GIVE_UP_S": str(give_up_s)}
    return subprocess.run(
        [*command, "p", *urls],
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("status", [408, 429, 503])
@languages
def test_what_was_not_taken_is_posted_again_with_its_key(language: str, status: int, tmp_path: Path) -> None:
    with answering(status, 200) as (url, posted):
        ended = post(language, tmp_path, url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posted == [("p-1", b"one"), ("p-1", b"one"), ("p-2", b"two")]


@pytest.mark.parametrize("why", [b"mend it", b""])
@languages
def test_what_is_refused_is_not_posted_again(language: str, why: bytes, tmp_path: Path) -> None:
    with answering(422, why=why) as (url, posted):
        ended = post(language, tmp_path, url)
    assert ended.returncode == 1
    assert "422" in ended.stderr
    assert len(posted) == 1


@languages
def test_what_nobody_takes_for_long_is_given_up(language: str, tmp_path: Path) -> None:
    with answering(408) as (url, posted):
        ended = post(language, tmp_path, f"http://127.0.0.1:{free_port()}", url, give_up_s=1)
    assert ended.returncode == 1
    assert "not taken" in ended.stderr
    assert {key for key, _ in posted} == {"p-1"}
    assert 1 < len(posted) < 20


@languages
def test_a_line_is_posted_although_the_first_connections_are_closed_at_once(language: str, tmp_path: Path) -> None:
    with answering(200, closes=2) as (url, posted):
        ended = post(language, tmp_path, url, give_up_s=20)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posted == [("p-1", b"one"), ("p-2", b"two")]
