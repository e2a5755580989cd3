"""Levels: how full everything is that has a bound. Status, metrics and the checks of rest read levels, and nothing else."""

from __future__ import annotations


class Level:
    """How much is in a queue, a window, a buffer or a table: now, at most since the start, and at most ever.

    It lives where the queue lives. Who counts what it holds keeps one and counts in it; where a length says all that there is
    to say, one is made when somebody asks (`of`). Who is handed one reads it and does not change it.
    """

    __slots__ = ("bound", "high", "now", "stands")

    def __init__(self, bound: int | None, stands: str = "") -> None:
        """`bound` is None for what another bound keeps small. `stands`: why something is left in it when nothing goes on any
        more; without a reason it is empty then, and one that is not is a leak.
        """
        self.bound = bound
        self.stands = stands
        self.now = 0
        #: The most that was ever in it; None where nobody counts that.
        self.high: int | None = 0

    @classmethod
    def of(cls, now: int, bound: int | None, stands: str = "", high: int | None = None) -> Level:
        """The level at this moment of what is counted in another way."""
        level = cls(bound, stands)
        level.now, level.high = now, high
        return level

    def add(self, amount: int) -> None:
        """So much more is in it. What leaves is taken off `now`."""
        self.now = now = self.now + amount
        if now > (self.high or 0):
            self.high = now

    def fits(self, amount: int) -> bool:
        """Whether there is room for so much more."""
        return self.bound is None or self.now + amount <= self.bound

    @property
    def is_over(self) -> bool:
        """Whether there is more in it than there should be."""
        return not self.fits(0)

    @property
    def is_at_rest(self) -> bool:
        """Whether it is as it is when nothing goes on any more."""
        return not self.now or bool(self.stands)

    def __repr__(self) -> str:
        return f"Level({self.now} of {self.bound}, at most {self.high})"
