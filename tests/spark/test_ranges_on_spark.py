"""Arithmetic of ranges against sets of numbers, on random ranges of many keys at once."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_relay.ranges import merge_ranges, overlay_ranges, subtract_ranges

KEYS = 60
Ranges = list[tuple[int, int, int]]
SCHEMA = "key int, first long, last long"


def some_ranges(seed: int) -> Ranges:
    rng = random.Random(seed)
    return [
        (key, first, first + rng.randrange(6))
        for key in range(KEYS)
        for first in (rng.randrange(30) for _ in range(rng.randrange(6)))
    ]


def covers(ranges: Ranges) -> Counter[tuple[int, int]]:
    """How many ranges of a key cover each number."""
    return Counter((key, number) for key, first, last in ranges for number in range(first, last + 1))


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return spark.createDataFrame(some_ranges(1), SCHEMA), spark.createDataFrame(some_ranges(2), SCHEMA)


def collected(frame: DataFrame) -> Ranges:
    return sorted((row["key"], row["first"], row["last"]) for row in frame.collect())


def test_a_union_is_disjoint_and_not_adjacent(both: tuple[DataFrame, DataFrame]) -> None:
    merged = collected(merge_ranges(both[0], ["key"]))
    assert covers(merged) == dict.fromkeys(covers(some_ranges(1)), 1)
    for (key, _, last), (next_key, first, _) in pairwise(merged):
        assert key != next_key or first > last + 1


def test_a_difference_holds_what_the_other_lacks(both: tuple[DataFrame, DataFrame]) -> None:
    left = covers(collected(subtract_ranges(*both, ["key"])))
    assert left.keys() == covers(some_ranges(1)).keys() - covers(some_ranges(2)).keys()
    assert set(left.values()) == {1}


def test_an_overlay_counts_the_covers_of_both(both: tuple[DataFrame, DataFrame]) -> None:
    own, other = covers(some_ranges(1)), covers(some_ranges(2))
    seen = set()
    for row in overlay_ranges(*both, ["key"]).collect():
        for number in range(row["first"], row["last"] + 1):
            place = (row["key"], number)
            assert (row["covers"], row["others"]) == (own[place], other[place])
            assert place not in seen
            seen.add(place)
    assert seen == own.keys() | other.keys()
