"""Histograms of durations, with the buckets of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

#: Upper bounds of the buckets (s); one more takes all longer durations.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(slots=True)
class Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, duration_s: float) -> None:
        self.counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


def cumulative(plain: Mapping[str, Any]) -> tuple[list[tuple[str, float]], float]:
    """Return the buckets and the sum of a histogram in a status, as Prometheus has them."""
    names = [*map(str, BOUNDS_S), "+Inf"]
    return list(zip(names, map(float, accumulate(plain["counts"])), strict=True)), plain["sum_s"]
