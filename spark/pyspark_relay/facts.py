"""Facts: records as rows, with columns shared by several transforms.

Every transform is a pure function of DataFrames. A *stream* is one counter of one origin, as in the
checkers: (origin_site, origin, scope, target), with an empty target for multicasts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pyspark_relay.source.columns import select_schema

STREAM = ("origin_site", "origin", "scope", "target")
#: The key of a reception: all messages of one stream at one process.
RECEPTION = ("site", "uuid", *STREAM)

#: Conditions on the scope of messages; `oob` is out of band and unordered.
IS_MULTICAST = "scope in ('all', 'site')"
IS_UNICAST = "scope in ('unicast', 'oob')"

#: The columns of an audit; fewer columns are faster to read.
_COLUMNS = (
    *("kind", "site", "node", "uuid", "segment", "offset", "position", "views", "wall_ns", "time"),
    *("origin_site", "origin", "scope", "first", "last", "target_site", "target", "via", "gseq", "vid"),
    *("bytes", "sizes", "digest", "lineage", "members", "view_kind", "subs", "gvec", "down", "role", "epoch"),
    *("reason", "certainty", "source", "times", "file", "detail"),
)


def read_facts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.format("relay").option("rows", "records").schema(select_schema(*_COLUMNS))
    return to_facts(reader.option("paths", json.dumps(list(paths))).load())


def to_facts(records: DataFrame) -> DataFrame:
    """Fill in `target`, and replace digest and sizes by their hash `contents`.

    The target of a delivered unicast is the process that delivers it.
    """
    target = F.when(F.col("kind").isin("send", "unreach"), F.coalesce("target", F.lit(""))).otherwise(
        F.when(F.expr(IS_UNICAST), F.col("uuid")).otherwise("")
    )
    contents = F.when(F.col("digest").isNotNull(), F.xxhash64("digest", "sizes"))
    return records.withColumns({"target": target, "contents": contents}).drop("digest", "sizes")


def add_stays(facts: DataFrame) -> DataFrame:
    """Add `stay`, the number of the view in force at the process; 0 before its first view.

    The reader counts views within each segment, so only the counts of segments are summed here.
    """
    segments = (
        facts.where("kind in ('segment', 'view')")
        .groupBy("uuid", "segment")
        .agg(F.sum(F.when(F.col("kind") == "view", 1).otherwise(0)).alias("viewed"))
    )
    earlier = Window.partitionBy("uuid").orderBy("segment").rowsBetween(Window.unboundedPreceding, -1)
    before = segments.select("uuid", "segment", F.coalesce(F.sum("viewed").over(earlier), F.lit(0)).alias("viewed"))
    joined = facts.join(F.broadcast(settle(before)), ["uuid", "segment"], "left")
    return joined.withColumn("stay", F.col("views") + F.coalesce("viewed", F.lit(0))).drop("viewed", "views")


def settle(frame: DataFrame) -> DataFrame:
    """Compute a frame of few rows now, so that its plan is not analysed again with every use.

    The rows stay in the executors or, with a checkpoint directory, in files.
    """
    has_directory = frame.sparkSession.sparkContext.getCheckpointDir() is not None
    return frame.checkpoint() if has_directory else frame.localCheckpoint()


def stream_text() -> Column:
    target = F.when(F.col("target") == "", "").otherwise(F.concat(F.lit(" to "), short("target")))
    return F.concat(origin_text(), F.lit(" "), "scope", target)


def origin_text() -> Column:
    return F.concat("origin_site", F.lit("/"), short("origin"))


def edges_text(first: str = "first", last: str = "last") -> Column:
    return F.concat(F.col(first).cast("string"), F.lit(".."), F.col(last).cast("string"))


def short(uuid: str) -> Column:
    return F.substring(uuid, 1, 8)


def fold_runs(rows: DataFrame, broken_by: Sequence[str] = ()) -> DataFrame:
    """Fold messages into runs of consecutive numbers with equal `kind`, `stay` and `broken_by`.

    `first_last` is the end of the first batch, `last_position` the position of the last batch, and
    `wall_ns` the latest clock. Segments are folded first, which spreads a busy origin over the
    segments of all its receivers.
    """
    columns = (*RECEPTION, "segment", "position", "kind", "stay", "first", "last", "wall_ns", *broken_by)
    ends = {"first_last": F.col("last"), "last_position": F.col("position")}
    within = _fold(rows.select(*columns).withColumns(ends), (*RECEPTION, "segment"), broken_by)
    return _fold(within, RECEPTION, broken_by)


def _fold(rows: DataFrame, keys: Sequence[str], broken_by: Sequence[str]) -> DataFrame:
    ordered = Window.partitionBy(*keys).orderBy("position")
    same = ("kind", "stay", *broken_by)
    previous = F.lag(F.struct(*same, "last")).over(ordered)
    high = F.max("last").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    follows = (F.col("previous.last") + 1 == F.col("first")) & (F.col("high") + 1 == F.col("first"))
    for name in same:
        follows &= F.col(f"previous.{name}").eqNullSafe(F.col(name))
    return (
        rows.withColumns({"previous": previous, "high": high})
        .withColumn("begins", F.when(F.coalesce(follows, F.lit(False)), 0).otherwise(1))
        .withColumn("run", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*keys, *same, "run")
        .agg(
            F.min_by("first_last", "position").alias("first_last"),
            *[F.min(name).alias(name) for name in ("position", "first")],
            *[F.max(name).alias(name) for name in ("last", "last_position", "wall_ns")],
        )
        .drop("segment", "run")
    )
