"""`relay pub` and `relay sub`, as processes: one prints the messages of the other, once and in order."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from relay_lab.drills.tether import tie
from tests.harness.command_line import Run
from tests.relay.node.test_daemon import configure

LIMIT_S = 60.0
COMMAND = (sys.executable, "-m", "relay")


@pytest.fixture
def config() -> Iterator[Path]:
    with TemporaryDirectory(prefix="relay-") as directory:
        yield configure(Path(directory))


@contextmanager
def subscriber(config: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "sub", str(config), "--name", "S", "--insecure"]
    process = subprocess.Popen(tie(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def publish(config: Path, *texts: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "pub", str(config), *texts, "--name", "P", "--insecure"]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_what_is_published_is_printed_once_and_in_order(config: Path) -> None:
    with subscriber(config) as process:
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


def test_a_line_that_is_too_long_is_told_and_the_others_are_published(config: Path) -> None:
    limit = 1 << 10
    config.write_text(json.dumps({**json.loads(config.read_text()), "protocols": {"batching": {"message_bytes_max": limit}}}))
    published = publish(config, "short", "x" * (limit + 1), os.fsdecode(b"no text: \xff"), "short again")
    assert published.returncode == 1
    assert published.stderr.count("\n") == 1
    assert published.stderr.startswith("not published: ")


@pytest.mark.parametrize("command", ["pub", "sub"])
def test_without_keys_neither_takes_part(run: Run, config: Path, command: str) -> None:
    code, _, err = run(command, config)
    assert code == 2
    assert "--insecure" in err
