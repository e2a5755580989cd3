"""LinkWindow: how many bytes of this site's stream may be in flight on a link."""

from __future__ import annotations

from collections import deque

from sitestack.model.trip import TripMeter

#: Round trips with the least window, of which the shortest counts.
TRIPS = 8
#: A trip that begins with this part of the least window under way, or with less, waits in no queue of
#: this link.
CLEAR_PART = 8


class LinkWindow:
    """Twice the acknowledged bytes of a shortest round trip (BBR), within two bounds. It doubles in a
    round trip while it is the limit, and shrinks by an eighth.

    A shortest trip is forgotten when few bytes are under way, as after a pause, and at the least
    window. So a queue on the way grows no window beyond twice the least one.
    """

    def __init__(self, least: int, most: int) -> None:
        """`least`, `most`: bytes."""
        self.least = least
        self._most = most
        self._trips = TripMeter()
        self._shortest: deque[float] = deque(maxlen=TRIPS)
        self.bytes = least

    def limit(self, bytes_max: int) -> None:
        self._most = min(self._most, bytes_max)
        self.least = min(self.least, bytes_max)
        self.bytes = self.least

    def sent(self, in_flight: int, now: float) -> None:
        self._trips.sent(in_flight, now)

    def acknowledged(self, size: int, now: float) -> None:
        trips, shortest = self._trips, self._shortest
        if trips.confirmed(size, now):
            if trips.size <= self.least // CLEAR_PART:
                shortest.clear()
            if self.bytes == self.least or not shortest or trips.trip_s < min(shortest):
                shortest.append(trips.trip_s)
            wanted = round(2 * trips.rate * min(shortest))
            self.bytes = min(max(wanted, self.bytes * 7 // 8, self.least), self._most)
