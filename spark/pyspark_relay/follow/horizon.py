"""The step of `relay audit --follow`: what a batch of new records says, given the state left by all earlier batches.

Pure: from facts and a state to findings, notes and the next state. The state is bounded: a few ranges for each stream and
living receiver, the sends within the horizon, and a hash for each member and thousand places within it. A note tells what is
given up at a bound (`pyspark_relay.follow.bounds`).

Judged at once: duplicates, late and passed-over numbers, places that fall, damaged journals. Judged when the horizon has
passed, since journals of a site may come late: whether all members have what was sent, and whether members agree on the order.
Time is that of the journals, and a batch is judged by the latest clock *before* it: if every journal paused, nothing is judged
until one more batch was read.

Not judged here are passed-over and lost numbers of unicasts, and numbers that were passed over at home across a change of
views. `relay audit` without `--follow` judges them, since it knows how a run ended; its verdict is the final one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST, RECEPTION, STREAM, range_text, settle, stream_text
from pyspark_relay.follow.begun_again import find_overtaken, forget, leave_out, mark_cut_blocks, note_overtaken
from pyspark_relay.follow.bounds import (
    CARRIED,
    bound_ranges,
    find_late,
    find_unjudged,
    newest_ranges,
    split_silent,
)
from pyspark_relay.follow.positions import BLOCK, add_orders, find_different, find_unplaced, split_due
from pyspark_relay.promises.completeness import passed_over, repeated, turned
from pyspark_relay.promises.findings import text, to_findings, unite
from pyspark_relay.ranges import merge_ranges, overlap, overlay_ranges, subtract_ranges
from pyspark_relay.reception import IS_RECEIVED, carry_on, find_duplicates, find_holes, fold_runs, order_runs
from sitestack.journal import records

#: Nanoseconds of a stretch of time, whose sends are kept and judged together.
STRETCH_NS = 10_000_000_000
#: Nanoseconds that the wall clocks of two sites may be apart.
SKEW_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """The state: what is known from earlier batches."""

    #: For each reception the delivered numbers, those in gaps, and the baseline: see `carry_on`.
    carried: DataFrame
    #: For each reception the numbers that were counted as lost and have not come since.
    missing: DataFrame
    #: For each reception of multicasts of the own site the view of its last delivery.
    latest: DataFrame
    #: For each stream and stretch of time the numbers that were sent and are not judged yet.
    sent: DataFrame
    #: For each process the times of its first and last record and of its last view, and whether and how it has stopped.
    processes: DataFrame
    #: For each view, member and block of places the number of batches and their hash, until they are judged.
    orders: DataFrame


_RECEPTION_SCHEMA = "site string, uuid string, origin_site string, origin string, scope string, target string"
_VID_SCHEMA = "vid struct<counter: long, creator: string>"
STATE_SCHEMAS = {
    "carried": f"{_RECEPTION_SCHEMA}, kind string, first long, last long",
    "missing": f"{_RECEPTION_SCHEMA}, first long, last long",
    "latest": f"{_RECEPTION_SCHEMA}, {_VID_SCHEMA}",
    "sent": "origin_site string, origin string, scope string, target string, stretch long, first long, last long",
    "processes": "uuid string, site string, label string, first_ns long, last_ns long, view_ns long, stopped boolean, "
    "unanswered boolean",
    "orders": f"site string, {_VID_SCHEMA}, uuid string, block long, batches long, order_hash long, low long, high long, "
    "last_ns long",
}
assert [each.name for each in fields(Known)] == list(STATE_SCHEMAS)


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a batch."""

    findings: DataFrame
    notes: DataFrame
    known: Known
    #: By how many messages the losses grew, or shrank because late messages have come.
    lost: int


