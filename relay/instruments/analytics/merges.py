"""M1: a merge view tells the truth about the views that it joins."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import vid_text
from relay.instruments.analytics.findings import text, to_findings, unite


def find_untrue_merges(stays: DataFrame) -> DataFrame:
    """M1. Every part of a merge view was installed by those of its members who go on in it, right before; and its counter is
    higher than that of any part.
    """
    ordered = Window.partitionBy("uuid").orderBy("stay")
    merges = (
        stays.withColumn("members_before", F.lag("members").over(ordered))
        .where("view_kind = 'merge'")
        .withColumn("part", F.expr("try_element_at(filter(subs, part -> part.vid = previous_vid), -1)"))
        .withColumn("has_part", F.expr("coalesce(array_contains(part.members, uuid), false)"))
    )
    before = F.coalesce(vid_text("previous_vid"), F.lit("no view"))
    strangers = F.size(F.array_except("part.members", "members_before")) > 0
    merged = vid_text("vid")
    no_part = text("came to ", merged, " from ", before, ", which is no part of it with this member")
    others = text(merged, " names members of ", before, " that it did not have")
    low = merges.where(F.expr("exists(subs, part -> part.vid.counter >= vid.counter)"))
    return unite(
        to_findings(merges.where("not has_part"), "M1", "part", no_part),
        to_findings(merges.where(F.col("has_part") & strangers), "M1", "members", others),
        to_findings(low, "M1", "counter", text(merged, " does not count higher than its parts")),
    )
