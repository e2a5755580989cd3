"""Sets of message numbers, kept as ranges: a million consecutive numbers cost as much as one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeVar

K = TypeVar("K")


class Ranges:
    """A set of integers as sorted, disjoint, non-adjacent ranges with both ends included."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Unite these (first, last) pairs; a pair with last < first is empty."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Add first..last, in amortised constant time when numbers come in ascending order."""
        if last < first:
            return
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            return
        if first == lasts[-1] + 1:
            lasts[-1] = last
            return
        begin = bisect_left(lasts, first - 1)
        end = bisect_right(firsts, last + 1)
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        firsts[begin:end] = [first]
        lasts[begin:end] = [last]

    def within(self, first: int, last: int) -> Ranges:
        begin, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        return Ranges(
            (max(first, low), min(last, high))
            for low, high in zip(self._firsts[begin:end], self._lasts[begin:end], strict=True)
        )

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and (self._firsts, self._lasts) == (other._firsts, other._lasts)

    __hash__ = None  # type: ignore[assignment]  # a mutable set

    def __or__(self, other: Ranges) -> Ranges:
        # a list of the sets would make room for as many ranges as they have numbers
        return Ranges(sorted([*iter(self), *iter(other)]))

    def __and__(self, other: Ranges) -> Ranges:
        """Intersect, in time proportional to the smaller set, times the logarithm of the other."""
        small, large = (self, other) if len(self._firsts) <= len(other._firsts) else (other, self)
        found = Ranges()
        for first, last in small:
            for each in large.within(first, last):
                found.add(*each)
        return found

    def __sub__(self, other: Ranges) -> Ranges:
        left = Ranges()
        for first, last in self:
            at = first
            for low, high in other.within(first, last):
                left.add(at, low - 1)
                at = high + 1
            left.add(at, last)
        return left

    def __str__(self) -> str:
        """Format for display: `3..7, 9`, cut short after a few."""
        parts = [str(first) if first == last else f"{first}..{last}" for first, last in self]
        return ", ".join(parts[:4]) + (f", ... {len(parts) - 4} more ranges" if len(parts) > 4 else "")

    __repr__ = __str__


def unite_into(sets: dict[K, Ranges], key: K, numbers: Ranges) -> None:
    """Add numbers to the set of a key; equal sets are shared."""
    known = sets.get(key)
    sets[key] = numbers if known is None or known == numbers else known | numbers
