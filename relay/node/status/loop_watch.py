"""LoopWatch: how long this member's event loop stood still, because of a slow disk, a callback or a stopped machine."""

from __future__ import annotations

import structlog
import trio

#: Seconds between two checks: seldom enough to cost nothing, often enough to see most of a stall.
INTERVAL_S = 0.25
#: Shortest stall (s) that counts: heartbeats are as far apart, so other members do not notice a shorter one.
STALL_S = 0.5


class LoopWatch:
    """Measures stalls: sleeps for `INTERVAL_S`, and counts how much later than that it wakes up."""

    def __init__(self) -> None:
        self.stalls = 0
        #: Seconds of all stalls together, and of the longest.
        self.stalled_s = 0.0
        self.longest_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled; a stall is logged when it is over."""
        while True:
            due = trio.current_time() + INTERVAL_S
            await trio.sleep_until(due)
            late_s = trio.current_time() - due
            if late_s >= STALL_S:
                self.stalls += 1
                self.stalled_s += late_s
                self.longest_s = max(self.longest_s, late_s)
                structlog.get_logger().warning("everything stood still", seconds=round(late_s, 3))
