"""L8: the members of a site deliver all messages, also relayed ones, in one order.

Places (gseq) must strictly increase at each member. Then equal hash sums over (place, batch) mean equal
orders of a view. Only views with different sums (membership changed, or an error) are compared place by
place. `disputes` judges the disputed rows with the checker.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST
from pyspark_relay.promises.disputes import FINDING, judge_view
from pyspark_relay.promises.findings import to_findings

#: Maximum places judged in a view; later disputes are not listed.
DISPUTED_PLACES_MAX = 100_000

_BATCH = ("origin_site", "origin", "scope", "first", "last")


def measure_order(facts: DataFrame) -> DataFrame:
    """Return a row per view and member: `batches`, `unplaced` batches, and `order_hash`.

    `order_hash` is equal for equal batches in equal places.
    """
    placed = F.xxhash64("gseq", *_BATCH)
    return (
        _multicasts(facts)
        .groupBy("site", "vid", "uuid")
        .agg(
            F.count("*").alias("batches"),
            F.bit_xor(placed).alias("order_hash"),
            F.count_if(F.col("gseq").isNull()).alias("unplaced"),
        )
    )


def find_disorder(facts: DataFrame, orders: DataFrame, processes: DataFrame) -> DataFrame:
    """Find violations of L8: different orders of common multicasts, shared or decreasing places.

    Unicasts have no common order.
    """
    multicasts = _multicasts(facts)
    disputed = (
        find_falls(multicasts)
        .select("site", "vid", *_bounds(F.col("gseq"), F.col("reached")))
        .unionByName(_find_conflicts(multicasts, orders))
        .unionByName(orders.where("unplaced > 0").select("site", "vid", *_bounds(F.lit(None), F.lit(None))))
        .groupBy("site", "vid")
        .agg(F.min("low").alias("low"), F.max("high").alias("high"))
        .withColumn("high", F.least("high", F.col("low") + DISPUTED_PLACES_MAX))
    )
    rows = _around(multicasts, disputed, processes)
    row = F.struct("uuid", "node", "label", "position", "gseq", *_BATCH, "order_id", "length")
    # Without Arrow, for which PySpark needs pandas.
    judge = F.udf(judge_view, f"array<struct<{FINDING}>>", useArrow=False)
    views = rows.groupBy("site", "vid").agg(F.collect_list(row).alias("rows"))
    found = views.select(F.explode(judge("vid", "rows")).alias("found")).select("found.*")
    return to_findings(found, "L8", F.col("issue"), F.col("what"), "reordered")


def _multicasts(facts: DataFrame) -> DataFrame:
    return facts.where(f"kind = 'deliver' and {IS_MULTICAST} and stay > 0")


def _bounds(low: Column, high: Column) -> tuple[Column, Column]:
    return low.cast("long").alias("low"), high.cast("long").alias("high")


def find_falls(multicasts: DataFrame) -> DataFrame:
    """Return deliveries whose `gseq` is not above `reached`, the member's earlier maximum.

    A fall between segments yields one row per segment.
    """
    placed = multicasts.where("gseq is not null").select("site", "vid", "uuid", "segment", "position", "gseq")
    segment = ("site", "vid", "uuid", "segment")
    so_far = Window.partitionBy(*segment).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    within = placed.withColumn("reached", F.max("gseq").over(so_far)).where("gseq <= reached")
    ends = placed.groupBy(*segment).agg(
        F.min(F.struct("gseq", "position")).alias("lowest"), F.max("gseq").alias("segment_high")
    )
    earlier = Window.partitionBy("site", "vid", "uuid").orderBy("segment").rowsBetween(Window.unboundedPreceding, -1)
    between = ends.withColumn("reached", F.max("segment_high").over(earlier)).where("lowest.gseq <= reached")
    columns = ("site", "vid", "uuid", "position", "gseq", "reached")
    return within.select(*columns).unionByName(between.select("*", "lowest.*").select(*columns))


def _find_conflicts(multicasts: DataFrame, orders: DataFrame) -> DataFrame:
    """Return places with two batches and batches with two places, in views whose sums differ."""
    differing = (
        orders.groupBy("site", "vid")
        .agg(F.countDistinct("order_hash", "batches").alias("orders"))
        .where("orders > 1")
        .select("site", "vid")
    )
    placed = multicasts.where("gseq is not null").join(F.broadcast(differing), ["site", "vid"])
    holders = placed.groupBy("site", "vid", "gseq").agg(
        F.min(F.struct(*_BATCH)).alias("batch"), F.max(F.struct(*_BATCH)).alias("other")
    )
    taken_twice = holders.where("batch != other").select("site", "vid", *_bounds(F.col("gseq"), F.col("gseq")))
    moved = (
        holders.groupBy("site", "vid", "batch")
        .agg(F.min("gseq").alias("one"), F.max("gseq").alias("two"))
        .where("one != two")
        .select("site", "vid", *_bounds(F.col("one"), F.col("two")))
    )
    return taken_twice.unionByName(moved)


def _around(multicasts: DataFrame, disputed: DataFrame, processes: DataFrame) -> DataFrame:
    """Return the deliveries at disputed places, with an id of each member's order in the view."""
    rows = multicasts.join(F.broadcast(disputed), ["site", "vid"])
    member = Window.partitionBy("site", "vid", "uuid")
    # L2 finds a batch delivered twice at one place.
    again = F.row_number().over(Window.partitionBy("site", "vid", "uuid", "gseq", *_BATCH).orderBy("position"))
    once = rows.withColumn("again", again).where("again = 1")
    batch = F.struct("gseq", *_BATCH)
    chained = once.withColumn("link", F.xxhash64(batch, F.lag(batch).over(member.orderBy("position"))))
    known = F.broadcast(processes.select("uuid", "label"))
    return (
        chained.withColumns({"order_id": F.bit_xor("link").over(member), "length": F.count("*").over(member)})
        .where("low is null or gseq is null or gseq between low and high")
        .join(known, "uuid")
    )
