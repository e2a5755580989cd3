"""The clock of a member's stack and seal: monotonic seconds that include the time of a suspended machine.

CLOCK_MONOTONIC, which trio uses, stops while a machine sleeps; CLOCK_BOOTTIME counts that time, and
so have the peers. A suspension is like a pause of the process.
"""

from __future__ import annotations

import time

import trio

#: The least difference that counts as a suspension (s).
STEP_S = 1.0


def suspended_s() -> float:
    """Return the seconds for which this machine has been suspended since it started, never too many."""
    with_sleep = time.clock_gettime(time.CLOCK_BOOTTIME)
    return with_sleep - time.clock_gettime(time.CLOCK_MONOTONIC)


class StackClock:
    def __init__(self) -> None:
        self._base_s = suspended_s()
        self.slept_s = 0.0

    def now(self) -> float:
        """Return the time of the stack (s); never less than before."""
        slept_s = suspended_s() - self._base_s
        if slept_s > self.slept_s + STEP_S:
            self.slept_s = slept_s
        return trio.current_time() + self.slept_s

    def to_trio(self, when: float) -> float:
        """Return the time of trio's clock (s) at which this clock shows `when`."""
        return when - self.slept_s
