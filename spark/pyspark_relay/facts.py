"""Facts: the records as rows, with the columns that several transforms need computed once.

Every transform is a pure function from DataFrames to a DataFrame. A *stream* is what it is to the checkers: one counter of one
origin, (origin_site, origin, scope, target), with an empty target for multicasts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pyspark_relay.source.columns import select_schema

STREAM = ("origin_site", "origin", "scope", "target")
#: The key of a reception: what one process received of one stream.
RECEPTION = ("site", "uuid", *STREAM)

#: Conditions on the scope of messages; `oob` is out of band and has no order.
IS_MULTICAST = "scope in ('all', 'site')"
IS_UNICAST = "scope in ('unicast', 'oob')"
IS_ORDERED = "scope != 'oob'"

#: The columns that an audit needs: reading fewer columns is less work.
_COLUMNS = (
    *("kind", "site", "node", "uuid", "segment", "offset", "position", "views", "wall_ns", "time"),
    *("origin_site", "origin", "scope", "first", "last", "target_site", "target", "via", "gseq", "vid"),
    *("bytes", "sizes", "digest", "lineage", "members", "view_kind", "subs", "gvec", "down", "role", "epoch"),
    *("reason", "certainty", "source", "times", "file", "detail"),
)


def read_facts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """All records under these paths as facts."""
    return to_facts(spark.read.format("relay").schema(select_schema(*_COLUMNS)).option("paths", json.dumps(list(paths))).load())


def to_facts(records: DataFrame) -> DataFrame:
    """Records with `target` filled in, and with `contents`, a hash of digest and sizes, in the place of these two.

    The target of a delivered unicast is the process that delivers it.
    """
    target = F.when(F.col("kind").isin("send", "unreach"), F.coalesce("target", F.lit(""))).otherwise(
        F.when(F.expr(IS_UNICAST), F.col("uuid")).otherwise("")
    )
    contents = F.when(F.col("digest").isNotNull(), F.xxhash64("digest", "sizes"))
    return records.withColumns({"target": target, "contents": contents}).drop("digest", "sizes")


def add_stays(facts: DataFrame) -> DataFrame:
    """Facts with `stay`, the number of the view in force at the process; 0 is the time before its first view.

    The reader has counted the views within each segment, so that only the counts of segments have to be added up.
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


def find_stays(events: DataFrame) -> DataFrame:
    """The views of each process: `stay`, `vid`, `members` (uuids) and so on, with the vid before and the view after."""
    ordered = Window.partitionBy("uuid").orderBy("stay")
    return events.where("kind = 'view'").select(
        "uuid",
        "site",
        "position",
        "stay",
        "vid",
        "lineage",
        F.transform("members", lambda member: member["uuid"]).alias("members"),
        "view_kind",
        "subs",
        F.lag("vid").over(ordered).alias("previous_vid"),
        F.lead("vid").over(ordered).alias("next_vid"),
        F.lead("view_kind").over(ordered).alias("next_kind"),
    )


def settle(frame: DataFrame) -> DataFrame:
    """Compute a frame of few rows now: the plan of a frame that much is built on would be analysed again with every step.

    The rows are kept by the executors or, where a checkpoint directory is set, in files.
    """
    has_directory = frame.sparkSession.sparkContext.getCheckpointDir() is not None
    return frame.checkpoint() if has_directory else frame.localCheckpoint()


def stream_text() -> Column:
    """A stream for people."""
    target = F.when(F.col("target") == "", "").otherwise(F.concat(F.lit(" to "), short("target")))
    return F.concat(origin_text(), F.lit(" "), "scope", target)


def origin_text() -> Column:
    """An origin for people."""
    return F.concat("origin_site", F.lit("/"), short("origin"))


def edges_text(first: str = "first", last: str = "last") -> Column:
    """The ends of a batch for people."""
    return F.concat(F.col(first).cast("string"), F.lit(".."), F.col(last).cast("string"))


def range_text() -> Column:
    """The range `first..last` for people; a single number as it is."""
    return F.when(F.col("first") == F.col("last"), F.col("first").cast("string")).otherwise(edges_text())


def vid_text(vid: str) -> Column:
    """A view id for people."""
    return F.concat(short(f"{vid}.creator"), F.lit("|"), F.col(f"{vid}.counter").cast("string"))


def short(uuid: str) -> Column:
    """The beginning of a uuid."""
    return F.substring(uuid, 1, 8)


def add_came_with(rows: DataFrame, stays: DataFrame, name: str, who: str, vid: str, next_vid: str, next_kind: str) -> DataFrame:
    """Rows with the boolean `name`: whether process `who` went to `next_vid` together with the members that came from `vid`.

    True for every process that installs a plain view; for a merge view only for those that came from the same view.
    """
    arrivals = stays.select(
        F.col("uuid").alias(who),
        F.col("vid").alias(next_vid),
        F.col("previous_vid").alias("came_from"),
        F.lit(True).alias("arrived"),
    )
    came = F.col("arrived") & ((F.col(next_kind) == "view") | F.col("came_from").eqNullSafe(F.col(vid)))
    joined = rows.join(F.broadcast(arrivals), [who, next_vid], "left")
    return joined.withColumn(name, F.coalesce(came, F.lit(False))).drop("came_from", "arrived")
