"""A node as a real process whose events or log cannot be written, or have no reader: its site does not notice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.node.daemon import LAST_EVENTS_S
from relay.node.status.status_socket import fetch_status
from tests.relay.node.test_daemon import LIMIT_S, configure, first_log_line, node, say


def ask_until(process: subprocess.Popen[str], path: Path, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The status, once it is as wanted."""
    patience = time.monotonic() + LIMIT_S
    while time.monotonic() < patience:
        with suppress(OSError):
            status = trio.run(fetch_status, path)
            if wanted(status):
                return status
        assert process.poll() is None, "the node has ended"
        time.sleep(0.05)
    raise AssertionError("the status did not become what was wanted")


def has_problem(beginning: str) -> Callable[[dict[str, Any]], object]:
    return lambda status: any(problem.startswith(beginning) for problem in status["problems"])


def end(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(LIMIT_S)


def test_events_on_a_full_disk_are_counted_and_the_node_goes_on(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure", "--publish", "-", "--events", "/dev/full") as process:
        status = ask_until(process, directory / "a.sock", has_problem("--events: cannot be written: No space left"))
        assert status["state"] == "member"
        assert status["node"]["lost_event_lines"] >= 1
        assert end(process) == 0


def test_a_log_that_nobody_reads_any_more_is_written_in_vain(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure") as process:
        first_log_line(process)
        assert process.stderr is not None
        process.stderr.close()
        status = ask_until(process, directory / "a.sock", has_problem("log: cannot be written: Broken pipe"))
        assert status["node"]["lost_log_lines"] >= 1
        assert end(process) == 0


def test_a_log_on_a_full_disk_is_written_in_vain(directory: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with node(directory, configure(directory), "--insecure", log=full) as process:
        ask_until(process, directory / "a.sock", has_problem("log: cannot be written: No space left"))
        assert end(process) == 0
    os.close(full)


@pytest.mark.long
def test_a_signal_ends_a_node_whose_events_nobody_reads(directory: Path) -> None:
    """The member leaves at once; for the last events it waits only so long."""
    pipe = directory / "events"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    with node(directory, configure(directory), "--insecure", "--publish", "-", "--events", str(pipe)) as process:
        say(process, "x" * 1000 + "\n" + "y\n" * 3000)
        ask_until(process, directory / "a.sock", lambda status: status["messages"]["delivered"])
        time.sleep(0.5)  # the pipe fills
        process.send_signal(signal.SIGTERM)
        assert process.wait(LAST_EVENTS_S + 5.0) == 0
    os.close(reader)
