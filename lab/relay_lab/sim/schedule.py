"""Virtual time: a heap of things to do. Equal times are served in the order in which they were asked for."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

#: Things that happen within one tick share one turn of a process, as they do on a real machine.
TICK_S = 0.0005


class Schedule:
    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        #: The tick of the present time, and the tick of what is to be done now: the next one if `now` was rounded up.
        self._tick = self._soon_tick = 0
        #: What is to be done in the tick that is being served, after everything in the heap.
        self._soon: deque[Callable[[], None]] = deque()
        self._is_serving = False

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do this at `when` (seconds), or in the current tick if that has passed."""
        self._put(max(_tick_of(when), self._tick), action)

    def soon(self, action: Callable[[], None]) -> None:
        """Do this at the end of the current tick."""
        self._put(self._soon_tick, action)

    def _put(self, tick: int, action: Callable[[], None]) -> None:
        if self._is_serving and tick == self._tick:
            self._soon.append(action)
        else:
            self._count += 1
            heapq.heappush(self._heap, (tick, self._count, action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run_tick(self, until: float) -> bool:
        """Serve everything of the next tick; False when nothing is due before or at `until`, which is then the time."""
        heap, soon = self._heap, self._soon
        if not heap or heap[0][0] * TICK_S > until:
            self._move_to(max(self.now, until))
            return False
        tick = heap[0][0]
        self._move_to(tick * TICK_S)
        self._is_serving = True
        while heap and heap[0][0] == tick:
            heapq.heappop(heap)[2]()
        while soon:
            soon.popleft()()
        self._is_serving = False
        return True

    def _move_to(self, now: float) -> None:
        self.now, self._tick = now, round(now / TICK_S)
        self._soon_tick = max(_tick_of(now), self._tick)


def _tick_of(when: float) -> int:
    """Return the first tick at this time (s) or after it, so that a timer never fires early."""
    tick = math.ceil(when / TICK_S)
    return tick + 1 if tick * TICK_S < when else tick
