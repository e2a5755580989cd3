"""The step of `relay audit --follow`, batch by batch and without streams: what is found, when, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_relay.facts import read_facts, settle
from pyspark_relay.follow import bounds
from pyspark_relay.follow.horizon import STATE_SCHEMAS, Known, advance
from relay_lab.bench.generate import GeneratedProcess, Planted
from sitestack.journal import records
from tests.harness.addresses import address
from tests.harness.journals import OOB, Told
from tests.spark.growing import GrowingJournals, small_run
from tests.spark.promises.auditing import BEGIN, store

SECOND_NS = 1_000_000_000


class Step(NamedTuple):
    """What one batch says."""

    findings: list[tuple[str, str, int, int]]
    notes: list[tuple[str, str, int]]
    lost: int
    kept: dict[str, int]


class Participant:
    """Hands the journals to the step as batches of so many seconds of their time, as the stream does."""

    def __init__(self, spark: SparkSession, directory: Path, horizon_s: int) -> None:
        self.facts = settle(read_facts(spark, [str(directory)]))
        self.horizon_ns = horizon_s * SECOND_NS
        self.known = Known(**{name: spark.createDataFrame([], schema) for name, schema in STATE_SCHEMAS.items()})
        self.now_ns = 0
        [(self.begin_ns, self.end_ns)] = self.facts.selectExpr("min(wall_ns)", "max(wall_ns)").collect()

    def take(self, until_s: float, since_s: float = -1) -> Step:
        """The records of this time, in seconds from the beginning."""
        low, high = (self.begin_ns + int(second * SECOND_NS) for second in (since_s, until_s))
        return self.take_rows(self.facts.where(f"wall_ns > {low} and wall_ns <= {high}"))

    def take_rows(self, rows: DataFrame) -> Step:
        """These records."""
        step = advance(rows, self.known, self.horizon_ns, self.now_ns)
        self.known = Known(**{name: settle(getattr(step.known, name)) for name in STATE_SCHEMAS})
        [(latest_ns,)] = rows.selectExpr("max(wall_ns)").collect()
        self.now_ns = max(self.now_ns, latest_ns or 0)
        found = step.findings.where("what is not null").orderBy("invariant", "first").collect()
        return Step(
            [(row["invariant"], row["uuid"] or row["place"], row["first"] or 0, row["last"] or 0) for row in found],
            [(row["note"], row["place"], row["times"]) for row in step.notes.orderBy("note", "place").collect()],
            step.lost,
            {name: getattr(self.known, name).count() for name in STATE_SCHEMAS},
        )


Wanted = Callable[[GeneratedProcess, records.Record], bool]


def follower(spark: SparkSession, directory: Path, horizon_s: int, wanted: Wanted | None = None) -> Participant:
    """150 s of two sites of two, 10 messages a second; everybody stops 30 s later."""
    GrowingJournals(directory, small_run(seed=2, rate=10)).write(wanted=wanted)
    return Participant(spark, directory, horizon_s)


def faulty(spark: SparkSession, directory: Path, **faults: int) -> tuple[Participant, Planted]:
    """15 s with one fault, and everything else sound."""
    journals = GrowingJournals(directory, small_run(seed=2, rate=100, **faults))
    journals.write()
    [planted] = journals.generator.planted
    return Participant(spark, directory, 60), planted


@pytest.mark.long
def test_in_sound_journals_nothing_is_found_and_what_is_kept_stays_small(spark: SparkSession, tmp_path: Path) -> None:
    batches = follower(spark, tmp_path, horizon_s=20)
    told = [batches.take(until, since) for since, until in ((-1, 60), (60, 140), (140, 200), (200, 201))]
    assert [(each.findings, each.notes, each.lost) for each in told] == [([], [], 0)] * 4
    # Each of four receives from four, two of them at home. What is older than the horizon has been judged.
    whole = {"carried": 16, "latest": 8, "processes": 4, "missing": 0}
    assert [whole.items() <= each.kept.items() for each in told] == [True] * 4
    assert told[1].kept["sent"] <= 4 * 11
    assert told[3].kept["sent"] == told[3].kept["orders"] == 0


def test_what_is_out_of_band_has_no_order_and_is_owed_to_nobody_else(spark: SparkSession, tmp_path: Path) -> None:
    a, b, c = (Told("NYC", name).view("1A", "ABC") for name in "ABC")
    for n, overtaking in ((1, 1), (2, 3), (3, 2)):
        a.send(n, scope=OOB, target="B", site="NYC")
        b.deliver("A", overtaking, scope=OOB, gseq=overtaking)
    for each in (a, b, c):
        times = [0, 0, *range(100, 98 + len(each.records)), 300]
        moved = [replace(record, w=BEGIN + at * SECOND_NS) for record, at in zip(each.stop().records, times, strict=True)]
        store(tmp_path, "NYC", address(each.name), each.name, moved)
    batches = Participant(spark, tmp_path, 20)
    batches.now_ns = BEGIN + 200 * SECOND_NS  # another site is that far
    told = batches.take(300)
    assert (told.findings, [note for note, _, _ in told.notes], told.lost) == ([], ["late"], 0)
    assert {told.kept[name] for name in ("latest", "sent", "orders")} == {0}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "invariants"), [("loss", {"L3", "X1"}), ("duplicate", {"L2", "X2"}), ("swap", {"L8", "L3", "X1"})]
)
def test_a_planted_fault_is_found_in_the_batch_in_which_it_shows(
    spark: SparkSession, tmp_path: Path, fault: str, invariants: set[str]
) -> None:
    batches, planted = faulty(spark, tmp_path, **{fault: 1})
    at_s = (planted.batch.w - batches.begin_ns) / SECOND_NS
    before, after = batches.take(at_s - 0.5), batches.take(at_s + 1.5, at_s - 0.5)
    assert before.findings == []
    located = (planted.uuid.hex(), planted.batch.first, planted.batch.last)
    assert located in [found[1:] for found in after.findings]
    assert {found[0] for found in after.findings} <= invariants
    assert after.lost == (planted.batch.count if fault == "loss" else 0)


@pytest.mark.long
def test_what_was_sent_and_never_came_is_found_when_the_horizon_has_passed(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing higher comes after it, so that there is no hole."""
    seen: list[tuple[GeneratedProcess, records.Deliver]] = []

    def wanted(process: GeneratedProcess, record: records.Record) -> bool:
        if not isinstance(record, records.Deliver) or process.name != "SFO-2" or record.site != "NYC":
            return True
        seen.append((process, record))
        return len(seen) <= 20

    batches = follower(spark, tmp_path, 20, wanted)
    told = [batches.take(120), batches.take(200, 120), batches.take(201, 200)]
    assert told[0].findings == []
    assert {found[:2] for each in told[1:] for found in each.findings} == {("X5", seen[0][0].uuid.hex())}
    # What was sent in the first minute is not judged, because clocks might be apart by that much.
    lost = sum(record.count for _, record in seen[20:] if record.t > 72 * SECOND_NS)
    assert lost <= sum(each.lost for each in told) <= sum(record.count for _, record in seen[20:])


