"""Virtual time: a heap of things to do. Equal times are served in the order in which they were asked for."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

#: Things that happen within one tick share one turn of a process, as they do on a real machine.
TICK_S = 0.0005


class Schedule:
    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do this at `when` (seconds), or in the current tick if that has passed."""
        self._count += 1
        # Rounded up, so that a timer never fires early.
        tick = max(math.ceil(when / TICK_S), round(self.now / TICK_S))
        if tick * TICK_S < when:
            tick += 1
        heapq.heappush(self._heap, (tick, self._count, action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run_tick(self, until: float) -> bool:
        """Serve everything of the next tick; False when nothing is due before or at `until`, which is then the time."""
        if not self._heap or self._heap[0][0] * TICK_S > until:
            self.now = max(self.now, until)
            return False
        tick = self._heap[0][0]
        self.now = tick * TICK_S
        while self._heap and self._heap[0][0] == tick:
            heapq.heappop(self._heap)[2]()
        return True
