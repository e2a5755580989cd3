"""A node as a real process: it joins, publishes, writes its events, serves its status, and leaves gracefully."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio

from relay.node.status.status_socket import fetch_status
from relay_lab.drills.layout import draw_group
from relay_lab.drills.tether import tie

#: Much longer than any of it takes, for slow machines.
LIMIT_S = 30.0


def configure(directory: Path, **settings: Any) -> Path:
    """Return the configuration of a site with one member and a short search."""
    group, port = draw_group()
    transport = {"interface": "127.0.0.1", "multicast_group": group, "multicast_port": port}
    config = directory / "nyc.yaml"
    config.write_text(json.dumps({"site": "NYC", "transport": transport, "discovery": {"join_wait_s": 0.3}, **settings}))
    return config


def node(
    directory: Path, config: Path, *options: str, log: int = subprocess.PIPE, out: int = subprocess.PIPE
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A running node with pipes, its log perhaps elsewhere; it is gone after the block."""
    return running("node", str(config), "--status", str(directory / "a.sock"), *options, log=log, out=out)


@contextmanager
def running(*arguments: str, log: int = subprocess.PIPE, out: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """A command of ours with pipes; it is gone after the block."""
    command = [sys.executable, "-m", "relay", *arguments]
    process = subprocess.Popen(tie(command), stdin=subprocess.PIPE, stdout=out, stderr=log, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def check(journal: Path) -> None:
    """Assert that the audit finds nothing wrong in these journals."""
    checked = subprocess.run([sys.executable, "-m", "relay", "check", str(journal)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_a_node_publishes_lines_serves_its_status_and_leaves_on_a_signal(directory: Path) -> None:
    options = f"--name A --insecure --publish - --events - --journal {directory / 'journal'} --http 0"
    with node(directory, configure(directory), *options.split()) as process:
        heard = events(process)
        assert next(heard)["members"] == ["A"]
        say(process, "hello\nGrüße\n")
        delivered = [event for event in (next(heard) for _ in range(4)) if event["event"] == "message"]
        assert [event["text"] for event in delivered] == ["hello", "Grüße"]

        status = trio.run(fetch_status, directory / "a.sock")
        assert (status["state"], status["role"], status["pid"]) == ("member", "coord", process.pid)
        assert status["messages"]["delivered"] == {"NYC": 2}
        assert status["journal"]["records"] > 0
        assert status["secure"] is False
        with urlopen(f"{status['http']}/status", timeout=LIMIT_S) as answer:
            over_http = json.load(answer)
        assert (over_http["pid"], over_http.keys()) == (process.pid, status.keys())
        with urlopen(f"{status['http']}/metrics", timeout=LIMIT_S) as answer:
            assert b'relay_node_info{name="A' in answer.read()
        with urlopen(f"{status['http']}/healthz", timeout=LIMIT_S) as answer:
            assert answer.read() == b"alive, insecure\n"

        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert not (directory / "a.sock").exists()
    check(directory / "journal")


def test_a_reload_does_not_kill_a_node_that_is_ending(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure", "--events", "-") as process:
        assert next(events(process))["event"] == "view"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        assert process.returncode == 0


def test_on_a_terminal_messages_are_shown_with_their_sender(directory: Path) -> None:
    ours, terminal = pty.openpty()
    options = ("--name", "A", "--insecure", "--publish", "-", "--events", "-")
    with open(ours, "rb", buffering=0) as shown, node(directory, configure(directory), *options, out=terminal) as process:
        os.close(terminal)
        say(process, "hello\n")
        seen = b""
        while b"A@NYC: hello" not in seen:
            seen += shown.read(1_000)
    assert seen.splitlines()[-1] == b"A@NYC: hello"
    assert b'"members":["A"]' in seen.splitlines()[0]


def test_a_node_ends_when_the_reader_of_its_events_closes(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure", "--publish", "-", "--events", "-") as process:
        assert process.stdout is not None
        assert next(events(process))["event"] == "view"
        process.stdout.close()
        say(process, "anybody?\n")
        assert process.wait(LIMIT_S) == 0


def test_a_node_whose_lines_cannot_be_read_stays_a_member_and_says_so(directory: Path) -> None:
    unreadable = "/proc/self/mem"  # can be opened; a read fails (EIO)
    with node(directory, configure(directory), "--insecure", "--publish", unreadable) as process:
        assert process.stderr is not None
        told = next(found for found in map(json.loads, process.stderr) if found["level"] == "error")
        assert told["what"] == "--publish: cannot be read, so no more lines are published: Input/output error."
        assert trio.run(fetch_status, directory / "a.sock")["state"] == "member"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_a_bridge_port_that_is_taken_ends_the_node_before_it_joins(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        relay = {"bridge": {"bind": bind, "peers": {"SFO": ["127.0.0.1:1"]}}}
        with node(directory, configure(directory, relay=relay), "--insecure") as process:
            code, lines = process.wait(LIMIT_S), log_lines(process)
    assert code == 2
    assert lines[-1] == f"relay.bridge.bind: cannot listen on {bind}: Address already in use.\n"


def test_a_signal_ends_a_node_that_still_joins_and_a_second_of_its_name_is_refused(directory: Path) -> None:
    config = configure(directory, discovery={"join_wait_s": 60.0})
    with node(directory, config, "--insecure") as process:
        assert "insecure" in first_log_line(process)
        with node(directory, config, "--insecure") as second:
            code, [line] = second.wait(LIMIT_S), log_lines(second)
        assert (code, "running already" in line) == (2, True)
        assert trio.run(fetch_status, directory / "a.sock")["state"] == "joining"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


@pytest.mark.slow
def test_a_different_order_setting_is_refused_and_a_shared_name_is_reported(directory: Path) -> None:
    config, elsewhere = configure(directory), ("--insecure", "--name", "A", "--status", str(directory / "b.sock"))
    with node(directory, config, "--insecure", "--name", "A", "--events", "-") as first:
        heard = events(first)
        assert next(heard)["event"] == "view"
        other = directory / "other.yaml"
        other.write_text(json.dumps({**json.loads(config.read_text()), "order": "fifo"}))
        with node(directory, other, *elsewhere) as second:
            code, lines = second.wait(LIMIT_S), log_lines(second)
        assert code == 2
        assert lines[-1].startswith("A runs the site NYC with order total, agreement survivors, this member is configured with")
        with node(directory, config, *elsewhere) as third:
            assert next(each for each in heard if each["event"] == "view")["shared_names"] == ["A"]
            assert "2 members are called 'A'" in next(line for line in _stderr(first) if "called" in line)
            [problem] = trio.run(fetch_status, directory / "a.sock")["problems"]
            assert problem.startswith("name: 2 members are called 'A': ")
            third.send_signal(signal.SIGTERM)
            assert third.wait(LIMIT_S) == 0


def first_log_line(process: subprocess.Popen[str]) -> str:
    """Waits for it: by then the node answers for its status."""
    return next(iter(_stderr(process)))


def log_lines(process: subprocess.Popen[str]) -> list[str]:
    """All of a process that has ended."""
    lines = list(_stderr(process))
    assert not any("Traceback" in line for line in lines)
    return lines


def _stderr(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None
    return iter(process.stderr)
