"""L6, L7, L9, L10: members of a site that stay together deliver the same messages in the same views.

All of it works on what each process received in each of its views, as ranges; where two members part at the end of a
view, what one of them delivered last in it the other need not have.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import IS_MULTICAST, RECEPTION, STREAM, add_came_with, range_text, stream_text, vid_text
from relay.instruments.analytics.findings import text, to_findings
from relay.instruments.analytics.ranges import common_first, common_last, merge_ranges, overlap, overlay_ranges, subtract_ranges


def find_other_views(received: DataFrame, stays: DataFrame, processes: DataFrame) -> DataFrame:
    """L6. Two processes of a site that deliver the same multicast deliver it in the same view.

    Exempt is what the earlier one delivered in a view from which neither the other one nor, for a message of this site,
    its origin came along with it: then the message was open again in their next view.
    """
    views = stays.select("uuid", "stay", "vid", "next_vid", "next_kind")
    multicasts = received.where(IS_MULTICAST).join(F.broadcast(views), ["uuid", "stay"])
    stream = ("site", *STREAM)
    # A view has its own part of each stream; only where these overlap do processes have to be compared.
    parts = merge_ranges(multicasts, (*stream, "vid"))
    disputed = overlay_ranges(parts, parts.limit(0), stream).where("covers > 1").select(*stream, "first", "last")
    deliveries = (
        multicasts.alias("run")
        .join(disputed.alias("part"), [*_same("run", "part", stream), overlap("run", "part")])
        .select(
            *[f"run.{name}" for name in (*RECEPTION, "vid", "next_vid", "next_kind")],
            common_first("run", "part").alias("first"),
            common_last("run", "part").alias("last"),
        )
    )
    pairs = (
        deliveries.alias("one")
        .join(deliveries.alias("two"), [*_same("one", "two", stream), overlap("one", "two")])
        .where("one.vid < two.vid and one.uuid != two.uuid and one.next_vid is not null")
        .select(
            *[f"two.{name}" for name in RECEPTION],
            common_first("one", "two").alias("first"),
            common_last("one", "two").alias("last"),
            F.col("one.uuid").alias("one_uuid"),
            F.col("two.vid").alias("two_vid"),
            *[f"one.{name}" for name in ("vid", "next_vid", "next_kind")],
        )
    )
    labels = F.broadcast(processes.select(F.col("uuid").alias("one_uuid"), "label"))
    judged = add_came_with(pairs, stays, "came", "uuid", "vid", "next_vid", "next_kind")
    judged = add_came_with(judged, stays, "origin_came", "origin", "vid", "next_vid", "next_kind").join(labels, "one_uuid")
    settled = judged.where("came or (origin_site = site and origin_came)")
    where = text(" was delivered in ", vid_text("two_vid"), ", and at ", F.col("label"), " in ", vid_text("vid"))
    return to_findings(settled, "L6", stream_text(), text(stream_text(), " ", range_text(), where))


def find_asynchrony(received: DataFrame, stays: DataFrame, dealt_with: DataFrame) -> DataFrame:
    """L7. Who goes together from V to V' has delivered the same multicasts in V.

    What one of them already had when two halves of the site merged into V (delivered earlier, declared lost, before its
    baseline), the others deliver without it. `dealt_with` is that: ranges with the stay since which they count.
    """
    steps = stays.where("next_vid is not null").select("uuid", "stay", "vid", "next_vid")
    step = ("site", "vid", "next_vid", *STREAM)
    key = (*RECEPTION, "stay")
    delivered = received.where(IS_MULTICAST).join(F.broadcast(steps), ["uuid", "stay"])
    everything = merge_ranges(delivered, step)
    owed = everything.join(F.broadcast(steps), ["vid", "next_vid"])
    missing = subtract_ranges(owed, delivered, key, carried=("vid", "next_vid"))
    earlier = (
        missing.alias("missing")
        .join(dealt_with.alias("done"), [*_same("missing", "done", RECEPTION), overlap("missing", "done")])
        .where("done.since < missing.stay")
        .select(*[f"missing.{name}" for name in key], "done.first", "done.last")
    )
    silent = subtract_ranges(missing, earlier, key, carried=("vid", "next_vid"))
    others = text(" in ", vid_text("vid"), "; others did and also went to ", vid_text("next_vid"))
    what = text("did not deliver ", stream_text(), " ", range_text(), others)
    return to_findings(silent, "L7", text(vid_text("vid"), " ", stream_text()), what, "lost")


def find_disagreement(received: DataFrame, stays: DataFrame, processes: DataFrame, dealt_with: DataFrame) -> DataFrame:
    """L9, quiescent runs. What a survivor delivers in V, every survivor of its site that was in V delivers.

    Exempt is what was delivered in V by one of two that parted at the end of it, and numbers that a gap or a baseline
    accounts for. Of what comes from other sites X5 sees to it that the other part gets it later.
    """
    survivors = processes.where("fate = 'running'").select("uuid")
    views = stays.select("uuid", "stay", "vid", "members", "next_vid", "next_kind")
    delivered = received.where(IS_MULTICAST).join(F.broadcast(survivors), "uuid").join(F.broadcast(views), ["uuid", "stay"])
    view = ("vid", "next_vid", "next_kind")
    by_view = merge_ranges(delivered, ("site", *STREAM, *view))
    members = delivered.select(*view, F.explode("members").alias("uuid")).distinct().join(F.broadcast(survivors), "uuid")
    owing = add_came_with(members, stays, "came", "uuid", *view)
    same_view = [F.col(f"delivered.{name}").eqNullSafe(F.col(f"owing.{name}")) for name in view]
    owed = (
        by_view.alias("delivered")
        .join(F.broadcast(owing).alias("owing"), same_view)
        .where("owing.next_vid is null or owing.came")
        .select("owing.uuid", *[f"delivered.{name}" for name in ("site", *STREAM, "first", "last", "vid")])
    )
    missing = subtract_ranges(owed, dealt_with, RECEPTION, carried=("vid",))
    what = text("never delivered ", stream_text(), " ", range_text(), ", which others delivered in ", vid_text("vid"))
    return to_findings(missing, "L9", stream_text(), what, "lost")


def find_invalid(facts: DataFrame, received: DataFrame, processes: DataFrame) -> DataFrame:
    """L10, quiescent runs. What a surviving origin sends to everybody (all sites or its own), it delivers itself."""
    survivors = processes.where("fate = 'running'").select("uuid")
    sent = facts.where(f"kind = 'send' and {IS_MULTICAST}").join(F.broadcast(survivors), "uuid")
    missing = subtract_ranges(merge_ranges(sent, RECEPTION), received, RECEPTION)
    what = text("sent ", stream_text(), " ", range_text(), " and did not deliver it itself")
    return to_findings(missing, "L10", stream_text(), what, "lost")


def find_dealt_with(received: DataFrame, gaps: DataFrame, baselines: DataFrame) -> DataFrame:
    """All numbers that a process need not wait for: delivered in stay `since`, or, at any time (-1), declared lost or before
    the baseline.
    """
    at_any_time = gaps.select(*RECEPTION, "first", "last").unionByName(baselines.select(*RECEPTION, "first", "last"))
    delivered = received.select(*RECEPTION, "first", "last", F.col("stay").alias("since"))
    return delivered.unionByName(at_any_time.withColumn("since", F.lit(-1)))


def _same(one: str, other: str, names: tuple[str, ...]) -> list[Column]:
    return [F.col(f"{one}.{name}") == F.col(f"{other}.{name}") for name in names]
