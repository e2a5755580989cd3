"""Rate and round-trip time of a stream whose bytes are confirmed in order."""

from __future__ import annotations

import math

#: Least length (s) of a trip.
TRIP_S_MIN = 1e-4


class TripMeter:
    """Measures one trip at a time (BBR's delivery-rate sample)."""

    __slots__ = ("_began", "_left", "least_s", "rate", "size", "trip_s")

    def __init__(self) -> None:
        #: Bytes a second confirmed during the last trip.
        self.rate = 0.0
        #: Length (s) of the shortest trip so far, which waited in no queue.
        self.least_s = math.inf
        #: Length (s) of the last trip.
        self.trip_s = math.inf
        self._began = 0.0
        #: Bytes under way when the present or last trip began, and those not yet confirmed.
        self.size = self._left = 0

    def sent(self, under_way: int, now: float) -> None:
        if self._left <= 0:
            self.size = self._left = under_way
            self._began = now

    def confirmed(self, size: int, now: float) -> bool:
        """Note confirmed bytes; return True at the end of a trip, when the figures are new."""
        if self._left <= 0:
            return False
        self._left -= size
        if self._left > 0:
            return False
        self.trip_s = max(now - self._began, TRIP_S_MIN)
        self.rate = (self.size - self._left) / self.trip_s
        self.least_s = min(self.least_s, self.trip_s)
        return True
