"""The clients of examples/http post a message again, with its key, when that may help, and for so long only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread, Timer

import pytest

from relay_lab.drills.tether import tie
from tests.examples.test_http_examples import commands
from tests.harness.http_server import QuietHandler, serving
from tests.harness.http_server import answering as refusing
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


def event(n: int, key: str = "", headers: dict[str, str] | None = None) -> bytes:
    about: dict[str, object] = {"event": "message", "id": ["NYC", "a", "all", n]}  # in the order in which a node writes
    about |= {**({"key": key} if key else {}), **({"headers": headers} if headers else {}), "text": f"heard {n}"}
    return f"event: message\nid: run-{n}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n".encode()


@contextmanager
def heard_by(
    language: str, directory: Path, *answers: bytes, silent: bool = False
) -> Iterator[tuple[Iterator[str], list[bytes]]]:
    """The texts that a client prints which follows a node with these answers, and its requests.

    The last answer does not end, nor do silent ones.
    """
    left, asked, ended = [*answers], list[bytes](), Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(1 << 16))
            is_last = len(left) == 1
            self.request.sendall(left[0] if is_last else left.pop(0))
            if silent or is_last:
                ended.wait(LIMIT_S)

    _, follow = commands(language, directory)
    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        command = [*follow, f"http://127.0.0.1:{server.server_address[1]}"]
        environment = {**os.environ, "RELAY_SILENCE_S": "1"}
        process = subprocess.Popen(
            tie(command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
        )
        patience = Timer(LIMIT_S / 2, os.killpg, [process.pid, signal.SIGKILL])
        patience.start()
        try:
            assert process.stdout is not None
            yield (json.loads(line)["text"] if line.startswith("{") else line[:-1] for line in process.stdout), asked
        finally:
            patience.cancel()
            ended.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            server.shutdown()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
@languages
def test_a_stream_that_dies_at_any_point_is_followed_at_the_next_connection(
    language: str, silent: bool, tmp_path: Path
) -> None:
    """A killed node closes its connections; one whose machine dies is only silent."""
    one = event(1)
    whole = STREAM.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n") + b"%x\r\n%b\r\n" % (len(one), one)
    points = [0, 20, 90, len(whole) - 30]
    with heard_by(language, tmp_path, *(whole[:at] for at in points), whole, silent=silent) as (heard, asked):
        assert next(heard) == "heard 1"
        assert not any(b"run-1" in each for each in asked), "it had not heard the event yet"


@languages
def test_what_another_node_holds_of_before_is_left_out(language: str, tmp_path: Path) -> None:
    """Its messages begin before those of the first node, and are as many as a node holds."""
    key = "k" * 120
    held = [event(n, f"{key}{n}") for n in range(1, 1_001)]
    later = [event(1_001, f"{key}500"), event(1_002, f"{key}1002")]
    first, second = STREAM + b"".join(held[100:]), STREAM + b"".join([*held, *later])
    with heard_by(language, tmp_path, first, second) as (heard, _):
        assert [*islice(heard, 901)] == [f"heard {n}" for n in [*range(101, 1_001), 1_002]]


@languages
def test_a_follower_that_is_refused_says_why(language: str, tmp_path: Path) -> None:
    _, follow = commands(language, tmp_path)
    with refusing(401) as url, subprocess.Popen(tie([*follow, url]), stderr=subprocess.PIPE, start_new_session=True) as process:
        patience = Timer(LIMIT_S / 2, os.killpg, [process.pid, signal.SIGKILL])
        patience.start()
        assert process.stderr is not None
        try:
            assert b"401" in process.stderr.readline()
        finally:
            patience.cancel()
            os.killpg(process.pid, signal.SIGKILL)


@languages
def test_messages_with_similar_keys_or_with_a_header_of_that_name_are_all_heard(language: str, tmp_path: Path) -> None:
    keys = ["a", 'a"b', 'a"c', "a\\", "a\\b", '"', '","text', '","headers']
    sent = [event(n, key) for n, key in enumerate([*keys, *keys], 1)]
    sent += [event(n, headers={"key": "c2FtZQ=="}) for n in (20, 21)]
    with heard_by(language, tmp_path, STREAM + b"".join(sent)) as (heard, _):
        assert [*islice(heard, len(keys) + 2)] == [f"heard {n}" for n in [*range(1, len(keys) + 1), 20, 21]]


@languages
def test_a_line_of_any_length_is_posted(language: str, tmp_path: Path) -> None:
    command, _ = commands(language, tmp_path)
    lines = ["a", "b" * 70_000, "c"]
    with answering(200) as (url, posted):
        subprocess.run([*command, "p", url], input="\n".join(lines), text=True, timeout=LIMIT_S, check=True)
    assert [body.decode() for _, body in posted] == lines
