"""X5: between sites nothing is lost in silence. Every number an origin has sent is delivered at every other site, or declared
lost there, or before the baseline, or reported as unreached.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import RECEPTION, STREAM, settle, stream_text
from pyspark_relay.promises.elders import find_elders
from pyspark_relay.promises.findings import phrase, tell_ranges, to_findings
from pyspark_relay.ranges import count_numbers, merge_ranges, subtract_ranges
from sitestack.promises.sites import UNACCOUNTED


def measure_conservation(owed: DataFrame, received: DataFrame, dealt_with: DataFrame) -> DataFrame:
    """The account of each origin at each survivor of another site: `sent` = `delivered` + `excused` + `missing`.

    `excused` is what a gap, the baseline or a report of the origin covers. What is missing may still be owed by nobody:
    `find_unconserved` knows who joined too late for it.
    """
    missing = subtract_ranges(owed, dealt_with, RECEPTION)
    expected = merge_ranges(owed, RECEPTION)
    delivered = received.where("scope = 'all' and origin_site != site")
    sums = count_numbers({"sent": expected, "delivered": delivered, "missing": missing}, RECEPTION)
    judged = sums.where("sent > 0").withColumn("excused", F.col("sent") - F.col("delivered") - F.col("missing"))
    return judged.select("origin_site", "origin", "site", "uuid", "sent", "delivered", "excused", "missing")


def find_unconserved(owed: DataFrame, stays: DataFrame, dealt_with: DataFrame) -> DataFrame:
    """X5, quiescent runs, at every survivor of another site.

    A process that joined a view whose members had dealt with a message before that view does not owe it.
    """
    missing = settle(subtract_ranges(owed, dealt_with, RECEPTION))
    if not missing.isEmpty():
        missing = subtract_ranges(missing, _inherited(missing, stays, dealt_with), RECEPTION)
    what = phrase(UNACCOUNTED, stream=stream_text(), numbers=F.col("numbers"))
    return to_findings(tell_ranges(missing, RECEPTION), "X5", stream_text(), what, "lost")


def find_owed_across(
    sent: DataFrame, events: DataFrame, received: DataFrame, stays: DataFrame, processes: DataFrame
) -> DataFrame:
    """What every survivor should have of every origin of the other sites that relays join.

    "Sent" by a crashed origin is what some survivor of its site has delivered: the rest died with it. So it is when the
    origin left and nobody lives who was in its last view, and of what a leaver reports that it never saw delivered.
    Sites that never journaled a global view are not joined.
    """
    joined = events.where("kind = 'gview'").select("site").distinct()
    survivors = processes.where("fate = 'running'").join(joined, "site").select("site", "uuid")
    sends = sent.where("scope = 'all'").select(*STREAM, "first", "last")
    unreached = events.where("kind = 'unreach' and scope = 'all'").select(
        *STREAM[:-1], F.lit("").alias("target"), F.col("target_site").alias("site"), "first", "last"
    )
    left_behind = settle(unreached.where("site = ''"))
    if not left_behind.isEmpty():
        sends = subtract_ranges(sends, left_behind, STREAM)
    at_home = received.where("scope = 'all' and site = origin_site").join(F.broadcast(survivors.select("uuid")), "uuid")
    owed = (
        sends.withColumn("is_send", F.lit(True))
        .unionByName(at_home.select(*STREAM, "first", "last").withColumn("is_send", F.lit(False)))
        .join(F.broadcast(_find_lasting(stays, processes)), ["origin", "origin_site"])
        .join(F.broadcast(joined.withColumnRenamed("site", "origin_site")), "origin_site")
        .where("if(is_send, lasts, fate != 'running')")
    )
    expected = merge_ranges(owed, STREAM).join(F.broadcast(survivors), F.col("site") != F.col("origin_site"))
    return subtract_ranges(expected, unreached.join(F.broadcast(survivors), "site"), RECEPTION)


def find_dealt_with(received: DataFrame, gaps: DataFrame, baselines: DataFrame) -> DataFrame:
    """All numbers that a process need not wait for: delivered, in stay `since`; or declared lost or before the baseline, where
    `since` is -1.
    """
    at_any_time = gaps.select(*RECEPTION, "first", "last").unionByName(baselines.select(*RECEPTION, "first", "last"))
    delivered = received.select(*RECEPTION, "first", "last", F.col("stay").alias("since"))
    return delivered.unionByName(at_any_time.withColumn("since", F.lit(-1)))


def _find_lasting(stays: DataFrame, processes: DataFrame) -> DataFrame:
    """The fate of each origin, and whether what it has sent `lasts`: it lives, or it left and somebody lives who was in its
    last view, unless that fell apart.
    """
    last = stays.groupBy("uuid").agg(F.max_by("vid", "stay").alias("vid"))
    survivors = processes.where("fate = 'running'").select(F.col("uuid").alias("heir"))
    heirs = stays.select("site", F.col("uuid").alias("heir"), "vid").join(F.broadcast(survivors), "heir")
    followed = stays.groupBy("site", "vid").agg(F.count_distinct("next_vid").alias("followed"))
    inherited = heirs.select("site", "vid").distinct().join(F.broadcast(followed.where("followed <= 1")), ["site", "vid"])
    inherited = inherited.withColumn("has_heirs", F.lit(True)).drop("followed")
    known = processes.join(last, "uuid", "left").join(inherited, ["site", "vid"], "left")
    lasts = F.expr("fate = 'running' or (fate = 'stopped' and coalesce(has_heirs, false))")
    return known.select(F.col("uuid").alias("origin"), F.col("site").alias("origin_site"), "fate", lasts.alias("lasts"))


def _inherited(missing: DataFrame, stays: DataFrame, dealt_with: DataFrame) -> DataFrame:
    """What each process found dealt with when it joined: by those who were in its first view and came from another."""
    elders = missing.select(*RECEPTION).distinct().join(F.broadcast(find_elders(stays)), "uuid")
    done = dealt_with.withColumnRenamed("uuid", "elder")
    return elders.join(done, ["site", "elder", *STREAM]).where("since < before").select(*RECEPTION, "first", "last")
