"""How long everything of this member stood still: for a slow disk, a callback, a machine that was stopped."""

from __future__ import annotations

import structlog
import trio

#: How often to look: seldom enough to cost nothing, often enough to see most of a stall.
INTERVAL_S = 0.25
#: Less is seen by nobody else: heartbeats are as far apart.
STALL_S = 0.5


class LoopWatch:
    """Wakes up at times and sees how late it is."""

    def __init__(self) -> None:
        self.stalls = 0
        #: Their lengths together, and the longest.
        self.stalled_s = 0.0
        self.longest_s = 0.0

    async def run(self) -> None:
        """Look until cancelled; a stall is said in the log when it is over."""
        while True:
            due = trio.current_time() + INTERVAL_S
            await trio.sleep_until(due)
            late_s = trio.current_time() - due
            if late_s >= STALL_S:
                self.stalls += 1
                self.stalled_s += late_s
                self.longest_s = max(self.longest_s, late_s)
                structlog.get_logger().warning("everything stood still", seconds=round(late_s, 3))
