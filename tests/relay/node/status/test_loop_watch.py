"""A member whose event loop was blocked reports for how long."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from relay.node.status.loop_watch import INTERVAL_S, LoopWatch


async def test_a_stall_is_counted_and_said_when_it_is_over(mock_clock: MockClock) -> None:
    watch = LoopWatch()
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            for seconds in (INTERVAL_S, 30.0, INTERVAL_S, 0.1, 2.0):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert watch.stalls == 2
    assert watch.stalled_s == pytest.approx(32.0, abs=2 * INTERVAL_S)
    assert watch.longest_s == pytest.approx(30.0, abs=INTERVAL_S)
    assert [line["event"] for line in log] == ["event loop stalled"] * 2
