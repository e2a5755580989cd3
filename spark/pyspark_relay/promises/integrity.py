"""L1: every delivered batch was sent, once, with the same contents and boundaries."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.facts import RECEPTION, STREAM, edges_text, origin_text, settle, stream_text
from pyspark_relay.promises.findings import phrase, text, to_findings, unite
from sitestack.promises.integrity import CORRUPTED, FOREIGN, SENT_TWICE

BATCH = (*STREAM, "first")


def match_sends(facts: DataFrame) -> DataFrame:
    """Join every delivery with the send of its batch.

    Adds `send_contents`, `send_last`, `send_ns` and `send_time`, null without a send, and
    `is_same`. It takes one shuffle by batch, which spreads a busy origin over all tasks.
    """
    sends = (
        facts.where("kind = 'send'")
        .groupBy(*BATCH)
        .agg(F.max(F.struct("position", "contents", "last", "wall_ns", "time")).alias("send"))
        .select(
            *BATCH,
            F.col("send.contents").alias("send_contents"),
            F.col("send.last").alias("send_last"),
            F.col("send.wall_ns").alias("send_ns"),
            F.col("send.time").alias("send_time"),
        )
    )
    deliveries = facts.where("kind = 'deliver'").select(
        *BATCH, "site", "uuid", "position", "wall_ns", "last", "bytes", "contents"
    )
    is_same = F.col("send_contents").eqNullSafe(F.col("contents")) & (F.col("send_last") == F.col("last"))
    return deliveries.join(sends, list(BATCH), "left").withColumn("is_same", F.coalesce(is_same, F.lit(False)))


def find_corrupted(facts: DataFrame, sent: DataFrame, matched: DataFrame, processes: DataFrame) -> DataFrame:
    """Find deliveries without exactly one equal send in the journal of their origin.

    Exempt is the first batch after the last journaled one of a crashed origin's stream, whose send
    may be missing from the journal. Its deliveries must still agree.
    """
    wrong = settle(matched.where("not is_same").drop("send_contents", "send_last", "send_ns", "send_time"))
    sends = facts.where("kind = 'send' and uuid = origin and site = origin_site")
    last_sent = sends.groupBy(*STREAM).agg(F.max_by("last", "first").alias("last_sent"))
    fates = processes.select(F.col("uuid").alias("origin"), F.col("fate").alias("origin_fate"))
    placed = _find_nearest(wrong, sends).join(last_sent, list(STREAM), "left").join(F.broadcast(fates), "origin", "left")
    issue = (
        F.when(F.col("origin_fate").isNull(), "no origin")
        .when(F.col("nearest").isNull() | (F.col("nearest.last") < F.col("first")), "never sent")
        .when(F.col("nearest") != F.struct("first", "last"), "re-cut")
        .otherwise("contents")
    )
    judged = _without_torn_sends(placed.withColumn("issue", issue), processes)
    return unite(_as_findings(judged), _sent_twice(sent), _sent_by_others(facts))


def _find_nearest(wrong: DataFrame, sends: DataFrame) -> DataFrame:
    """Add `nearest`: the ends of the last sent batch that begins no later than this one ends."""
    streams = F.broadcast(wrong.select(*STREAM).distinct())
    known = sends.join(streams, list(STREAM)).select(
        *STREAM, F.struct("first", "last").alias("send"), F.col("first").alias("at")
    )
    rows = wrong.withColumn("at", F.col("last")).unionByName(known.select(*STREAM, "send", "at"), allowMissingColumns=True)
    before = Window.partitionBy(*STREAM).orderBy("at").rangeBetween(Window.unboundedPreceding, 0)
    nearest = F.last("send", ignorenulls=True).over(before)
    return rows.withColumn("nearest", nearest).where("send is null").drop("send", "at")


def _without_torn_sends(wrong: DataFrame, processes: DataFrame) -> DataFrame:
    """Remove the exempt batch of each crashed origin: the one after its last journaled batch."""
    names = F.broadcast(processes.select("uuid", F.struct("site", "node", "uuid").alias("who")))
    follows = F.col("first") == F.coalesce("last_sent", F.lit(0)) + 1
    could_be = (F.col("issue") == "never sent") & (F.col("origin_fate") == "crashed") & follows
    batch = F.struct(*BATCH, "last", "contents")
    marked = wrong.join(names, "uuid").withColumn("torn", F.when(could_be, batch))
    first = F.min_by("torn", F.when(could_be, F.struct("who", "position"))).over(Window.partitionBy("origin"))
    return marked.withColumn("kept", first).where("torn is null or torn != kept")


def _as_findings(wrong: DataFrame) -> DataFrame:
    parts = {"stream": stream_text(), "batch": edges_text(), "sent": edges_text("nearest.first", "nearest.last")}
    what = F.lit(None)
    for issue, sentence in CORRUPTED.items():
        what = F.when(F.col("issue") == issue, phrase(sentence, **parts)).otherwise(what)
    return to_findings(wrong, "L1", text(F.col("issue"), " ", stream_text()), what)


def _sent_twice(sent: DataFrame) -> DataFrame:
    what = phrase(SENT_TWICE, stream=stream_text(), batch=edges_text())
    before = Window.partitionBy(*RECEPTION).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    again = sent.withColumn("high", F.max("last").over(before)).where("first <= high")
    return to_findings(again, "L1", text("twice ", stream_text()), what)


def _sent_by_others(facts: DataFrame) -> DataFrame:
    foreign = facts.where("kind = 'send' and (origin != uuid or origin_site != site)")
    return to_findings(foreign, "L1", "foreign", phrase(FOREIGN, origin=origin_text()))
