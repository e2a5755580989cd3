"""X10: a unicast reaches the process it is for, once, or its origin is told."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.completeness import find_unreached
from relay.instruments.analytics.facts import IS_UNICAST, STREAM, range_text, short, stream_text
from relay.instruments.analytics.findings import text, to_findings, unite
from relay.instruments.analytics.ranges import merge_ranges, overlay_ranges, subtract_ranges


def find_misdelivered(facts: DataFrame, events: DataFrame, received: DataFrame) -> DataFrame:
    """What holds at any time: only the destination delivers a unicast, and none that is reported as not delivered; one
    failure is reported with one certainty.
    """
    unreached = find_unreached(events)
    failed = unreached.where("certainty = 'not_delivered'")
    unknown = unreached.where("certainty = 'unknown'")
    delivered = received.where(IS_UNICAST)
    false = overlay_ranges(failed, delivered, STREAM).where("covers > 0 and others > 0")
    twice = overlay_ranges(failed, unknown, STREAM).where("covers > 0 and others > 0")
    is_false = text(stream_text(), " ", range_text(), " is reported as not delivered and was delivered")
    is_twice = text(stream_text(), " ", range_text(), " is reported as not delivered, and as perhaps not delivered")
    return unite(
        _find_strays(facts),
        to_findings(_at_origin(false), "X10", text("false ", stream_text()), is_false),
        to_findings(_at_origin(twice), "X10", text("twice ", stream_text()), is_twice),
    )


def find_unaccounted(facts: DataFrame, events: DataFrame, received: DataFrame, processes: DataFrame) -> DataFrame:
    """Quiescent runs. Every unicast is delivered or reported, unless its origin or its destination is gone."""
    alive = processes.where("fate != 'crashed'").select("uuid")
    survivors = processes.where("fate = 'running'").select(F.col("uuid").alias("target"))
    sends = facts.where(f"kind = 'send' and {IS_UNICAST}").join(F.broadcast(alive), "uuid").select(*STREAM, "first", "last")
    outcomes = (
        received.where(IS_UNICAST)
        .select(*STREAM, "first", "last")
        .unionByName(find_unreached(events).select(*STREAM, "first", "last"))
    )
    owed = merge_ranges(sends, STREAM).join(F.broadcast(survivors), "target")
    missing = subtract_ranges(owed, outcomes, STREAM)
    what = text(stream_text(), " ", range_text(), " was sent; it was neither delivered nor reported")
    lost = to_findings(missing.withColumn("uuid", F.col("target")), "X10", stream_text(), None, "lost")
    return unite(to_findings(missing.withColumn("uuid", F.col("origin")), "X10", stream_text(), what), lost)


def _find_strays(facts: DataFrame) -> DataFrame:
    """Unicasts whose sends name only other processes than the one that delivers."""
    unicasts = facts.where(IS_UNICAST)
    batch = ("origin_site", "origin", "scope", "first", "contents")
    meant = unicasts.where("kind = 'send'").groupBy(*batch).agg(F.collect_set("target").alias("targets"))
    delivered = unicasts.where("kind = 'deliver'").select(*STREAM, "first", "last", "contents", "uuid", "position")
    strays = delivered.join(meant, list(batch)).where("not array_contains(targets, uuid)")
    for_whom = strays.withColumn("target", F.element_at("targets", 1))
    what = text("delivered ", stream_text(), " ", range_text())
    return to_findings(for_whom, "X10", "target", what)


def _at_origin(ranges: DataFrame) -> DataFrame:
    """With the origin as the place where it shows, whether it has a journal or not."""
    place = F.concat("origin_site", F.lit("/"), short("origin"))
    return ranges.withColumns({"uuid": F.lit(None).cast("string"), "place": place})