def advance(facts: DataFrame, known: Known, horizon_ns: int, now_ns: int) -> Step:
    """The step from `known`. `now_ns` is the latest wall clock of all earlier batches, 0 before the first."""
    facts = facts.withColumn("stay", F.lit(1))
    retired = settle(note_overtaken(facts))
    if not retired.isEmpty():
        facts, known = _begin_again(facts, known)
    due_ns = now_ns - horizon_ns
    runs = settle(order_runs(fold_runs(facts.where(IS_RECEIVED)), known.carried))
    carried, bounded = bound_ranges(settle(carry_on(runs)), CARRIED)
    carried = settle(carried)
    processes = settle(_meet(known.processes, facts))
    sent = settle(_add_sent(known.sent, facts))
    is_due = F.col("stretch") + STRETCH_NS < due_ns
    due_orders, orders = split_due(settle(add_orders(known.orders, facts)), due_ns)
    missing, unjudged = _find_missing(sent.where(is_due), carried, processes, horizon_ns)
    findings = settle(
        unite(
            repeated(runs),
            turned(runs),
            passed_over(_judged_holes(find_holes(runs), known.latest, facts)),
            missing,
            _not_again(find_unplaced(known.orders, facts), runs),
            find_different(due_orders),
            _find_problems(facts),
        )
    )
    absent, lost = _count_lost(findings, known.missing, carried, processes)
    alive, forgotten = split_silent(processes, now_ns, horizon_ns)
    notes = unite(bounded, forgotten, retired, unjudged, find_late(facts, due_ns, horizon_ns // 1_000_000_000))
    remembered = F.broadcast(alive.select("uuid"))
    state = Known(
        carried=carried.join(remembered, "uuid", "left_semi"),
        missing=newest_ranges(absent, RECEPTION).join(remembered, "uuid", "left_semi"),
        latest=_add_latest(known.latest, facts).join(remembered, "uuid", "left_semi"),
        sent=sent.where(~is_due),
        processes=alive,
        orders=orders,
    )
    return Step(findings, settle(notes), state, lost)


def _begin_again(facts: DataFrame, known: Known) -> tuple[DataFrame, Known]:
    """The facts and the state without what stood before parts of journals that are gone unread."""
    overtaken = find_overtaken(facts)
    kept = settle(leave_out(facts, overtaken))
    states = {name: forget(getattr(known, name), overtaken) for name in ("carried", "missing", "latest", "processes", "orders")}
    states["orders"] = states["orders"].unionByName(mark_cut_blocks(kept, overtaken, BLOCK))
    return kept, replace(known, **states)


def _meet(processes: DataFrame, facts: DataFrame) -> DataFrame:
    label = F.concat("site", F.lit("/"), "node", F.lit("("), F.substring("uuid", 1, 8), F.lit(")"))
    seen = (
        facts.where("uuid is not null and wall_ns is not null")
        .groupBy("uuid")
        .agg(
            F.first("site").alias("site"),
            F.first(label).alias("label"),
            F.min("wall_ns").alias("first_ns"),
            F.max("wall_ns").alias("last_ns"),
            F.max(F.when(F.col("kind") == "view", F.col("wall_ns"))).alias("view_ns"),
            F.max(F.col("kind") == "stop").alias("stopped"),
            F.max((F.col("kind") == "stop") & (F.col("reason") == records.UNANSWERED)).alias("unanswered"),
        )
    )
    names = [F.first(name).alias(name) for name in ("site", "label")]
    latest = [F.max(name).alias(name) for name in ("last_ns", "view_ns", "stopped", "unanswered")]
    return processes.unionByName(seen).groupBy("uuid").agg(*names, F.min("first_ns").alias("first_ns"), *latest)


def _add_sent(sent: DataFrame, facts: DataFrame) -> DataFrame:
    stretch = F.floor(F.col("wall_ns") / STRETCH_NS) * STRETCH_NS
    new = facts.where(f"kind = 'send' and {IS_MULTICAST}").select(*STREAM, stretch.alias("stretch"), "first", "last")
    return merge_ranges(sent.unionByName(new), (*STREAM, "stretch"))


def _own_multicasts(facts: DataFrame) -> DataFrame:
    own = facts.where(f"kind = 'deliver' and {IS_MULTICAST} and origin_site = site")
    return own.select(*RECEPTION, "position", "first", "vid")


def _add_latest(latest: DataFrame, facts: DataFrame) -> DataFrame:
    before = latest.withColumn("position", F.lit(-1).cast("long"))
    rows = before.unionByName(_own_multicasts(facts).drop("first"))
    return rows.groupBy(*RECEPTION).agg(F.max_by("vid", "position").alias("vid"))


def _judged_holes(holes: DataFrame, latest: DataFrame, facts: DataFrame) -> DataFrame:
    """The holes that no change of views can excuse: those across sites, and those at home within a view."""
    before = latest.withColumns({"position": F.lit(-1).cast("long"), "first": F.lit(0).cast("long")})
    ordered = Window.partitionBy(*RECEPTION).orderBy("position")
    views = before.unionByName(_own_multicasts(facts)).withColumn("previous_vid", F.lag("vid").over(ordered))
    same_view = views.where("vid = previous_vid").select(*RECEPTION, F.col("first").alias("before")).distinct()
    open_holes = holes.where(f"not initial and {IS_MULTICAST}")
    across = open_holes.where("origin_site != site")
    at_home = open_holes.where("origin_site = site").join(same_view, [*RECEPTION, "before"], "left_semi")
    return across.unionByName(at_home)


def _not_again(findings: DataFrame, runs: DataFrame) -> DataFrame:
    """The findings without those on repeated deliveries, which have findings of their own."""
    again = find_duplicates(runs).alias("again")
    same = [F.col(f"finding.{name}") == F.col(f"again.{name}") for name in ("uuid", *STREAM)]
    return findings.alias("finding").join(again, [*same, overlap("finding", "again")], "left_anti")


def _find_missing(due: DataFrame, carried: DataFrame, processes: DataFrame, horizon_ns: int) -> tuple[DataFrame, DataFrame]:
    """Findings on messages older than the horizon that a receiver lacks; and notes on receivers that cannot be judged.

    A receiver is judged only if its journal goes on for three quarters of the horizon after the message, in a view older than
    the message. An origin that fell silent without a stop record has crashed: of its messages only those are owed that some
    member of its site has.
    """
    patience_ns = horizon_ns // 4 * 3
    goes_on = F.col("last_ns") >= F.col("stretch") + STRETCH_NS + patience_ns
    origins = processes.select(
        F.col("uuid").alias("origin"), F.expr("stopped and not unanswered").alias("ended"), F.col("last_ns")
    )
    sends = due.join(F.broadcast(origins), "origin").withColumn("lasts", F.col("ended") | goes_on).drop("last_ns", "ended")
    at_home = carried.where("kind = 'delivered' and site = origin_site").select(*STREAM, "first", "last")
    held = overlay_ranges(sends.where("not lasts"), at_home, STREAM, carried=("stretch",)).where("covers > 0 and others > 0")
    owed = sends.where("lasts").unionByName(held, allowMissingColumns=True).select(*STREAM, "stretch", "first", "last")
    there = processes.select("uuid", "site", "first_ns", "last_ns", "view_ns", "stopped")
    is_meant = (F.col("scope") == "all") | (F.col("site") == F.col("origin_site"))
    was_there = F.col("first_ns") + SKEW_NS < F.col("stretch")
    pairs = owed.join(F.broadcast(there), is_meant & was_there & (goes_on | ~F.col("stopped")))
    is_stable = F.coalesce(F.col("view_ns") + SKEW_NS < F.col("stretch"), F.lit(True))
    before = F.when(F.col("kind") == "baseline", F.lit(1)).otherwise(F.col("first"))
    until = F.when(F.col("kind") == "baseline", F.col("first") - 1).otherwise(F.col("last"))
    done = carried.select(*RECEPTION, before.cast("long").alias("first"), until.alias("last")).where("last >= first")
    flags = ("quiet", "changed")
    marked = pairs.withColumns({"quiet": ~goes_on, "changed": ~is_stable})
    absent = settle(subtract_ranges(marked, done, RECEPTION, carried=flags))
    what = text(stream_text(), " ", range_text(), " was sent before the horizon; it was neither delivered nor declared lost")
    why = F.when(F.col("quiet"), "the journal of the receiver does not go on").otherwise("the receiver changed its view")
    findings = to_findings(absent.where("not quiet and not changed"), "X5", stream_text(), what, "lost")
    return findings, find_unjudged(absent.where("quiet or changed"), why)


def _count_lost(findings: DataFrame, missing: DataFrame, carried: DataFrame, processes: DataFrame) -> tuple[DataFrame, int]:
    """The missing numbers now, and by how many messages they have grown."""
    harmed = findings.where("harm = 'lost'")
    new = harmed.join(F.broadcast(processes.select("uuid", "site")), "uuid").select(*RECEPTION, "first", "last")
    done = carried.where("kind in ('delivered', 'gap')").select(*RECEPTION, "first", "last")
    absent = settle(subtract_ranges(merge_ranges(missing.unionByName(new), RECEPTION), done, RECEPTION))
    return absent, _sum(absent) - _sum(missing)


def _sum(ranges: DataFrame) -> int:
    found = ranges.agg(F.sum(F.col("last") - F.col("first") + 1)).first()
    assert found is not None
    return found[0] or 0


def _find_problems(facts: DataFrame) -> DataFrame:
    problems = facts.where("kind = 'problem'").withColumn("place", text(F.col("file"), ":", F.col("offset")))
    return to_findings(problems, "JOURNAL", F.col("reason"), text(F.col("reason"), ": ", F.col("detail")))
