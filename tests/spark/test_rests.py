"""Journals without their beginnings, deleted by retention: the audit judges the rest as the check does, and states
its start.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_relay.facts import read_facts, settle
from pyspark_relay.rests import find_rests
from relay.journal import find_journals, read_journal
from relay.journal.retention import retired_until
from sitestack.journal import records
from sitestack.promises import Floors
from tests.harness.correct_run import CorrectRun
from tests.relay.test_check import shut_down, store_what_stays
from tests.spark.promises.auditing import judge_both

BYTES_MAX = 40_000


@pytest.mark.long
def test_the_floors_are_those_of_the_check_and_what_was_in_force_is_read(spark: SparkSession, tmp_path: Path) -> None:
    run = CorrectRun(2, steps=1_500)
    assert store_what_stays(tmp_path, run, BYTES_MAX) > 0
    journals = {each.uuid: list(read_journal(each, [], payloads=False)) for each in find_journals([tmp_path], [])}
    until = max(filter(None, [retired_until(record) for each in journals.values() for record in each]))
    facts = settle(read_facts(spark, [str(tmp_path)]))
    found = find_rests(facts, until, journals).floors
    expected = Floors.find(journals, until)
    assert found._numbers == expected._numbers
    assert len(found._numbers) > 5
    counts = {(row["uuid"], row["kind"]): row["count"] for row in facts.groupBy("uuid", "kind").count().collect()}
    for uuid, journal in journals.items():
        for kind, name in ((records.Start, "start"), (records.View, "view"), (records.GlobalView, "gview")):
            assert counts.get((uuid.hex(), name), 0) == sum(isinstance(record, kind) for record in journal), name


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_what_retention_took_is_no_violation_in_the_words_of_the_check(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run = CorrectRun(seed, steps=1_500)
    shut_down(run)
    assert store_what_stays(tmp_path, run, BYTES_MAX) > 0
    verdict = judge_both(spark, tmp_path).audit.verdict
    assert verdict.violations == ()
    everything = sum(each.count for process in run.processes for each in process.records if isinstance(each, records.Deliver))
    assert 0 < verdict.deliveries < everything
    assert any("Retention has deleted the beginnings" in note for note in verdict.notes)
    assert any(note.startswith("The journal of NYC/") for note in verdict.notes)


@pytest.mark.long
def test_a_loss_after_what_retention_took_is_found_where_the_check_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    run = CorrectRun(1, steps=1_500)
    victim = run.sites["NYC"].members[0]
    delivered = [place for place, each in enumerate(victim.records) if isinstance(each, records.Deliver)]
    del victim.records[delivered[-5]]
    shut_down(run)
    assert store_what_stays(tmp_path, run, BYTES_MAX) > 0
    assert judge_both(spark, tmp_path).audit.verdict.lost > 0
