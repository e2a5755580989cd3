"""Levels: how full each bounded thing is. Status, metrics and the checks of rest read levels, and nothing else."""

from __future__ import annotations


class Level:
    """How much is in a queue, a window, a buffer or a table: now, at most since the start, and at most ever.

    It lives where the queue lives. A part that counts the contents keeps one level and counts in it; where a length tells all,
    a level is made when it is asked for (`of`). Readers never change a level.
    """

    __slots__ = ("bound", "high", "now", "stands")

    def __init__(self, bound: int | None, stands: str = "") -> None:
        """`bound` is None for contents that another bound keeps small.

        `stands` says why something is left when nothing goes on any more; without such a reason, contents at rest are a leak.
        """
        self.bound = bound
        self.stands = stands
        self.now = 0
        #: The highest `now` so far; None where it is not counted.
        self.high: int | None = 0

    @classmethod
    def of(cls, now: int, bound: int | None, stands: str = "", high: int | None = None) -> Level:
        """The present level of something that is counted elsewhere."""
        level = cls(bound, stands)
        level.now, level.high = now, high
        return level

    def add(self, amount: int) -> None:
        """Add to the contents, and note a new high. What leaves is subtracted from `now`."""
        self.now = now = self.now + amount
        if now > (self.high or 0):
            self.high = now

    def fits(self, amount: int) -> bool:
        """Whether there is room for this much more."""
        return self.bound is None or self.now + amount <= self.bound

    @property
    def is_over(self) -> bool:
        """Whether the bound is exceeded."""
        return not self.fits(0)

    @property
    def is_at_rest(self) -> bool:
        """Whether the contents are as they should be when nothing goes on any more."""
        return not self.now or bool(self.stands)

    def __repr__(self) -> str:
        return f"Level({self.now} of {self.bound}, at most {self.high})"
