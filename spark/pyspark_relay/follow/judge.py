"""Judges the micro-batches of `relay audit --follow`, and keeps the state between them on disk.

State, findings and notes of a batch are in files named after its number. A batch that is repeated after a crash starts from the
state of the one before and overwrites its files, so that nothing is counted twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_relay.follow.horizon import STATE_SCHEMAS, Known, Step, advance
from pyspark_relay.verdict import add_places, find_violations
from sitestack.model.errors import LocalError

#: Batches whose state is kept; the last but one is needed when the last has to be repeated.
STATES_KEPT = 3
#: The most violations and notes of a batch that are shown; the tables hold all.
SHOWN_MAX = 20

_TOTALS = ("deliveries", "lost", "duplicated", "reordered", "violations")


class FollowError(LocalError):
    """The audit cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the audit stands after a batch."""

    batch: int
    deliveries: int
    lost: int
    duplicated: int
    reordered: int
    #: The number of different violations since the beginning.
    violations: int
    #: Processes that are remembered, by site.
    processes: Mapping[str, int]
    #: The latest wall clock in the journals, ns.
    now_ns: int
    #: Invariant, where, what; of this batch only.
    found: tuple[tuple[str, str, str], ...] = ()
    #: Kind, where, how often, what; of this batch only.
    notes: tuple[tuple[str, str, int, str], ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict so far."""
        return "fail" if self.violations else "pass"

    @property
    def is_empty(self) -> bool:
        """Whether no journal has been read yet: Spark runs a first batch even on nothing."""
        return not (self.now_ns or self.violations or self.notes)

    def as_json(self) -> dict[str, Any]:
        """A line of `relay audit --follow --json`."""
        found = [dict(zip(("invariant", "where", "what"), each, strict=True)) for each in self.found]
        notes = [dict(zip(("note", "where", "times", "what"), each, strict=True)) for each in self.notes]
        return {"verdict": self.verdict, **asdict(self), "found": found, "notes": notes}


class Judge:
    """Judges one batch after the other; `observe` is told where the audit stands after each."""

    def __init__(self, spark: SparkSession, out: Path, horizon_s: int, observe: Callable[[Progress], None]) -> None:
        self.spark = spark
        self.out = out.absolute()
        self.horizon_ns = horizon_s * 1_000_000_000
        self.observe = observe

    def take(self, batch: DataFrame, number: int) -> None:
        """Judge a batch; called by Spark. Raises FollowError when the state of the batch before is gone."""
        facts = batch.persist()
        try:
            before = self._totals(number - 1)
            known = self._known(number - 1)
            step = advance(facts, known, self.horizon_ns, before["now_ns"])
            findings = add_places(
                step.findings, step.known.processes.unionByName(known.processes).dropDuplicates(["uuid"])
            ).persist()
            self._write(number, findings, step)
            progress = self._conclude(number, before, facts, findings, step)
            findings.unpersist()
        finally:
            facts.unpersist()
        shutil.rmtree(self._state(number - STATES_KEPT), ignore_errors=True)
        self.observe(progress)

    def _state(self, number: int) -> Path:
        return self.out / "state" / str(number)

    def _known(self, number: int) -> Known:
        def read(name: str, schema: str) -> DataFrame:
            if number < 0:
                return self.spark.createDataFrame([], schema)
            return self.spark.read.schema(schema).parquet(str(self._state(number) / name))

        return Known(**{name: read(name, schema) for name, schema in STATE_SCHEMAS.items()})

    def _totals(self, number: int) -> dict[str, int]:
        if number < 0:
            return dict.fromkeys((*_TOTALS, "now_ns"), 0)
        try:
            totals: dict[str, int] = json.loads((self._state(number) / "totals.json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise FollowError(
                f"{self.out} lacks the state of batch {number}, which its checkpoint says is done; name another --out."
            ) from error
        return totals

    def _write(self, number: int, findings: DataFrame, step: Step) -> None:
        for state in fields(step.known):
            getattr(step.known, state.name).write.mode("overwrite").parquet(str(self._state(number) / state.name))
        for name, table in (("findings", findings), ("notes", step.notes)):
            if number and table.isEmpty():
                continue  # the first one is there for its columns
            table.write.mode("overwrite").parquet(str(self.out / name / f"batch={number}"))

    def _conclude(self, number: int, before: dict[str, int], facts: DataFrame, findings: DataFrame, step: Step) -> Progress:
        latest_ns, deliveries = _measure(facts)
        violations = find_violations(findings).persist()
        added = {"deliveries": deliveries, "lost": step.lost, **_count(findings), "violations": violations.count()}
        totals = {name: before[name] + added[name] for name in _TOTALS}
        totals["now_ns"] = max(before["now_ns"], latest_ns)
        # Written last, because this file says that the state of this batch is complete.
        (self._state(number) / "totals.json").write_text(json.dumps(totals), encoding="utf-8")
        told = violations.orderBy("invariant", "place", "issue").limit(SHOWN_MAX).collect()
        notes = step.notes.orderBy("note", "place").limit(SHOWN_MAX).collect()
        sites = step.known.processes.where("not stopped").groupBy("site").count().orderBy("site").collect()
        violations.unpersist()
        return Progress(
            number,
            **totals,
            processes={row["site"]: row["count"] for row in sites},
            found=tuple((row["invariant"], row["place"], row["what"]) for row in told),
            notes=tuple((row["note"], row["place"], row["times"], row["what"]) for row in notes),
        )


def _measure(facts: DataFrame) -> tuple[int, int]:
    """The latest wall clock, and how many messages were delivered."""
    messages = F.sum(F.when(F.col("kind") == "deliver", F.col("last") - F.col("first") + 1))
    found = facts.agg(F.max("wall_ns"), messages).first()
    assert found is not None
    return found[0] or 0, found[1] or 0


def _count(findings: DataFrame) -> dict[str, int]:
    """Messages that were delivered again, or out of order; a message that several invariants name counts once."""
    named = findings.withColumn("harm", F.when(F.col("invariant").isin("L2", "X2"), "duplicated").otherwise(F.col("harm")))
    batches = (
        named.where("harm in ('duplicated', 'reordered')").select("harm", "uuid", "origin", "scope", "first", "last").distinct()
    )
    sums = batches.groupBy("harm").agg(F.sum(F.col("last") - F.col("first") + 1).alias("messages"))
    return {"duplicated": 0, "reordered": 0, **{row["harm"]: row["messages"] for row in sums.collect()}}
