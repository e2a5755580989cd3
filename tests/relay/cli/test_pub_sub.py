"""`relay pub` and `relay sub`, as processes: one prints the messages of the other, once and in order."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay.cli import pub
from relay.cli.client import find_client
from relay.node import visitor
from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig, SecuritySettings
from relay.node.status.status_socket import fetch_status
from tests.harness.command_line import Run
from tests.harness.sockets import free_port
from tests.relay.node.test_daemon import configure, node, running

LIMIT_S = 60.0
COMMAND = (sys.executable, "-m", "relay")


@pytest.fixture
def config(directory: Path) -> Path:
    return configure(directory)


def publish(config: Path, *texts: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return post(str(config), *texts, "--member", "--name", "P", "--insecure", lines=lines)


def post(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "pub", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.slow
def test_published_messages_are_printed_once_and_in_order(config: Path) -> None:
    with running("sub", str(config), "--member", "--name", "S", "--insecure") as process:
        assert process.stdout is not None
        deadline = time.monotonic() + LIMIT_S
        while not select.select([process.stdout], [], [], 0.5)[0]:  # until it has joined, and has not founded a separate site
            assert publish(config, "are you there?").returncode == 0
            assert time.monotonic() < deadline
        first = json.loads(process.stdout.readline())
        assert (first["from"], first["site"], first["text"]) == ("P", "NYC", "are you there?")
        published = publish(config, lines="one\ntwo\nthree\n")
        assert (published.returncode, published.stdout, published.stderr) == (0, "", "")
        said = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert [each["text"] for each in said] == ["one", "two", "three"]
        assert [each["id"][3] for each in said] == [1, 2, 3]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130


def test_only_the_oversized_message_is_reported_as_not_published(directory: Path) -> None:
    config = configure(directory, protocols={"batching": {"message_bytes_max": 1_024}})
    published = publish(config, "short", "x" * 1_025, os.fsdecode(b"no text: \xff"), "short again")
    assert published.returncode == 1
    assert published.stderr.count("\n") == 1
    assert published.stderr.startswith("not published: ")


@pytest.mark.parametrize(("how", "redirection"), [("--member", "0>/dev/null"), ("--node", "0>/dev/null"), ("--node", "<&-")])
def test_an_input_that_is_closed_or_cannot_be_read_is_one_sentence(config: Path, how: str, redirection: str) -> None:
    arguments = [str(config), "--member", "--insecure"] if how == "--member" else ["--node", "http://127.0.0.1:1"]
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "pub", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (ended.returncode, ended.stderr) == (1, "not published: the rest of the input (Bad file descriptor).\n")


def test_an_input_that_does_not_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setattr(pub, "_STANDARD_INPUT", reader)
    with os.fdopen(reader), os.fdopen(writer, "wb", buffering=0) as file, ThreadPoolExecutor() as pool:
        lines = pool.submit(lambda: [*pub._read_lines()])
        time.sleep(0.05)
        file.write(b"one\n")
        file.close()
        assert lines.result(LIMIT_S) == [[b"one"]]


def test_lines_before_a_read_error_are_published_and_refused_ones_reported(directory: Path) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b"short"
        yield b"x" * 2_000
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    config = configure(directory, protocols={"batching": {"message_bytes_max": 1_000}})
    settings = replace(load_config(config, name="P"), security=SecuritySettings(insecure=True))
    refused, ended = trio.run(visitor.publish, settings, lines())
    assert refused.startswith("not published: ")
    assert ended == "not published: the rest of the input (Input/output error)."


@pytest.mark.parametrize("command", ["pub", "sub"])
def test_pub_and_sub_are_refused_without_keys(run: Run, config: Path, command: str) -> None:
    code, _, err = run(command, config)
    assert code == 2
    assert "--insecure" in err


@pytest.mark.slow
def test_through_a_node_both_work_without_a_change_of_the_view(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is named, or found by its status socket; a token is that of the configuration."""
    token = directory / "token"
    token.write_text("hush-hush-hush-hush shop publish\nhush-hush-hush-hush-hush reader read\n")
    token.chmod(0o600)
    place = f"127.0.0.1:{free_port()}"
    config = configure(directory, http={"bind": place, "token": str(token)})
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(directory))
    with node(directory, config, "--insecure", "--name", "A") as member:
        assert member.stderr is not None
        while "http listening" not in member.stderr.readline():
            pass
        while trio.run(fetch_status, directory / "a.sock")["state"] != "member":
            time.sleep(0.02)
        named = ["--node", f"http://{place}", "--token", str(token)]
        for arguments in ([str(config)], named):
            with running("sub", *arguments) as process:
                assert process.stdout is not None
                while not select.select([process.stdout], [], [], 0.5)[0]:
                    done = post(*arguments, "one", "two")
                    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
                heard = [json.loads(process.stdout.readline()) for _ in range(2)]
                assert [(each["from"], each["text"]) for each in heard] == [("A", "one"), ("A", "two")]
        refused = post(*named[:2], "x")
        assert refused.returncode == 1
        assert "requires a token" in refused.stderr
        assert trio.run(fetch_status, directory / "a.sock")["views"] == 1


def test_a_node_whose_status_does_not_end_is_not_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            for _ in range(40):
                connection.sendall(b" ")
                time.sleep(0.1)
            connection.sendall(b'{"site": "NYC", "http": "http://127.0.0.1:1"}')

    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(directory))
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(str(directory / "a.sock"))
        listener.listen()
        pool.submit(answer, listener)
        assert find_client(NodeConfig(site="NYC"), None, "publish") is None


def test_publishing_at_a_node_imports_neither_the_event_loop_nor_the_configuration() -> None:
    """The parts of a node take seconds of a loaded machine to import, for one message."""
    program = "import sys; from relay.cli import pub; import relay.client; print(*sys.modules)"
    modules = set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split())
    assert modules & {"trio", "yaml", "rich", "httpx", "structlog", "msgpack", "cryptography", "starlette"} == set()
