"""Memory that a burst took goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
from trio.testing import MockClock

from relay.node import daemon
from relay.node.daemon import TRIM_INTERVAL_S, find_trim, give_back_memory

#: Frees nine of ten bodies between others, and prints the memory of the process: before, then, and after a trim.
_BURST = """
import random
from relay.node.daemon import find_trim

def resident_kb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4

random.seed(1)
bodies = [bytes(random.randint(600, 60_000)) for _ in range(2_000)]
print(resident_kb())
bodies = bodies[::10]
print(resident_kb())
find_trim()(0)
print(resident_kb())
"""


@pytest.mark.skipif(find_trim() is None, reason="glibc only")
def test_trimming_returns_the_memory_that_a_burst_freed_between_live_objects() -> None:
    answer = subprocess.run([sys.executable, "-c", _BURST], check=True, capture_output=True, text=True)
    full, freed, trimmed = map(int, answer.stdout.split())
    assert freed > 0.8 * full, "of itself nothing does"
    assert trimmed < 0.7 * full


async def test_it_is_done_now_and_then_until_the_node_ends(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    times: list[float] = []

    def trim(keep_bytes: int) -> int:
        assert keep_bytes == 0
        times.append(trio.current_time())
        return 1

    monkeypatch.setattr(daemon, "find_trim", lambda: trim)
    began = trio.current_time()
    with trio.move_on_after(3.5 * TRIM_INTERVAL_S):
        await give_back_memory()
    assert [round(each - began) for each in times] == [TRIM_INTERVAL_S, 2 * TRIM_INTERVAL_S, 3 * TRIM_INTERVAL_S]


async def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    monkeypatch.setattr(daemon, "find_trim", lambda: None)
    with trio.fail_after(1.0):
        await give_back_memory()
