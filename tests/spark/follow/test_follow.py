"""`relay audit --follow` as streams: what is found while journals grow, and that it goes on where it ended."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_relay.facts import read_facts
from pyspark_relay.follow.judge import FollowError, Judge, Progress
from pyspark_relay.follow.run import describe_progress
from pyspark_relay.follow.streams import STRETCH_S, FollowOptions, follow
from pyspark_relay.measures import count_lags, find_lags, measure_rates
from pyspark_relay.promises.integrity import match_sends
from tests.spark.growing import GrowingJournals, small_run

HORIZON_S = 20
#: Windows that end long before the last batch but one; the run begins at a full minute.
CLOSED = "begin < to_timestamp(1767225600 + 60)"


def drain(spark: SparkSession, journals: Path, out: Path) -> tuple[list[Progress], list[str]]:
    """Follow what is there."""
    progress: list[Progress] = []
    notes: list[str] = []
    options = FollowOptions([str(journals / "NYC"), str(journals / "SFO")], out, HORIZON_S, None, bytes_max=60_000)
    follow(spark, options, progress.append, notes.append, threading.Event())
    return progress, notes


@pytest.mark.slow
@pytest.mark.needs("Java")
@pytest.mark.conforms("USR-7")
def test_a_fault_is_reported_when_it_is_read_and_tables_agree_with_those_of_the_whole_audit(
    spark: SparkSession, tmp_path: Path
) -> None:
    journals = GrowingJournals(tmp_path / "journals", small_run(seed=4, rate=4, duplicate=1))
    out = tmp_path / "out"
    journals.write(60, lambda process, _: process.site == "NYC")
    first, _ = drain(spark, journals.directory, out)
    assert [each.verdict for each in first] == ["pass"] * len(first)
    assert first[-1].processes == {"NYC": 2}
    journals = GrowingJournals(tmp_path / "again", small_run(seed=4, rate=4, duplicate=1))
    journals.write()
    shutil.copytree(tmp_path / "again", tmp_path / "journals", dirs_exist_ok=True)

    second, notes = drain(spark, tmp_path / "journals", out)
    assert [each.batch for each in (*first, *second)] == [*range(len(first) + len(second))]
    [planted] = journals.generator.planted
    [(batch, (_, where, what))] = [(each, found) for each in second for found in each.found]
    assert f"({planted.uuid.hex()[:8]})" in where
    assert f"all {planted.batch.first}..{planted.batch.last} again" in what
    # No later than the batch that reaches it in time, for the journals advance together.
    assert all(each.verdict == "pass" for each in second if each.now_ns < planted.batch.w)
    assert batch.verdict == second[-1].verdict == "fail"
    assert (second[-1].lost, second[-1].reordered, second[-1].duplicated) == (0, 0, planted.batch.count)
    assert notes == []

    facts = read_facts(spark, [str(tmp_path / "journals")])
    lags = count_lags(find_lags(match_sends(facts)), STRETCH_S)
    for name, expected in (("rates", measure_rates(facts, STRETCH_S)), ("lag_histograms", lags)):
        table = spark.read.parquet(str(out / name))
        assert table.count() > 0
        assert sorted(table.where(CLOSED).collect()) == sorted(expected.where(CLOSED).select(table.columns).collect())


@pytest.mark.long
def test_what_retention_deletes_before_it_is_read_is_a_note_and_the_query_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path / "journals", small_run(seed=4, rate=4), 4_000, retained_bytes_max=16_000)
    out = tmp_path / "out"
    journals.write(60)
    first, _ = drain(spark, journals.directory, out)
    journals.write()
    second, _ = drain(spark, journals.directory, out)
    told = [each for progress in (*first, *second) for each in progress.found]
    assert told == []
    assert second[-1].lost == 0
    overtaken = [where for progress in second for note, where, _, _ in progress.notes if note == "retired"]
    assert len(overtaken) == len(set(overtaken)) == 4
    assert second[-1].deliveries > first[-1].deliveries + 400


@pytest.mark.long
def test_a_batch_that_is_done_again_counts_once_and_a_lost_state_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    GrowingJournals(tmp_path / "journals", small_run(duplicate=2)).write()
    facts = read_facts(spark, [str(tmp_path / "journals")])
    halves = [facts.where(f"wall_ns {which} {1767225600_750_000_000}") for which in ("<=", ">")]
    told: list[Progress] = []
    out = tmp_path / "out"
    for number in (0, 1, 1):
        Judge(spark, out, 60, told.append).take(halves[number], number)
    assert told[1] == told[2]
    assert told[2].duplicated > 0
    assert spark.read.parquet(str(out / "findings")).count() == sum(len(each.found) for each in told[:2])
    shutil.rmtree(out / "state" / "1")
    with pytest.raises(FollowError, match="lacks the state of batch 1, which its checkpoint says is done"):
        Judge(spark, out, 60, told.append).take(halves[1], 2)


def test_the_line_of_a_batch_says_how_it_stands() -> None:
    found = (("X2", "SFO/D(0a1b2c3d)", "delivered NYC/12345678 all 3 again"),)
    notes = (("late", "SFO", 9, "records came late"),)
    progress = Progress(4, 1200, 0, 1, 0, 1, {"NYC": 3, "SFO": 2}, 1767225600_000_000_000, found, notes)
    assert describe_progress(progress) == [
        "X2 at SFO/D(0a1b2c3d): delivered NYC/12345678 all 3 again",
        "Note (SFO): 9 records came late",
        "2026-01-01 00:00:00 FAIL: 1200 deliveries, 0 lost, 1 duplicated, 0 reordered; processes: NYC 3, SFO 2",
    ]
    assert progress.as_json()["verdict"] == "fail"
