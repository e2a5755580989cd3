"""The send credit: how many bytes a member's senders may have open, under way, or waiting."""

from __future__ import annotations

from sitestack.layers.batching.config import BatchingConfig
from sitestack.model.trip import TripMeter

#: Full batches that the credit always allows: for each member of the view, and in total. With
#: fewer, the pipe runs dry.
BATCHES_EACH_MIN, BATCHES_MIN = 2, 8


class SendCredit:
    """Bounds the delay of multicasts (TCP Vegas): the rate at which own multicasts come back, times
    the shortest trip and `latency_target_s`.

    It grows by at most one batch a trip and shrinks by at most a quarter.
    """

    def __init__(self, config: BatchingConfig) -> None:
        self._target_s = config.latency_target_s
        self._batch_bytes = config.batch_bytes_max
        self._bytes_max = config.send_credit_bytes
        self._bytes_min = min(BATCHES_MIN * config.batch_bytes_max, config.send_credit_bytes)
        self._trips = TripMeter()
        #: constant without a target
        self.bytes = config.send_credit_bytes if config.latency_target_s is None else self._bytes_min

        #: Length (s) of the last trip, until it is taken.
        self._trip_s: float | None = None

    def installed(self, members: int) -> None:
        """Adopt the number of members of a new view, and measure its shortest trip anew."""
        self._trips = TripMeter()
        if self._target_s is not None:
            batches = max(BATCHES_EACH_MIN * members, BATCHES_MIN)
            self._bytes_min = min(batches * self._batch_bytes, self._bytes_max)
            self.bytes = max(self.bytes, self._bytes_min)

    def take_trip(self) -> float | None:
        """Return how long (s) the last measured own multicast took to be delivered here; None: none since the last call."""
        taken, self._trip_s = self._trip_s, None
        return taken

    def sent(self, under_way: int, now: float) -> None:
        self._trips.sent(under_way, now)

    def delivered(self, size: int, now: float) -> None:
        if not self._trips.confirmed(size, now):
            return
        self._trip_s = self._trips.trip_s
        if self._target_s is None:
            return
        # Beside these, one batch is open.
        wanted = round(self._trips.rate * (self._trips.least_s + self._target_s)) + self._batch_bytes
        next_bytes = min(max(wanted, self.bytes * 3 // 4), self.bytes + self._batch_bytes)
        self.bytes = min(max(next_bytes, self._bytes_min, BATCHES_EACH_MIN * size), self._bytes_max)
