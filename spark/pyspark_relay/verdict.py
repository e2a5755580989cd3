"""From evidence to findings, and from findings to a verdict in numbers: the counterpart of `relay check`.

Transforms judge the promises that depend on every message. Every other promise is judged by its own checker, over the outline
of the journals, so that `relay check` and the audit report it in the same words.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.evidence import Evidence
from pyspark_relay.facts import RECEPTION, short
from pyspark_relay.promises.completeness import find_incomplete
from pyspark_relay.promises.conservation import find_unconserved
from pyspark_relay.promises.findings import list_violations, unite
from pyspark_relay.promises.integrity import find_corrupted
from pyspark_relay.promises.total_order import find_disorder
from pyspark_relay.ranges import merge_ranges, subtract_ranges
from relay.check import why_not_judged
from sitestack.promises import LIVENESS, SAFETY, Checker, Report, Violation
from sitestack.promises.integrity import check_integrity
from sitestack.promises.order import check_fifo, check_no_duplication, check_relayed_once, check_remote_fifo
from sitestack.promises.sites import check_conservation

#: Checkers whose promises are judged by transforms; for all others the outline is enough.
BY_TRANSFORMS: frozenset[Checker] = frozenset(
    {check_integrity, check_no_duplication, check_fifo, check_remote_fifo, check_relayed_once, check_conservation}
)
#: The most violations that are reported.
VIOLATIONS_MAX = 1_000


def list_checks(evidence: Evidence) -> dict[str, Callable[[], DataFrame]]:
    """Name of a check -> its findings. What depends on the end of a run is checked only when the run ended quietly."""
    facts, stays, processes = evidence.facts, evidence.stays, evidence.processes
    runs, received, spark = evidence.runs, evidence.received, facts.sparkSession
    checks: dict[str, Callable[[], DataFrame]] = {
        "journals": lambda: list_violations(spark, evidence.file_violations),
        "contents": lambda: find_corrupted(facts, evidence.sent, evidence.matched, processes),
        "completeness": lambda: find_incomplete(evidence.events, runs, received, stays),
        "views and outcomes": lambda: list_violations(spark, _check_outline(evidence)),
    }
    if evidence.extent.has_order:
        checks["total order"] = lambda: find_disorder(facts, evidence.orders, processes)
    if evidence.ending.is_quiescent:
        checks["conservation"] = lambda: find_unconserved(evidence.owed, stays, evidence.dealt_with)
    return checks


def _check_outline(evidence: Evidence) -> list[Violation]:
    """The violations of promises that no transform judges. That they cannot be judged is a violation too."""
    asked = [*SAFETY, *LIVENESS] if evidence.ending.is_quiescent else SAFETY
    checkers = [checker for checker in asked if checker not in BY_TRANSFORMS]
    if not evidence.outline.is_whole:
        return [Violation("UNJUDGED", "all journals", evidence.outline.what_is_missing)]
    return [violation for checker in checkers for violation in checker(evidence.histories)]


def add_places(findings: DataFrame, processes: DataFrame) -> DataFrame:
    """Findings with the label of the process as `place`, where they have no place yet; and with `site`."""
    labels = F.broadcast(processes.select("uuid", "site", "label"))
    place = F.coalesce("place", "label", short("uuid"))
    return findings.join(labels, "uuid", "left").withColumn("place", place).drop("label")


def find_violations(findings: DataFrame) -> DataFrame:
    """One violation for each invariant, place and issue: the first example, and how many more there are."""
    examples = (
        findings.where("what is not null")
        .groupBy("invariant", "place", "issue")
        .agg(F.min(F.struct("position", "first", "what")).alias("example"), F.count("*").alias("times"))
    )
    more = F.concat(F.lit(" (and "), (F.col("times") - 1).cast("string"), F.lit(" more like it)"))
    what = F.concat("example.what", F.when(F.col("times") > 1, more).otherwise(""))
    return examples.select("invariant", "place", "issue", what.alias("what"), "times")


def judge(evidence: Evidence, findings: DataFrame, lag: DataFrame) -> Report:
    """The verdict. `findings` should be settled; `lag` is what `measure_lag` gives."""
    violations = find_violations(findings).orderBy("invariant", "place", "issue").limit(VIOLATIONS_MAX).collect()
    notes = [*evidence.notes]
    if evidence.outline.is_whole and not evidence.ending.is_quiescent:
        notes.append(why_not_judged(evidence.ending))
    return Report(
        **_count(evidence, findings),
        violations=tuple(Violation(row["invariant"], row["place"], row["what"]) for row in violations),
        lag_ms={
            row["pair"]: {"p50": round(row["p50"], 3), "p99": round(row["p99"], 3)} for row in lag.orderBy("pair").collect()
        },
        quiescent=evidence.ending.is_quiescent,
        total_order=evidence.extent.has_order,
        processes=evidence.extent.processes,
        notes=tuple(notes),
    )


def _count(evidence: Evidence, findings: DataFrame) -> dict[str, int]:
    """Messages counted by kind of harm; one that several promises miss at a process counts once."""
    harmed = findings.where("harm is not null")
    accounted = evidence.received.select(*RECEPTION, "first", "last").unionByName(
        evidence.gaps.select(*RECEPTION, "first", "last")
    )
    lost = subtract_ranges(merge_ranges(harmed.where("harm = 'lost'"), RECEPTION), accounted, RECEPTION)
    reordered = merge_ranges(harmed.where("harm = 'reordered'"), RECEPTION)
    numbers = F.col("last") - F.col("first") + 1
    deliveries = evidence.facts.where("kind = 'deliver'")
    frames = {
        "deliveries": deliveries,
        "received": evidence.received,
        "lost": lost,
        "reordered": reordered,
        "gaps": evidence.gaps,
    }
    sums = [frame.agg(F.sum(numbers).alias("n")).select(F.lit(name).alias("name"), "n") for name, frame in frames.items()]
    counts = {name: n or 0 for name, n in unite(*sums).collect()}
    # What was delivered and is not the first delivery of its number is a duplicate.
    counts["duplicated"] = counts["deliveries"] - counts.pop("received")
    return counts