@pytest.mark.long
def test_a_site_whose_journals_come_late_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    batches = follower(spark, tmp_path, horizon_s=200)
    told = [batches.take_rows(batches.facts.where(f"site = '{site}'")) for site in ("NYC", "SFO")]
    assert [(each.findings, each.notes) for each in told] == [([], []), ([], [])]
    assert told[1].kept["carried"] == 16


@pytest.mark.long
def test_what_comes_beyond_the_horizon_is_counted_and_still_judged(spark: SparkSession, tmp_path: Path) -> None:
    batches, planted = faulty(spark, tmp_path, duplicate=1)
    batches.horizon_ns = 5 * SECOND_NS
    other = next(site for site in ("NYC", "SFO") if site != planted.site)
    first = batches.take_rows(batches.facts.where(f"site = '{other}'"))
    late = batches.take_rows(batches.facts.where(f"site = '{planted.site}'"))
    assert first.findings == []
    assert [found[1:] for found in late.findings] == [(planted.uuid.hex(), planted.batch.first, planted.batch.last)]
    assert [(note, place) for note, place, _ in late.notes if note == "late"] == [("late", planted.site)]


@pytest.mark.long
def test_who_falls_silent_is_not_accused_but_counted_and_then_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    def wanted(process: GeneratedProcess, record: records.Record) -> bool:
        return process.name != "SFO-2" or record.t < 90 * SECOND_NS

    batches = follower(spark, tmp_path, 10, wanted)
    told = [batches.take(until, since) for since, until in ((-1, 120), (120, 200), (200, 201))]
    assert [each.findings for each in told] == [[]] * 3
    notes = [note for each in told for note in each.notes if note[0] != "late"]
    assert {(note, place) for note, place, _ in notes} >= {("unjudged", "SFO")}
    assert [place[:5] for note, place, _ in notes if note == "forgotten"] == ["SFO/S"]


def test_a_receiver_with_ever_more_holes_is_bounded_which_is_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "RANGES_MAX", 3)
    seen: list[records.Record] = []

    def wanted(process: GeneratedProcess, record: records.Record) -> bool:
        if process.name != "SFO-2" or not isinstance(record, records.Deliver):
            return True
        seen.append(record)
        return len(seen) % 4 != 0

    batches = follower(spark, tmp_path, 60, wanted)
    told = batches.take(140)
    assert told.kept["carried"] <= 3 * 4 + 4 + 8
    [(note, _, times)] = told.notes
    assert note == "bounded"
    assert times > 10
    # The count has all of them.
    assert told.lost > 100


@pytest.mark.long
def test_a_hole_at_home_with_a_change_of_the_view_in_it_is_left_to_the_whole_audit(spark: SparkSession, tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(seed=2, rate=100))
    lost: list[records.Deliver] = []

    def wanted(process: GeneratedProcess, record: records.Record) -> bool:
        at_home = isinstance(record, records.Deliver) and process.name == "NYC-2" and record.site == "NYC"
        if at_home and not lost and record.t > 5 * SECOND_NS:
            assert isinstance(record, records.Deliver)
            lost.append(record)
            return False
        return True

    journals.write(wanted=wanted)
    batches = Participant(spark, tmp_path, 60)
    named = [each for each in batches.take(14).findings if each[0] == "L3"]
    assert [found[2:] for found in named] == [(lost[0].first, lost[0].last)]
    again = Participant(spark, tmp_path, 60)
    later = F.struct((F.col("vid.counter") + 1).alias("counter"), F.col("vid.creator").alias("creator"))
    changed = F.when(F.col("wall_ns") > lost[0].w, later).otherwise(F.col("vid"))
    assert (
        again.take_rows(again.facts.withColumn("vid", changed).where(f"wall_ns < {batches.begin_ns + 14 * SECOND_NS}")).findings
        == []
    )
