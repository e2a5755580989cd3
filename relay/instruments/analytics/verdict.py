"""From evidence to findings, and from findings to a verdict in numbers: the counterpart of `relay check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.across import find_remote_only
from relay.instruments.analytics.agreement import find_asynchrony, find_disagreement, find_invalid, find_other_views
from relay.instruments.analytics.completeness import find_incomplete
from relay.instruments.analytics.conservation import find_unconserved
from relay.instruments.analytics.evidence import Evidence
from relay.instruments.analytics.facts import RECEPTION, short
from relay.instruments.analytics.findings import unite
from relay.instruments.analytics.global_view import find_broken_global_views, find_unconverged
from relay.instruments.analytics.integrity import find_corrupted
from relay.instruments.analytics.membership import find_broken_views, find_damaged_journals, find_notes, find_strangers
from relay.instruments.analytics.merges import find_untrue_merges
from relay.instruments.analytics.paths import find_loops, find_twin_relays
from relay.instruments.analytics.ranges import merge_ranges, subtract_ranges
from relay.instruments.analytics.total_order import find_disorder
from relay.instruments.analytics.unicasts import find_misdelivered, find_unaccounted

#: Of more violations than this, each at another place or of another kind, only the first are told.
VIOLATIONS_MAX = 1_000
NOTES_MAX = 100


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What `relay check` would answer. All numbers are of messages at processes."""

    deliveries: int
    lost: int
    duplicated: int
    reordered: int
    gaps: int
    #: (invariant, where, what), in the order of the invariants' names.
    violations: tuple[tuple[str, str, str], ...]
    lag_ms: Mapping[str, Mapping[str, float]]
    quiescent: bool
    total_order: bool
    processes: int
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Literal["pass", "fail"]:
        """`fail` when there is any violation."""
        return "fail" if self.violations else "pass"

    def as_json(self) -> dict[str, Any]:
        """The keys of `relay check --json`."""
        return {
            "verdict": self.verdict,
            "deliveries": self.deliveries,
            "violations": [{"invariant": name, "where": where, "what": what} for name, where, what in self.violations],
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "gaps": self.gaps,
            "lag_ms": {pair: dict(lags) for pair, lags in self.lag_ms.items()},
            "quiescent": self.quiescent,
            "total_order": self.total_order,
            "processes": self.processes,
            "notes": list(self.notes),
        }


def list_checks(evidence: Evidence) -> dict[str, Callable[[], DataFrame]]:
    """What is checked -> its findings. What is judged by the end of a run only when it ended quietly."""
    facts, events, stays, processes = evidence.facts, evidence.events, evidence.stays, evidence.processes
    runs, received, dealt_with = evidence.runs, evidence.received, evidence.dealt_with
    checks: dict[str, Callable[[], DataFrame]] = {
        "journals": lambda: find_damaged_journals(evidence.recorded, processes),
        "contents": lambda: find_corrupted(facts, evidence.matched, processes),
        "completeness": lambda: find_incomplete(events, runs, received, stays),
        "views": lambda: unite(find_broken_views(stays, processes), find_strangers(facts, stays), find_untrue_merges(stays)),
        "same views": lambda: find_other_views(received, stays, processes),
        "virtual synchrony": lambda: find_asynchrony(received, stays, dealt_with),
        "ways": lambda: unite(find_loops(facts), find_twin_relays(events, stays, processes)),
        "unicasts": lambda: find_misdelivered(facts, events, received),
        "global views": lambda: find_broken_global_views(events, stays, processes),
    }
    if evidence.extent.has_order:
        checks["total order"] = lambda: find_disorder(facts, evidence.orders, processes)
    if evidence.ending.is_quiescent:
        checks |= {
            "agreement": lambda: find_disagreement(received, stays, processes, dealt_with),
            "own messages": lambda: find_invalid(facts, received, processes),
            "conservation": lambda: find_unconserved(evidence.owed, stays, dealt_with),
            "outcomes of unicasts": lambda: find_unaccounted(facts, events, received, processes),
            "what is known abroad": lambda: find_remote_only(received, evidence.gaps, stays, processes),
            "convergence": lambda: find_unconverged(events, stays, processes),
        }
    return checks


def add_places(findings: DataFrame, processes: DataFrame) -> DataFrame:
    """With the process, in words, as the place of what shows at a process; and `site`."""
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


def judge(evidence: Evidence, findings: DataFrame, lag: DataFrame) -> AuditVerdict:
    """The verdict. `findings` should be settled; `lag` is what `measure_lag` gives."""
    violations = find_violations(findings).orderBy("invariant", "place", "issue").limit(VIOLATIONS_MAX).collect()
    notes = find_notes(evidence.recorded, evidence.processes).orderBy("note").limit(NOTES_MAX).collect()
    ends = [] if evidence.ending.is_quiescent else [_why_not_judged(evidence.ending.quiet_s)]
    lags = lag.orderBy("pair").collect()
    return AuditVerdict(
        **_count(evidence, findings),
        violations=tuple((row["invariant"], row["place"], row["what"]) for row in violations),
        lag_ms={row["pair"]: {"p50": round(row["p50"], 3), "p99": round(row["p99"], 3)} for row in lags},
        quiescent=evidence.ending.is_quiescent,
        total_order=evidence.extent.has_order,
        processes=evidence.extent.processes,
        notes=(*(row["note"] for row in notes), *ends),
    )


def _count(evidence: Evidence, findings: DataFrame) -> dict[str, int]:
    """A message that several invariants miss at a process is one lost message there."""
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


def _why_not_judged(quiet_s: float | None) -> str:
    if quiet_s is None:
        reason = "no process stopped gracefully after the last message was sent"
    else:
        reason = f"the processes were stopped {max(quiet_s, 0):.1f} s after the last message was sent"
    return f"What had not arrived at the end is not counted as lost: {reason}."
