"""Monitor of event-loop stalls: a slow disk, a callback or a stopped machine."""

from __future__ import annotations

import structlog
import trio

from relay.node.status.histogram import Histogram

#: Seconds between two checks.
INTERVAL_S = 0.25
#: Shortest counted stall (s): the heartbeat interval.
STALL_S = 0.5


class LoopWatch:
    def __init__(self) -> None:
        self.stalls = 0
        self.stalled_s = 0.0
        self.delays = Histogram()

    async def run(self) -> None:
        while True:
            due = trio.current_time() + INTERVAL_S
            await trio.sleep_until(due)
            late_s = max(0.0, trio.current_time() - due)
            self.delays.observe(late_s)
            if late_s >= STALL_S:
                self.stalls += 1
                self.stalled_s += late_s
                structlog.get_logger().warning("event loop stalled", seconds=round(late_s, 3))
