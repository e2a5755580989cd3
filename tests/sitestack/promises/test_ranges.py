"""Ranges are sets of numbers: a plain set agrees with every operation."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sitestack.promises.ranges import Ranges

_pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(-2, 12)).map(lambda pair: (pair[0], sum(pair))), max_size=12)


def plain(ranges: Ranges) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def expand(pairs: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in pairs for number in range(first, last + 1)}


@given(_pairs)
def test_adding(pairs: list[tuple[int, int]]) -> None:
    ranges = Ranges(pairs)
    numbers = expand(pairs)
    assert plain(ranges) == numbers
    assert len(ranges) == len(numbers)
    assert bool(ranges) == bool(numbers)
    assert all((number in ranges) == (number in numbers) for number in range(80))
    listed = list(ranges)
    assert all(first <= last for first, last in listed)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(listed))


@given(_pairs, _pairs, st.integers(0, 80), st.integers(0, 80))
def test_operations(one: list[tuple[int, int]], other: list[tuple[int, int]], first: int, last: int) -> None:
    left, right = Ranges(one), Ranges(other)
    assert plain(left | right) == plain(left) | plain(right)
    assert plain(left & right) == plain(left) & plain(right)
    assert plain(left - right) == plain(left) - plain(right)
    assert plain(left.within(first, last)) == plain(left) & set(range(first, last + 1))
    assert (left == right) == (plain(left) == plain(right))


def test_words() -> None:
    assert str(Ranges([(3, 7), (9, 9)])) == "3..7, 9"
    assert str(Ranges([(n, n) for n in range(0, 20, 2)])) == "0, 2, 4, 6, ... 6 more ranges"


def test_a_union_takes_room_for_ranges_and_not_for_numbers() -> None:
    assert Ranges([(1, 1 << 60)]) | Ranges([(1 << 61, 1 << 61)]) == Ranges([(1, 1 << 60), (1 << 61, 1 << 61)])
