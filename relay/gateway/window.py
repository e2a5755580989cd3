"""LinkWindow: how many bytes of this site's stream may be in flight on a link."""

from __future__ import annotations

from sitestack.model.trip import TripMeter


class LinkWindow:
    """Twice the acknowledged bytes of a shortest round trip (BBR), within two bounds. It doubles in a
    round trip while it is the limit, and shrinks by an eighth.
    """

    def __init__(self, least: int, most: int) -> None:
        """`least`, `most`: bytes."""
        self.least = least
        self._most = most
        self._trips = TripMeter()
        self.bytes = least

    def limit(self, bytes_max: int) -> None:
        self._most = min(self._most, bytes_max)
        self.least = min(self.least, bytes_max)
        self.bytes = self.least

    def sent(self, in_flight: int, now: float) -> None:
        self._trips.sent(in_flight, now)

    def acknowledged(self, size: int, now: float) -> None:
        if self._trips.confirmed(size, now):
            wanted = round(2 * self._trips.rate * self._trips.least_s)
            self.bytes = min(max(wanted, self.bytes * 7 // 8, self.least), self._most)
