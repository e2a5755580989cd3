"""A child that is tied to its parent is killed with it, in any state."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay_lab.drills.blockable import BLOCK, UNBLOCK
from relay_lab.drills.tether import afterwards, tie
from tests.harness.messages import present

#: Seconds within which tied processes end after their parent.
END_S = 2.0
#: Starts a tied child in a thread that ends, prints the child's number, and waits.
PARENT = """
import subprocess, sys, threading, time
from relay_lab.drills.tether import tie
def start():
    child = subprocess.Popen(tie([sys.executable, "-c", sys.argv[1]]), stdout=subprocess.PIPE)
    child.stdout.readline()
    print(child.pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(60)
"""
CHILDREN = {
    "waiting": "print(flush=True); import time; time.sleep(60)",
    "stopped": "print(flush=True); import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "deaf": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
}


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def with_children(
    command: Sequence[str], directory: Path, at_least: int = 2
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A command whose temporary files are in a directory, once it has so many children, and these."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        while len(children := children_of(process.pid)) < at_least:
            assert process.poll() is None
            time.sleep(0.05)  # nothing tells when another process has children
        yield process, children


def assert_gone(pids: Sequence[int]) -> None:
    """Wait until these processes have ended; fail when one runs on, and kill it."""
    ends = time.monotonic() + END_S
    while any(map(is_running, pids)) and time.monotonic() < ends:
        time.sleep(0.02)
    left = [pid for pid in pids if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_ends_with_its_killed_parent_and_not_with_the_thread_that_started_it(child: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILDREN[child]], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(present(parent.stdout).readline())
        watchers = children_of(pid)
        time.sleep(0.2)
        assert is_running(pid)
        parent.kill()
        assert_gone([pid, *watchers])


def test_the_command_keeps_its_process_id_arguments_and_exit_code_and_leaves_no_watcher() -> None:
    program = "import os, sys; print(os.getpid(), *sys.argv[1:], flush=True); sys.stdin.read(); raise SystemExit(7)"
    command = tie([sys.executable, "-c", program, "a b", "--c"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert present(process.stdout).readline() == f"{process.pid} a b --c\n"
        watchers = children_of(process.pid)
        assert len(watchers) == 1
        present(process.stdin).close()
        assert present(process.stdout).read() == ""  # the watcher does not hold the pipe
        assert process.wait() == 7
        assert_gone(watchers)


def test_a_child_whose_parent_has_ended_before_it_began_does_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    launcher = tie([sys.executable, "-c", "print('began')"])
    launcher[launcher.index(str(os.getpid()))] = str(gone.pid)
    assert subprocess.run(launcher, check=False).returncode == 0
    assert capfd.readouterr().out == ""


#: The main thread prints "m" and another one "t", again and again.
TWO_THREADS = """
import os, threading, time
from relay_lab.drills import blockable

def say(letter):
    while True:
        os.write(1, letter)
        time.sleep(0.01)

blockable.install()
threading.Thread(target=say, args=(b"t",), daemon=True).start()
say(b"m")
"""
LIMIT_S = 30.0


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", TWO_THREADS], stdout=subprocess.PIPE, bufsize=0) as made:
        yield made
        made.kill()


def said(process: subprocess.Popen[bytes], count: int) -> str:
    """Return the next letters of its output."""
    output, letters = present(process.stdout), b""
    while len(letters) < count:
        ready, _, _ = select.select([output], [], [], LIMIT_S)
        assert ready, "it says nothing any more"
        letters += os.read(output.fileno(), count - len(letters))
    return letters.decode()


def test_the_main_thread_is_blocked_until_it_is_released(process: subprocess.Popen[bytes]) -> None:
    assert set(said(process, 40)) == {"m", "t"}
    for _ in range(2):
        # Earlier output may still have to be read.
        process.send_signal(BLOCK)
        assert any(set(said(process, 40)) == {"t"} for _ in range(50))
        process.send_signal(UNBLOCK)
        assert any("m" in said(process, 40) for _ in range(50))


def test_it_is_relay_otherwise() -> None:
    command = [sys.executable, "-m", "relay_lab.drills.blockable", "node", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    assert "Run one member of a site." in told


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_is_to_run_afterwards_runs_only_if_the_process_is_killed(tmp_path: Path, is_killed: bool) -> None:
    pipe = "import subprocess, sys; sweeper = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)"
    end = "import os; os.kill(os.getpid(), 9)" if is_killed else "sweeper.communicate(b'\\n')"
    swept = tmp_path / "swept"
    subprocess.run([sys.executable, "-c", f"{pipe}; {end}", *afterwards(["touch", str(swept)])])
    ends = time.monotonic() + END_S
    while not swept.exists() and time.monotonic() < ends:
        time.sleep(0.02)
    assert swept.exists() is is_killed
