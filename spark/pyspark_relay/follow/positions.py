"""L8 while journals grow: members of a site deliver in one order, compared by a hash for each member and block of places."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST, STREAM, range_text, stream_text, vid_text
from pyspark_relay.promises.findings import text, to_findings
from pyspark_relay.promises.total_order import find_falls, measure_order

#: Places in a block.
BLOCK = 1_000

_BLOCK_OF_VIEW = ("site", "vid", "block")


def add_orders(orders: DataFrame, facts: DataFrame) -> DataFrame:
    """The hashes of each view, member and block of places, with what these facts add."""
    placed = facts.where("gseq is not null").withColumn("block", F.floor(F.col("gseq") / BLOCK))
    columns = [F.sum("batches").alias("batches"), F.bit_xor("order_hash").alias("order_hash")]
    ends = [F.min("low").alias("low"), F.max("high").alias("high"), F.max("last_ns").alias("last_ns")]
    added = orders.unionByName(measure_order(placed, "block").drop("unplaced"))
    return added.groupBy("site", "vid", "uuid", "block").agg(*columns, *ends)


def find_unplaced(orders: DataFrame, facts: DataFrame) -> DataFrame:
    """Findings on places that do not increase, among these facts or after what was known before."""
    member = ("site", "vid", "uuid")
    deliveries = facts.where(f"kind = 'deliver' and gseq is not null and {IS_MULTICAST}")
    known = orders.groupBy(*member).agg(F.max("high").alias("reached"))
    lowest = deliveries.groupBy(*member).agg(F.min(F.struct("gseq", "position")).alias("lowest")).select(*member, "lowest.*")
    before = lowest.join(F.broadcast(known), list(member)).where("gseq <= reached")
    fallen = find_falls(deliveries).unionByName(before.select("site", "vid", "uuid", "position", "gseq", "reached"))
    places = fallen.select("uuid", "position").distinct()
    batches = deliveries.select("uuid", "position", "vid", "gseq", *STREAM, "first", "last").join(
        F.broadcast(places), ["uuid", "position"]
    )
    place = text(" (gseq ", F.col("gseq"), ") in ", vid_text("vid"), " out of the order of places")
    what = text("delivered ", stream_text(), " ", range_text(), place)
    return to_findings(batches, "L8", text("falls ", vid_text("vid")), what, "reordered")


def split_due(orders: DataFrame, due_ns: int) -> tuple[DataFrame, DataFrame]:
    """The blocks in which no member has delivered anything since `due_ns`, and the others."""
    latest = orders.groupBy(*_BLOCK_OF_VIEW).agg(F.max("last_ns").alias("latest_ns"))
    marked = orders.join(F.broadcast(latest), list(_BLOCK_OF_VIEW))
    is_due = F.col("latest_ns") < due_ns
    return marked.where(is_due).drop("latest_ns"), marked.where(~is_due).drop("latest_ns")


def find_different(due: DataFrame) -> DataFrame:
    """Findings on members that delivered equally many batches of a block, but other batches or in other places.

    A member that delivered fewer has either lost some, which shows in the numbers of their origins, or has left early.
    """
    compared = due.groupBy(*_BLOCK_OF_VIEW, "batches").agg(
        F.count_distinct("order_hash").alias("orders"), F.min("low").alias("low"), F.max("high").alias("high")
    )
    differing = compared.where("orders > 1").withColumn("place", F.col("site"))
    what = text("members differ in what they delivered in ", vid_text("vid"), ", gseq ", F.col("low"), " to ", F.col("high"))
    return to_findings(differing, "L8", text("order ", vid_text("vid")), what)
