"""The inputs of an audit, computed once: the facts, and small tables folded from all deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST, add_stays, fold_runs, read_facts, settle
from pyspark_relay.measures import find_lags
from pyspark_relay.promises.integrity import match_sends
from pyspark_relay.promises.origins import OriginJudge, judge_origins
from pyspark_relay.promises.outline import Outline, draw_outline, find_strays
from pyspark_relay.promises.total_order import measure_order
from pyspark_relay.rests import RETIRED_UNTIL, find_rests, mark_judged
from relay.check import Read, judge_files, run_notes, why_duplicates_only
from relay.journal import JournalError, Problem, find_journals
from sitestack.model.address import Address
from sitestack.promises import Ending, History, Violation

NOTES_MAX = 100
PROBLEMS_MAX = 1_000
#: Maximum intervals in charts and tables.
STRETCHES_MAX = 120
_STRETCHES_S = (0.1, 0.2, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400)


@dataclass(frozen=True, slots=True)
class Extent:
    records: int
    processes: int
    begin_ns: int
    end_ns: int
    #: Whether messages have places in the stream of their own site, as with total order.
    has_order: bool
    #: End (wall clock, ns) of the segments that retention deleted; None if it deleted none.
    retired_ns: int | None = None

    @property
    def stretch_s(self) -> float:
        """Length (s) of an interval in tables over time, longer for longer runs."""
        seconds = (self.end_ns - self.begin_ns) / 1e9
        return next((step for step in _STRETCHES_S if seconds / step <= STRETCHES_MAX), _STRETCHES_S[-1])


@dataclass(frozen=True, slots=True)
class Evidence:
    """The inputs of the transforms. Frames with several readers are persisted."""

    extent: Extent
    ending: Ending
    outline: Outline
    #: Histories of all processes, of survivors up to the ending: with misfits, and with strays.
    histories: Sequence[History]
    astray: Sequence[History]
    #: File damage that breaks a promise. Legal damage and other remarks are notes.
    file_violations: Sequence[Violation]
    notes: Sequence[str]
    persisted: tuple[DataFrame, ...]
    facts: DataFrame
    events: DataFrame
    processes: DataFrame
    sent: DataFrame
    #: A row per origin: findings of its checkers, and messages received by each process.
    origins: DataFrame
    orders: DataFrame
    #: Deliveries with their sends: those across sites, and mismatches.
    matched: DataFrame
    lags: DataFrame

    @property
    def why_duplicates_only(self) -> str:
        """As in `relay check`."""
        return why_duplicates_only(map(self.outline.journal, self.outline.journals), self.file_violations)

    def release(self) -> None:
        for frame in self.persisted:
            frame.unpersist()


def gather(spark: SparkSession, paths: Sequence[str], partitions: int) -> Evidence:
    """Read the journals under these paths into `partitions`. Raises JournalError if there are none.

    Frames with all records are persisted. With one partition, checkpoints cut the query plans
    instead: for few rows the optimizer takes longer than the work.
    """
    strays: list[Problem] = []
    journals = find_journals(map(Path, paths), strays)
    keep, shorten = (settle, settle) if partitions == 1 else (_persist, lambda frame: frame)
    read = keep(read_facts(spark, paths).coalesce(partitions))
    stayed = shorten(add_stays(read))
    extent = measure_extent(stayed)
    if not journals:
        raise JournalError(f"no journal in {', '.join(paths)}")
    rests = None if extent.retired_ns is None else find_rests(stayed, extent.retired_ns, [each.uuid for each in journals])
    recorded = shorten(mark_judged(stayed, rests))
    events = settle(recorded.where("kind not in ('send', 'deliver')"))
    folded = settle(fold_runs(recorded.where("kind = 'deliver'"), ("vid", "via", "judged")))
    sent = settle(fold_runs(recorded.where("kind = 'send'").withColumn("stay", F.lit(0)), ("judged",)))
    outline = draw_outline(journals, events, folded, sent, settle(find_strays(recorded.where("judged"))))
    problems = _collect_problems(events)
    read_journals = [Read(each, outline.journal(each.uuid), problems.get(each.uuid, ())) for each in journals]
    violations, notes = judge_files(read_journals, strays)
    notes = [*sorted(notes)[:NOTES_MAX], *islice(run_notes(read_journals, extent.retired_ns), NOTES_MAX)]
    ending, cuts = outline.find_end()
    floors = None if rests is None else rests.floors
    histories = outline.histories(cuts, floors, outline.misfits)
    processes = _list_processes(spark, histories)
    # A survivor sends and delivers nothing beyond its cut, so no run crosses it.
    facts, events_within = shorten(_cut(recorded.where("judged"), cuts)), settle(_cut(events, cuts))
    sent = sent.where("judged")
    judge = OriginJudge(outline.journals, cuts, floors, outline.is_whole)
    matched = keep(match_sends(facts).where("origin_site != site or not is_same"))
    return Evidence(
        extent=extent,
        ending=ending,
        outline=outline,
        histories=histories,
        astray=outline.histories(cuts, floors, outline.strays),
        file_violations=violations,
        notes=notes,
        persisted=(read, matched),
        facts=facts,
        events=events_within,
        processes=processes,
        sent=sent,
        origins=settle(judge_origins(judge, folded.where("judged"), sent, events)),
        orders=settle(measure_order(facts)),
        matched=matched,
        lags=shorten(find_lags(matched)),
    )


def _list_processes(spark: SparkSession, histories: Sequence[History]) -> DataFrame:
    rows = [(each.uuid.hex(), each.site, each.name, each.label, each.fate.value) for each in histories]
    return settle(spark.createDataFrame(rows, "uuid string, site string, node string, label string, fate string"))


def _cut(frame: DataFrame, cuts: Mapping[Address, int]) -> DataFrame:
    if not cuts:
        return frame
    cut = F.create_map(*[F.lit(part) for uuid, position in cuts.items() for part in (uuid.hex(), position)])
    return frame.where(F.coalesce(F.col("position") < F.try_element_at(cut, "uuid"), F.lit(True)))


def _collect_problems(events: DataFrame) -> dict[Address, list[Problem]]:
    rows = events.where("kind = 'problem' and uuid is not null").orderBy("position").limit(PROBLEMS_MAX)
    found: dict[Address, list[Problem]] = {}
    for row in rows.select("uuid", "file", "offset", "reason", "detail").collect():
        problem = Problem(Path(row["file"]), row["offset"], row["reason"], row["detail"])
        found.setdefault(Address(bytes.fromhex(row["uuid"])), []).append(problem)
    return found


def _persist(frame: DataFrame) -> DataFrame:
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def measure_extent(recorded: DataFrame) -> Extent:
    kind = F.col("kind")
    has_place = (kind == "deliver") & (F.col("via") == "local") & F.expr(IS_MULTICAST) & F.col("gseq").isNotNull()
    found = recorded.agg(
        F.count_if(F.col("wall_ns").isNotNull()).alias("records"),
        F.count_distinct("uuid").alias("processes"),
        F.min(F.when(F.col("wall_ns") > 0, F.col("wall_ns"))).alias("begin_ns"),
        F.max("wall_ns").alias("end_ns"),
        F.coalesce(F.bool_or(has_place), F.lit(False)).alias("has_order"),
        F.max(F.expr(RETIRED_UNTIL)).alias("retired_ns"),
    ).first()
    assert found is not None
    values: dict[str, Any] = {name: 0 if value is None else value for name, value in found.asDict().items()}
    return Extent(**{**values, "retired_ns": found["retired_ns"]})
