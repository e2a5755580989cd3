"""Sets of message numbers as rows `first..last`, both ends included, and their arithmetic.

A million consecutive numbers cost as much as one; no number is ever exploded into a row. Every operation is one shuffle
by the key and one sort of the rows of a key, of which there are few once deliveries have been folded into runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def merge_ranges(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The union of the ranges of each key: disjoint, and not adjacent. Only the keys and the ends remain."""
    ordered = Window.partitionBy(*keys).orderBy("first", "last")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max("last").over(before)
    begins = F.when(reached.isNull() | (F.col("first") > reached + 1), 1).otherwise(0)
    return (
        ranges.select(*keys, "first", "last", begins.alias("begins"))
        .withColumn("island", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*keys, "island")
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
        .drop("island")
    )


def overlay_ranges(ranges: DataFrame, others: DataFrame, keys: Sequence[str], carried: Sequence[str] = ()) -> DataFrame:
    """Both sets cut into pieces at all their ends: of each piece how many `ranges` and how many `others` cover it.

    Columns: the keys, `first`, `last`, `covers`, `others`, and what is `carried` over from the range that began last.
    """
    edges = (
        _edges(ranges, keys, 1, 0, carried)
        .unionByName(_edges(others, keys, 0, 1, ()), allowMissingColumns=True)
        .repartition(*keys)  # once, for the groups and for the window
        .groupBy(*keys, "at")
        .agg(F.sum("own").alias("own"), F.sum("other").alias("other"), *[F.max(name).alias(name) for name in carried])
    )
    ordered = Window.partitionBy(*keys).orderBy("at")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, 0)
    return edges.select(
        *keys,
        F.col("at").alias("first"),
        (F.lead("at").over(ordered) - 1).alias("last"),
        F.sum("own").over(so_far).alias("covers"),
        F.sum("other").over(so_far).alias("others"),
        *[F.last(name, ignorenulls=True).over(so_far).alias(name) for name in carried],
    ).where("last is not null and covers + others > 0")


def subtract_ranges(ranges: DataFrame, others: DataFrame, keys: Sequence[str], carried: Sequence[str] = ()) -> DataFrame:
    """The parts of `ranges` that no range of `others` covers."""
    pieces = overlay_ranges(ranges, others.select(*keys, "first", "last"), keys, carried)
    return pieces.where("covers > 0 and others = 0").drop("covers", "others")


def overlap(ranges: str, others: str) -> Column:
    """The condition that a range of one alias and one of another have numbers in common."""
    return (F.col(f"{ranges}.first") <= F.col(f"{others}.last")) & (F.col(f"{others}.first") <= F.col(f"{ranges}.last"))


def common_first(ranges: str, others: str) -> Column:
    """The first common number of two overlapping ranges."""
    return F.greatest(F.col(f"{ranges}.first"), F.col(f"{others}.first"))


def common_last(ranges: str, others: str) -> Column:
    """The last common number of two overlapping ranges."""
    return F.least(F.col(f"{ranges}.last"), F.col(f"{others}.last"))


def count_numbers(parts: Mapping[str, DataFrame], keys: Sequence[str]) -> DataFrame:
    """How many numbers the ranges of each part hold, a column a part and a row a key; ranges with `times` count so often."""
    columns = list(parts)
    counted = []
    for name, ranges in parts.items():
        numbers = F.col("last") - F.col("first") + 1
        own = numbers * F.col("times") if "times" in ranges.columns else numbers
        counted.append(ranges.select(*keys, *[(own if each == name else F.lit(0)).alias(each) for each in columns]))
    return reduce(DataFrame.unionByName, counted).groupBy(*keys).agg(*[F.sum(name).alias(name) for name in columns])


def _edges(ranges: DataFrame, keys: Sequence[str], own: int, other: int, carried: Sequence[str]) -> DataFrame:
    begins = ranges.select(*keys, F.col("first").alias("at"), F.lit(own).alias("own"), F.lit(other).alias("other"), *carried)
    ends = ranges.select(*keys, (F.col("last") + 1).alias("at"), F.lit(-own).alias("own"), F.lit(-other).alias("other"))
    return begins.unionByName(ends, allowMissingColumns=True)
