"""The clients of examples/http post a message again, with its key, when that may help, and for so long only."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread, Timer

import pytest

from relay_lab.drills.tether import tie
from tests.examples.test_http_examples import commands
from tests.harness.http_server import QuietHandler, serving
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

    class Handler(QuietHandler):
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

    with serving(Handler) as url:
        yield url, posted


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
def test_an_unaccepted_message_is_posted_again_with_its_key(language: str, status: int, tmp_path: Path) -> None:
    with answering(status, 200) as (url, posted):
        ended = post(language, tmp_path, url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posted == [("p-1", b"one"), ("p-1", b"one"), ("p-2", b"two")]


@pytest.mark.parametrize("why", [b"mend it", b""])
@languages
def test_a_refused_message_is_not_posted_again(language: str, why: bytes, tmp_path: Path) -> None:
    with answering(422, why=why) as (url, posted):
        ended = post(language, tmp_path, url)
    assert ended.returncode == 1
    assert "422" in ended.stderr
    assert len(posted) == 1


@languages
def test_a_message_that_no_node_accepts_is_given_up(language: str, tmp_path: Path) -> None:
    with answering(408) as (url, posted):
        ended = post(language, tmp_path, f"http://127.0.0.1:{free_port()}", url, give_up_s=3)
    assert ended.returncode == 1
    assert "not taken" in ended.stderr
    assert {key for key, _ in posted} == {"p-1"}
    assert 1 < len(posted) < 60


@languages
def test_a_line_is_posted_although_the_first_connections_are_closed_at_once(language: str, tmp_path: Path) -> None:
    with answering(200, closes=2) as (url, posted):
        ended = post(language, tmp_path, url, give_up_s=20)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert posted == [("p-1", b"one"), ("p-2", b"two")]


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
def test_a_stream_that_dies_at_any_point_is_followed_at_the_next_connection(silent: bool, tmp_path: Path) -> None:
    """A killed node closes its connections; one whose machine dies is only silent."""
    about = {"event": "message", "id": ["NYC", "a", "all", 1], "text": "heard"}
    event = f"event: message\nid: run-1\ndata: {json.dumps(about)}\n\n".encode()
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole += b"%x\r\n%b\r\n" % (len(event), event)
    left = [0, 20, 90, len(whole) - 30]
    ended = Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(whole[: left.pop(0)] if left else whole)
            if silent or not left:
                ended.wait(LIMIT_S)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        _, follow = commands("node", tmp_path)
        command = [*follow, f"http://127.0.0.1:{server.server_address[1]}"]
        environment = {**os.environ, "RELAY_SILENCE_S": "1"}
        process = subprocess.Popen(tie(command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        patience = Timer(LIMIT_S / 2, process.kill)
        patience.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "heard\n"
        finally:
            patience.cancel()
            ended.set()
            process.kill()
            process.communicate()
            server.shutdown()
