"""Levels: the fill of each bounded container, for status, metrics and the checks at rest."""

from __future__ import annotations


class Level:
    """The contents of a queue, a window, a buffer or a table: now, highest since the start, and bound."""

    __slots__ = ("bound", "high", "now", "stands")

    def __init__(self, bound: int | None, stands: str = "") -> None:
        """`bound`: None if another bound keeps the contents small. `stands`: why contents may remain
        at rest; otherwise they are a leak.
        """
        self.bound = bound
        self.stands = stands
        self.now = 0
        #: None where it is not counted.
        self.high: int | None = 0

    @classmethod
    def of(cls, now: int, bound: int | None, stands: str = "", high: int | None = None) -> Level:
        """Return the present level of something that is counted elsewhere."""
        level = cls(bound, stands)
        level.now, level.high = now, high
        return level

    def add(self, amount: int) -> None:
        """Add to the contents; departing contents are subtracted from `now`."""
        self.now = now = self.now + amount
        if now > (self.high or 0):
            self.high = now

    def fits(self, amount: int) -> bool:
        return self.bound is None or self.now + amount <= self.bound

    @property
    def is_over(self) -> bool:
        return not self.fits(0)

    @property
    def is_at_rest(self) -> bool:
        return not self.now or bool(self.stands)

    def __repr__(self) -> str:
        return f"Level({self.now} of {self.bound}, at most {self.high})"
