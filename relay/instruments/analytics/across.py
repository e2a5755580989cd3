"""X4: no message is known abroad only."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import RECEPTION, STREAM, add_came_with, range_text, settle, stream_text, vid_text
from relay.instruments.analytics.findings import text, to_findings
from relay.instruments.analytics.ranges import common_first, common_last, merge_ranges, overlap, subtract_ranges


def find_remote_only(received: DataFrame, gaps: DataFrame, stays: DataFrame, processes: DataFrame) -> DataFrame:
    """X4, quiescent runs. What anybody of another site delivers, the survivors who were in its view deliver too.

    Exempt is what was delivered in a view that two or more did not leave together with the survivor in question, and what one
    of two parts of a site delivered that was lost later.
    """
    everywhere = received.where("scope = 'all'")
    abroad = settle(merge_ranges(everywhere.where("origin_site != site"), STREAM))
    views = stays.select("uuid", "stay", "vid", F.col("next_vid").alias("own_next_vid"))
    at_home = everywhere.where("origin_site = site").join(F.broadcast(views), ["uuid", "stay"])
    same = [F.col(f"home.{name}") == F.col(f"abroad.{name}") for name in STREAM]
    told = (
        at_home.alias("home")
        .join(abroad.alias("abroad"), [*same, overlap("home", "abroad")])
        .select(
            *[f"home.{name}" for name in ("site", *STREAM, "vid", "own_next_vid")],
            F.col("home.uuid").alias("teller"),
            common_first("home", "abroad").alias("first"),
            common_last("home", "abroad").alias("last"),
        )
    )
    owed = (
        told.join(F.broadcast(_find_witnesses(stays, processes)), ["site", "vid"])
        .where("uuid != teller and size(lost) <= 1")
        .where("not (array_contains(lost, teller) and own_next_vid is not null)")
    )
    done = received.select(*RECEPTION, "first", "last").unionByName(gaps.select(*RECEPTION, "first", "last"))
    missing = subtract_ranges(owed.select(*RECEPTION, "first", "last", "vid"), done, RECEPTION, carried=("vid",))
    others = text(", which others delivered in ", vid_text("vid"), ", and another site too")
    what = text("never delivered ", stream_text(), " ", range_text(), others)
    return to_findings(missing, "X4", stream_text(), what)


def _find_witnesses(stays: DataFrame, processes: DataFrame) -> DataFrame:
    """Each survivor in each of its views, with those who were `lost` when it went on from there."""
    survivors = F.broadcast(processes.where("fate = 'running'").select("uuid"))
    view = ("site", "uuid", "vid", "next_vid", "next_kind")
    members = stays.join(survivors, "uuid").select(*view, F.explode("members").alias("member"))
    came = add_came_with(members, stays, "came", "member", "vid", "next_vid", "next_kind")
    is_lost = F.col("next_vid").isNotNull() & ~F.col("came")
    return settle(came.groupBy("site", "uuid", "vid").agg(F.collect_set(F.when(is_lost, F.col("member"))).alias("lost")))
