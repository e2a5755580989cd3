"""A member whose event loop a drill can block: its main thread stands still, and nothing else of it does."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from relay_lab.drills.blockable import BLOCK, UNBLOCK

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
    assert process.stdout is not None
    letters = b""
    while len(letters) < count:
        ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
        assert ready, "it says nothing any more"
        letters += os.read(process.stdout.fileno(), count - len(letters))
    return letters.decode()


def test_the_main_thread_stands_still_until_it_is_let_go(process: subprocess.Popen[bytes]) -> None:
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
