"""Spans: when something was so in a run, for instance that a process stood still."""

from __future__ import annotations

from collections.abc import Sequence


class Spans:
    """Periods of virtual time, each from when it began to when it ended."""

    def __init__(self) -> None:
        self.closed: list[tuple[float, float]] = []
        self.since: float | None = None

    def begin(self, now: float) -> None:
        """It is so from now on, if it was not so already."""
        if self.since is None:
            self.since = now

    def end(self, now: float) -> None:
        if self.since is not None:
            self.closed.append((self.since, now))
            self.since = None

    def until(self, now: float) -> list[tuple[float, float]]:
        return self.closed if self.since is None else [*self.closed, (self.since, now)]


def overlap_s(spans: Sequence[tuple[float, float]], start: float, end: float) -> float:
    return sum(max(0.0, min(until, end) - max(since, start)) for since, until in spans)
