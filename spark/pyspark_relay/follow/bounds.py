"""Bounds that keep the state of `relay audit --follow` small, and notes that say what was given up at a bound.

A note is a row with `note` (its kind), `place`, `times` (how often) and `what`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.facts import RECEPTION
from pyspark_relay.promises.findings import text

#: The most ranges of a kind that a reception keeps, the newest ones. An undisturbed reception has a single range.
RANGES_MAX = 200
#: Horizons after which a process that has written nothing is forgotten.
SILENT_HORIZONS = 4


def bound_ranges(ranges: DataFrame, keys: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """The newest ranges of each key, and the older ones as one range from end to end; and notes on how many became one."""
    newest = Window.partitionBy(*keys).orderBy(F.desc("last"))
    age = F.least(F.row_number().over(newest), F.lit(RANGES_MAX))
    kept = ranges.withColumn("age", age).groupBy(*keys, "age")
    folded = kept.agg(F.min("first").alias("first"), F.max("last").alias("last"), F.count("*").alias("folded"))
    what = f"more than {RANGES_MAX} ranges of one origin: what was missing before the newest counts as dealt with"
    notes = _notes(folded.where("folded > 1"), "bounded", F.substring("uuid", 1, 8), F.sum(F.col("folded") - 1), what)
    return folded.drop("age", "folded"), notes


def newest_ranges(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The newest ranges of each key; older ones are forgotten."""
    age = F.row_number().over(Window.partitionBy(*keys).orderBy(F.desc("last")))
    return ranges.withColumn("age", age).where(F.col("age") <= RANGES_MAX).drop("age")


def split_silent(processes: DataFrame, now_ns: int, horizon_ns: int) -> tuple[DataFrame, DataFrame]:
    """The processes to remember; and notes on those that fell silent without a stop record and are forgotten."""
    is_done = F.col("stopped") & (F.col("last_ns") < now_ns - horizon_ns)
    is_silent = ~F.col("stopped") & (F.col("last_ns") < now_ns - SILENT_HORIZONS * horizon_ns)
    silent_s = SILENT_HORIZONS * horizon_ns // 1_000_000_000
    what = f"silent for more than {silent_s} s, and forgotten: what it writes later is judged like a new journal"
    return processes.where(~is_done & ~is_silent), _notes(
        processes.where(is_silent), "forgotten", F.col("label"), F.count("*"), what
    )


def find_late(facts: DataFrame, due_ns: int, horizon_s: int) -> DataFrame:
    """Notes on records that came later than the horizon allows."""
    late = facts.where(F.col("wall_ns") < due_ns)
    what = (
        f"records came more than {horizon_s} s after others of their time: they are judged for duplicates, holes and places, "
        "and may be missing in rates and lags"
    )
    return _notes(late, "late", F.col("site"), F.count("*"), what)


def find_unjudged(pairs: DataFrame, why: Column) -> DataFrame:
    """Notes on messages of which it cannot be said whether a receiver should have them."""
    messages = F.sum(F.col("last") - F.col("first") + 1)
    rows = pairs.withColumn("place", F.col("site")).withColumn("why", why)
    told = rows.groupBy("place", "why").agg(messages.alias("times"))
    what = text("messages whose arrival was not judged: ", F.col("why"))
    return told.select(F.lit("unjudged").alias("note"), "place", "times", what.alias("what"))


def _notes(rows: DataFrame, note: str, place: Column, times: Column, what: str) -> DataFrame:
    counted = rows.groupBy(place.alias("place")).agg(times.cast("long").alias("times"))
    return counted.select(F.lit(note).alias("note"), "place", "times", F.lit(what).alias("what"))


#: The keys of what is carried from batch to batch.
CARRIED = (*RECEPTION, "kind")
