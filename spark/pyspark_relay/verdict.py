"""Turns evidence into findings and a verdict, the counterpart of `relay check`.

Transforms judge contents (L1) and total order (L8), which depend on every delivery. The checkers of
`relay check` judge every other promise, origin by origin or over the outline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.evidence import Evidence
from pyspark_relay.facts import RECEPTION, short
from pyspark_relay.promises.findings import list_violations
from pyspark_relay.promises.integrity import find_corrupted
from pyspark_relay.promises.origins import OF_ORIGIN, spread
from pyspark_relay.promises.total_order import find_disorder
from relay.check import why_not_judged
from sitestack.promises import LIVENESS, SAFETY, Report, Violation
from sitestack.promises.integrity import check_integrity
from sitestack.promises.unicast import check_unicasts

VIOLATIONS_MAX = 1_000
#: Findings that no missing record causes.
_WITHOUT_RECORDS = ("JOURNAL", "L2", "UNJUDGED", "X2")


def list_checks(evidence: Evidence) -> dict[str, Callable[[], DataFrame]]:
    """Return check name -> findings. Checks of the end of a run need a quiet end."""
    facts, processes, spark = evidence.facts, evidence.processes, evidence.facts.sparkSession
    checks: dict[str, Callable[[], DataFrame]] = {
        "journals": lambda: list_violations(spark, evidence.file_violations),
        "contents": lambda: find_corrupted(facts, evidence.sent, evidence.matched, processes),
        "messages": lambda: spread(evidence.origins, "findings"),
        "views": lambda: list_violations(spark, _check_outline(evidence)),
    }
    if evidence.extent.has_order:
        checks["total order"] = lambda: find_disorder(facts, evidence.orders, processes)
    return checks


def _check_outline(evidence: Evidence) -> list[Violation]:
    """Return violations in views, roles and targets; an incomplete outline is one too."""
    asked = [*SAFETY, *LIVENESS] if evidence.ending.is_quiescent else SAFETY
    checkers = [checker for checker in asked if checker is not check_integrity and checker not in OF_ORIGIN]
    if not evidence.outline.is_whole:
        return [Violation("UNJUDGED", "all journals", evidence.outline.what_is_missing)]
    found = [violation for checker in checkers for violation in checker(evidence.histories)]
    return [*found, *check_unicasts(evidence.astray)]


def place_findings(evidence: Evidence, findings: DataFrame) -> DataFrame:
    """Return the findings to be judged, with `site`, and the process label as `place` where it is missing."""
    if evidence.why_duplicates_only:
        findings = findings.where(F.col("invariant").isin(*_WITHOUT_RECORDS))
    labels = F.broadcast(evidence.processes.select("uuid", "site", "label"))
    place = F.coalesce("place", "label", short("uuid"))
    return findings.join(labels, "uuid", "left").withColumn("place", place).drop("label")


def find_violations(findings: DataFrame) -> DataFrame:
    """Return a violation per invariant, place and issue: the first example, and a count."""
    examples = (
        findings.where("what is not null")
        .groupBy("invariant", "place", "issue")
        .agg(F.min(F.struct("position", "first", "what")).alias("example"), F.count("*").alias("times"))
    )
    more = F.concat(F.lit(" (and "), (F.col("times") - 1).cast("string"), F.lit(" more like it)"))
    what = F.concat("example.what", F.when(F.col("times") > 1, more).otherwise(""))
    return examples.select("invariant", "place", "issue", what.alias("what"), "times")


def judge(evidence: Evidence, findings: DataFrame, tables: Mapping[str, DataFrame]) -> Report:
    """Return the verdict. `findings` should be settled; `tables` are those of the audit."""
    violations = find_violations(findings).orderBy("invariant", "place", "issue").limit(VIOLATIONS_MAX).collect()
    lags = tables["lag"].orderBy("pair").collect()
    notes = [*evidence.notes]
    if evidence.outline.is_whole and not evidence.ending.is_quiescent:
        notes.append(why_not_judged(evidence.ending))
    return Report(
        **_count(findings, tables["completeness"]),
        violations=tuple(Violation(row["invariant"], row["place"], row["what"]) for row in violations),
        lag_ms={row["pair"]: {"p50": round(row["p50"], 3), "p99": round(row["p99"], 3)} for row in lags},
        quiescent=evidence.ending.is_quiescent,
        total_order=evidence.extent.has_order,
        processes=evidence.extent.processes,
        notes=tuple(notes),
        not_judged=evidence.why_duplicates_only,
    )


def _count(findings: DataFrame, completeness: DataFrame) -> dict[str, int]:
    """Count messages by harm; a message that breaks several promises at a process counts once."""
    harmed = _merge_ranges(findings.where("harm is not null"), ("harm", *RECEPTION)).groupBy("harm")
    harm = {row["harm"]: row["n"] for row in harmed.agg(F.sum(F.col("last") - F.col("first") + 1).alias("n")).collect()}
    sums = completeness.agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("delivered", "duplicated", "in_gaps")])
    received = sums.first()
    assert received is not None
    return {
        "deliveries": received["delivered"] + received["duplicated"],
        "lost": harm.get("lost", 0),
        "duplicated": received["duplicated"],
        "reordered": harm.get("reordered", 0),
        "gaps": received["in_gaps"],
    }


def _merge_ranges(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the union of the ranges of each key, disjoint and not adjacent: the keys and the ends."""
    ordered = Window.partitionBy(*keys).orderBy("first", "last")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max("last").over(before)
    begins = F.when(reached.isNull() | (F.col("first") > reached + 1), 1).otherwise(0)
    return (
        ranges.select(*keys, "first", "last", begins.alias("begins"))
        .withColumn("island", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*keys, "island")
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
        .drop("island")
    )
