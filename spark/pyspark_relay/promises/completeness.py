"""L2, L3 in a site and X1, X2 across sites: every origin's messages come once, in order, and without silent holes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import (
    IS_MULTICAST,
    IS_ORDERED,
    IS_UNICAST,
    RECEPTION,
    STREAM,
    add_came_with,
    range_text,
    settle,
    stream_text,
)
from pyspark_relay.promises.elders import find_elders, find_elders_met
from pyspark_relay.promises.findings import phrase, tell_ranges, text, to_findings, unite
from pyspark_relay.ranges import (
    common_first,
    common_last,
    count_numbers,
    merge_ranges,
    overlap,
    overlay_ranges,
    subtract_ranges,
)
from pyspark_relay.reception import find_duplicates, find_gaps, find_holes, find_late, find_misplaced_gaps
from sitestack.promises.order import AGAIN, GAP_DELIVERED, GAP_EARLY, LATE, PASSED_OVER

#: In SQL, over the columns of `_delivered_by_others`: the other process had it before the two were in the view that counts.
INHERITED = (
    "coalesce(other_stay < entered, false) or coalesce(other_stay < met_entered and not array_contains(members, uuid), false)"
)


def measure_completeness(runs: DataFrame, received: DataFrame) -> DataFrame:
    """A row for each reception with its numbers of messages: `delivered`, `duplicated`, `reordered`, `in_gaps` and `missing`.

    `missing` numbers were passed over without a gap and not delivered later. Whether they were owed is for the promises to say.
    """
    ordered = runs.where(IS_ORDERED)
    passed = find_holes(ordered).where("not initial")
    parts = {
        "delivered": received,
        "duplicated": find_duplicates(runs),
        "reordered": find_late(ordered),
        "in_gaps": find_gaps(runs),
        "missing": subtract_ranges(merge_ranges(passed, RECEPTION), received, RECEPTION),
    }
    return count_numbers(parts, RECEPTION)


def find_incomplete(events: DataFrame, runs: DataFrame, received: DataFrame, stays: DataFrame) -> DataFrame:
    """Findings of L2, L3, X1 and X2. Across sites holes count from the baseline, or else from the first number delivered;
    conservation (X5) finds losses before it.
    """
    holes = settle(find_holes(runs))
    is_local = _is_local()
    multicasts, unicasts = holes.where(IS_MULTICAST), holes.where("scope = 'unicast'")
    target = ("uuid", *STREAM)
    silent = subtract_ranges(unicasts, find_unreached(events), target, carried=("site", "position", "before"))
    remote_gaps = runs.where("kind = 'gap' and origin_site != site")
    return unite(
        repeated(runs),
        turned(runs),
        passed_over(find_owed(multicasts.where(is_local), received, stays)),
        passed_over(multicasts.where(~is_local & ~F.col("initial"))),
        passed_over(silent),
        _broken_gaps(remote_gaps, received),
        _misplaced_gaps(runs),
    )


def repeated(runs: DataFrame) -> DataFrame:
    """Findings of L2 and X2: what was delivered again."""
    what = phrase(AGAIN, stream=stream_text(), numbers=range_text())
    return to_findings(find_duplicates(runs), F.when(_is_local(), "L2").otherwise("X2"), stream_text(), what)


def turned(runs: DataFrame) -> DataFrame:
    """Findings of L3 and X1: what was delivered late."""
    late = tell_ranges(find_late(runs.where(IS_ORDERED)), RECEPTION)
    what = phrase(LATE, stream=stream_text(), numbers=F.col("numbers"))
    return to_findings(late, _fifo(), text("late ", stream_text()), what, "reordered")


def passed_over(holes: DataFrame) -> DataFrame:
    """Findings of L3 and X1: what was owed when a higher number was delivered."""
    told = tell_ranges(holes, (*RECEPTION, "position", "before"))
    what = phrase(PASSED_OVER, stream=stream_text(), before=F.col("before"), numbers=F.col("numbers"))
    return to_findings(told, _fifo(), text("hole ", stream_text()), what, "lost")


def _is_local() -> Column:
    return F.col("origin_site") == F.col("site")


def _fifo() -> Column:
    return F.when(_is_local(), "L3").otherwise("X1")


def _broken_gaps(gaps: DataFrame, received: DataFrame) -> DataFrame:
    pieces = overlay_ranges(gaps, received.select(*RECEPTION, "first", "last"), RECEPTION)
    broken = tell_ranges(pieces.where("covers > 0 and others > 0"), RECEPTION)
    what = phrase(GAP_DELIVERED, stream=stream_text(), numbers=F.col("numbers"))
    return to_findings(broken, "X1", text("gap ", stream_text()), what)


def _misplaced_gaps(runs: DataFrame) -> DataFrame:
    misplaced = tell_ranges(find_misplaced_gaps(runs).where("origin_site != site"), RECEPTION)
    what = phrase(GAP_EARLY, stream=stream_text(), numbers=F.col("numbers"))
    return to_findings(misplaced, "X1", text("order ", stream_text()), what)


def find_owed(holes: DataFrame, received: DataFrame, stays: DataFrame) -> DataFrame:
    """The part of each hole in multicasts of the own site that the process should have delivered: members that it had not
    parted from did deliver it, or no member did. What stood in the state that it joined with is not owed.
    """
    keys = (*RECEPTION, "position")
    pieces = add_came_with(_delivered_by_others(holes, received, stays), stays, "came", "uuid", "vid", "next_vid", "next_kind")
    # The other process may have ended in this view, perhaps with a last message that nobody else has; but a process that
    # still delivers in the view must have it too.
    is_shared = F.expr("array_contains(members, uuid)") & F.when(
        F.col("next_vid").isNull(), F.col("own_vid").eqNullSafe(F.col("vid"))
    ).otherwise(F.col("came"))
    judged = settle(pieces.withColumn("shared", F.coalesce(is_shared, F.lit(False))))
    nobodys = subtract_ranges(holes, judged.where("not shared"), keys)
    owed = merge_ranges(judged.where("shared").select(*keys, "first", "last").unionByName(nobodys), keys)
    owed = settle(subtract_ranges(owed, judged.where("inherited"), keys))
    if not owed.isEmpty():
        owed = subtract_ranges(owed, _handed_on(owed, received, stays), keys)
    return owed.join(holes.select(*keys, "before"), list(keys))


def _handed_on(owed: DataFrame, received: DataFrame, stays: DataFrame) -> DataFrame:
    """What others had as history themselves, and handed on."""
    elders = find_elders(stays)
    heirs = owed.select(*RECEPTION, "position").distinct()
    joined = heirs.join(F.broadcast(elders), "uuid")
    met = heirs.join(F.broadcast(find_elders_met(stays, elders)), ["uuid", "origin"])
    had = received.select("site", *STREAM, F.col("uuid").alias("elder"), "stay", "first", "last")
    handed = joined.unionByName(met, allowMissingColumns=True).join(had, ["site", "elder", *STREAM]).where("stay < before")
    return handed.select(*RECEPTION, "position", "first", "last")


def find_unreached(events: DataFrame) -> DataFrame:
    """The unicasts that were reported as not or perhaps not delivered, as the target would know them."""
    unreached = events.where(f"kind = 'unreach' and {IS_UNICAST}")
    return unreached.select(F.col("target").alias("uuid"), *STREAM, "first", "last", "certainty")


def _delivered_by_others(holes: DataFrame, received: DataFrame, stays: DataFrame) -> DataFrame:
    """The parts of the holes that other processes of the site delivered, with the view in which they did.

    `own_vid` is the view in which the hole was passed; `inherited` says that the other process delivered the part before it
    was in the first view of the process with the hole, or, in a view without that process, before it was in the first view of
    that process with the origin.
    """
    own = stays.select("uuid", "stay", F.col("vid").alias("own_vid"))
    joined = stays.where("previous_vid is null").select("uuid", F.col("vid").alias("first_vid"))
    meetings = stays.select("uuid", "stay", "vid", F.explode("members").alias("origin"))
    met = meetings.groupBy("uuid", "origin").agg(F.min_by("vid", "stay").alias("met_vid"))
    placed = (
        holes.join(F.broadcast(own), ["uuid", "stay"], "left")
        .join(F.broadcast(joined), "uuid", "left")
        .join(F.broadcast(met), ["uuid", "origin"], "left")
    )
    entries = stays.select(F.col("uuid").alias("other_uuid"), F.col("vid").alias("first_vid"), F.col("stay").alias("entered"))
    entered_met = entries.select("other_uuid", F.col("first_vid").alias("met_vid"), F.col("entered").alias("met_entered"))
    views = stays.select("uuid", "stay", "vid", "members", "next_vid", "next_kind")
    deliveries = received.join(F.broadcast(views), ["uuid", "stay"], "left")
    same = [F.col(f"hole.{name}") == F.col(f"other.{name}") for name in ("site", *STREAM)]
    return (
        placed.alias("hole")
        .join(deliveries.alias("other"), [*same, F.col("hole.uuid") != F.col("other.uuid"), overlap("hole", "other")])
        .select(
            *[f"hole.{name}" for name in (*RECEPTION, "position", "own_vid", "first_vid", "met_vid")],
            common_first("hole", "other").alias("first"),
            common_last("hole", "other").alias("last"),
            *[f"other.{name}" for name in ("vid", "members", "next_vid", "next_kind")],
            F.col("other.uuid").alias("other_uuid"),
            F.col("other.stay").alias("other_stay"),
        )
        .join(F.broadcast(entries), ["other_uuid", "first_vid"], "left")
        .join(F.broadcast(entered_met), ["other_uuid", "met_vid"], "left")
        .withColumn("inherited", F.expr(INHERITED))
        .drop("other_uuid", "other_stay", "first_vid", "met_vid", "entered", "met_entered")
    )
