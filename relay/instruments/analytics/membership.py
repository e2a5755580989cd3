"""L4, L5: views are agreed and go forward, and only members are heard. JOURNAL: the journals themselves are whole."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import IS_MULTICAST, range_text, stream_text, vid_text
from relay.instruments.analytics.findings import text, to_findings, unite
from relay.journal.store import WHY_LOST


def find_broken_views(stays: DataFrame, processes: DataFrame) -> DataFrame:
    """L4. Every view of a process contains it; counters strictly increase; a view id names one view at all processes."""
    ordered = Window.partitionBy("uuid").orderBy("stay")
    without = stays.where("not array_contains(members, uuid)")
    back = stays.withColumn("before", F.lag("vid").over(ordered)).where("vid.counter <= before.counter")
    known = F.broadcast(processes.select("uuid", F.struct("site", "node", "uuid").alias("who"), "label"))
    contents = F.struct("members", "subs", "view_kind", "lineage")
    named = stays.join(known, "uuid").withColumn("contents", contents)
    first = Window.partitionBy("site", "vid").orderBy("who", "stay")
    compared = named.withColumns({"known": F.first("contents").over(first), "other": F.first("label").over(first)})
    differs = compared.where(~F.col("contents").eqNullSafe(F.col("known")))
    return unite(
        to_findings(without, "L4", "self", text("installed ", vid_text("vid"), " without being in it")),
        to_findings(back, "L4", "counter", text("installed ", vid_text("vid"), " after ", vid_text("before"))),
        to_findings(
            differs,
            "L4",
            text("differs ", vid_text("vid")),
            text(vid_text("vid"), " is another view here than at ", F.col("other")),
        ),
    )


def find_strangers(facts: DataFrame, stays: DataFrame) -> DataFrame:
    """L5. A multicast of the own site is delivered in a view that has its origin as a member, and in the view it names. The
    first view precedes the first delivery. Unicasts go by connections, not by views.
    """
    # There are few of these, however many deliveries there are; one of each is looked at.
    example = F.min_by(F.struct("position", "target", "first", "last"), "position").alias("example")
    kinds = (
        facts.where("kind = 'deliver'")
        .groupBy("uuid", "site", "stay", F.col("vid").alias("named"), "origin_site", "origin", "scope")
        .agg(example)
        .select("*", "example.*")
    )
    placed = kinds.join(F.broadcast(stays.select("uuid", "stay", "vid", "members")), ["uuid", "stay"], "left")
    delivered = text("delivered ", stream_text(), " ", range_text())
    early = placed.where("vid is null")
    elsewhere = placed.where("named != vid")
    strangers = placed.where(
        f"origin_site = site and {IS_MULTICAST} and vid is not null and not array_contains(members, origin)"
    )
    return unite(
        to_findings(early, "L5", "no view", text(delivered, " before its first view")),
        to_findings(
            elsewhere,
            "L5",
            "other view",
            text(delivered, " for ", vid_text("named"), " while ", vid_text("vid"), " was in force"),
        ),
        to_findings(strangers, "L5", "stranger", text(delivered, " in ", vid_text("vid"), ", which its origin is not in")),
    )


def find_damaged_journals(events: DataFrame, processes: DataFrame) -> DataFrame:
    """JOURNAL. Nothing is corrupt, missing or lost on a full disk. A tail that a crash has torn is legal."""
    ends = processes.select("uuid", "last_segment", "stop_ns")
    problems = events.where("kind = 'problem'").join(F.broadcast(ends), "uuid", "left")
    illegal = problems.where(~_is_legal())
    segments = events.where("kind = 'segment'")
    expected = F.row_number().over(Window.partitionBy("uuid").orderBy("segment"))
    holes = segments.withColumn("expected", expected).where("segment != expected")
    first_hole = holes.groupBy("uuid").agg(F.min(F.struct("expected", "segment", "file")).alias("hole")).select("hole.*")
    lost = (
        events.where(F.col("kind") == "drop")
        .where(F.col("reason") == WHY_LOST)
        .groupBy("uuid")
        .agg(F.sum("times").alias("times"), F.min("position").alias("position"))
    )
    number = F.col("segment").cast("string")
    return unite(
        to_findings(
            _at_file(illegal), "JOURNAL", text(F.col("file"), F.col("offset")), text(F.col("reason"), ": ", F.col("detail"))
        ),
        to_findings(
            _at_file(first_hole.withColumn("offset", F.lit(0))),
            "JOURNAL",
            "missing",
            text("missing: segment ", F.col("expected"), " is not there, this is ", number),
        ),
        to_findings(
            lost,
            "JOURNAL",
            "lost",
            text(F.col("times"), " records could not be written, so that what is missing here proves nothing"),
        ),
    )


def find_notes(events: DataFrame, processes: DataFrame) -> DataFrame:
    """What is legal and worth knowing: the torn tails, as `note`."""
    ends = processes.select("uuid", "last_segment", "stop_ns")
    problems = events.where("kind = 'problem'").join(F.broadcast(ends), "uuid", "left")
    place = text(F.col("file"), ":", F.col("offset"), ": ", F.col("reason"), ": ", F.col("detail"))
    return problems.where(_is_legal()).select(place.alias("note"))


def _is_legal() -> Column:
    stray = F.col("uuid").isNull() & (F.col("offset") == 0)
    last = (F.col("segment") == F.col("last_segment")) & F.col("stop_ns").isNull()
    return (F.col("reason") == "torn") & (stray | F.coalesce(last, F.lit(False)))


def _at_file(problems: DataFrame) -> DataFrame:
    place = text(F.col("file"), ":", F.col("offset"))
    return problems.withColumns({"uuid": F.lit(None).cast("string"), "place": place})
