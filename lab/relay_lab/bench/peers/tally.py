"""What a member of a peer counts and checks of what it is delivered; the same as our members do, message by message."""

from __future__ import annotations

import time
from typing import Any

from relay_lab.bench.content import FILLER
from relay_lab.bench.peers.task import DATA, HEADER, NUMBERS, PROBE, SAMPLED


class Tally:
    """Counts deliveries; `wrong` are those that do not follow the last one of their origin, or do not hold what was sent."""

    def __init__(self, members: int) -> None:
        self.delivered = 0
        self.wrong = 0
        #: The origins of which something has come.
        self.heard: set[int] = set()
        #: The number that each origin's next message must have.
        self.expected = [0] * members
        self._latencies_ns: list[int] | None = None

    def take(self, payload: bytes) -> None:
        """Look at a message."""
        kind, origin, size, number, sent_ns = HEADER.unpack_from(payload)
        if kind == DATA:
            if number != self.expected[origin] or size != len(payload) & 0xFFFF:
                self.wrong += 1
            self.expected[origin] = (number + 1) % NUMBERS
            self.delivered += 1
            if not number % SAMPLED:
                self._look(payload, sent_ns)
        elif kind == PROBE:
            self.heard.add(origin)

    def _look(self, payload: bytes, sent_ns: int) -> None:
        if not payload.endswith(FILLER * (len(payload) - HEADER.size)):
            self.wrong += 1
        if self._latencies_ns is not None:
            self._latencies_ns.append(time.monotonic_ns() - sent_ns)

    def begin(self) -> tuple[int, float, float]:
        """A window begins."""
        self._latencies_ns = []
        return self.delivered, time.perf_counter(), time.process_time()

    def end(self, began: tuple[int, float, float]) -> dict[str, Any]:
        """What was delivered in the window, and what this process spent."""
        latencies, self._latencies_ns = sorted(self._latencies_ns or ()), None
        return {
            "delivered": self.delivered - began[0],
            "seconds": time.perf_counter() - began[1],
            "cpu_s": time.process_time() - began[2],
            "p50_us": _percentile_us(latencies, 50),
            "p99_us": _percentile_us(latencies, 99),
        }


def _percentile_us(ordered: list[int], percent: int) -> float | None:
    return ordered[len(ordered) * percent // 100] / 1000 if ordered else None
