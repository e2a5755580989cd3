"""Events that cannot be written are counted, and the number is reported after the next success."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.node.daemon import LAST_EVENTS_S
from relay.node.output.lines import RETRY_S, EventOutput, LineSink
from relay.node.status.status_socket import fetch_status
from tests.relay.node.test_daemon import LIMIT_S, configure, first_log_line, node, say


class Disk(LineSink):
    """Takes lines while it has room."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__("/dev/null")
        self.error = error
        self.taken: list[str] = []
        self.attempts = 0

    async def write(self, lines: Sequence[str]) -> None:
        self.attempts += 1
        if self.error is not None:
            self.lost_lines += len(lines)
            raise self.error
        self.taken += lines


FULL = OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_is_retried_after_a_pause_and_missing_lines_are_reported() -> None:
    disk = Disk(FULL)
    output = EventOutput(disk, lambda count, why: [f"{count} missing: {why}"])
    await output.write(["1", "2"], 10.0)
    await output.write(["3"], 10.0 + RETRY_S / 2)
    assert (output.trouble, output.lost_lines, disk.attempts) == ("No space left on device", 3, 1)
    await output.write(["4"], 10.0 + RETRY_S)
    assert (output.lost_lines, disk.attempts) == (4, 2)
    disk.error = None
    for number, line in enumerate(["5", "6"]):
        await output.write([line], 20.0 + number)
    assert disk.taken == ["4 missing: No space left on device", "5", "6"]
    assert (output.trouble, output.lost_lines) == ("", 4)


async def test_a_broken_pipe_raises_and_counts_no_lost_lines() -> None:
    output = EventOutput(Disk(BrokenPipeError()), lambda count, why: [])
    with pytest.raises(BrokenPipeError):
        await output.write(["1"], 0.0)
    assert output.lost_lines == 0


async def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    output = EventOutput(LineSink("/dev/full"), lambda count, why: [])
    await output.write(["1", "2"], 0.0)
    assert (output.trouble, output.lost_lines) == ("No space left on device", 2)


async def test_missing_lines_that_were_reported_are_not_reported_again() -> None:
    class Filling(Disk):
        """A disk with room for the first line only."""

        async def write(self, lines: Sequence[str]) -> None:
            self.taken.append(lines[0])
            self.lost_lines += len(lines) - 1
            if len(lines) > 1:
                raise FULL

    disk = Filling()
    output = EventOutput(disk, lambda count, why: [f"{count} missing"])
    for number in range(3):
        await output.write([f"{number}a", f"{number}b"], 10.0 * number)
    await output.write([], 100.0)
    assert disk.taken == ["0a", "1 missing", "2 missing", "2 missing"]
    assert output.lost_lines == 5


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


def test_events_on_a_full_disk_are_counted_and_the_node_continues(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure", "--publish", "-", "--events", "/dev/full") as process:
        status = ask_until(process, directory / "a.sock", has_problem("--events: cannot be written: No space left"))
        assert status["state"] == "member"
        assert status["node"]["lost_event_lines"] >= 1
        assert end(process) == 0


def test_a_node_continues_with_a_broken_log_pipe_and_counts_lost_lines(directory: Path) -> None:
    with node(directory, configure(directory), "--insecure") as process:
        first_log_line(process)
        assert process.stderr is not None
        process.stderr.close()
        status = ask_until(process, directory / "a.sock", has_problem("log: cannot be written: Broken pipe"))
        assert status["node"]["lost_log_lines"] >= 1
        assert end(process) == 0


@pytest.mark.long
def test_a_signal_ends_a_node_with_unread_events(directory: Path) -> None:
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
