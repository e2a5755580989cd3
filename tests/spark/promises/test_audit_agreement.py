"""The audit agrees with the check on whole runs: with joins and crashes, and with damaged journals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_relay.audit import run_audit
from pyspark_relay.promises import outline
from pyspark_relay.promises.disputes import judge_view
from sitestack.journal import records
from tests.harness.correct_run import CorrectRun
from tests.harness.journals import Told
from tests.relay.test_check import shut_down, store_all
from tests.spark.promises.auditing import judge_both, store_told


@pytest.mark.long
def test_a_correct_run_with_joins_and_crashes_passes(spark: SparkSession, tmp_path: Path) -> None:
    run = CorrectRun(11, steps=150)
    shut_down(run)
    store_all(tmp_path, run)
    judged = judge_both(spark, tmp_path)
    assert judged.audit.verdict.verdict == "pass"
    assert judged.audit.verdict.deliveries > 500
    fates = {row["fate"] for row in judged.audit.data.processes}
    assert {"running", "crashed"} <= fates


@pytest.mark.long
def test_the_audit_reports_losses_and_damage_of_many_kinds_as_the_check_does(spark: SparkSession, tmp_path: Path) -> None:
    run = CorrectRun(12, steps=150)
    shut_down(run)
    process = next(each for each in run.processes if each.uuid not in run.crashed())
    places = [at for at, record in enumerate(process.records) if isinstance(record, records.Deliver)]
    del process.records[places[len(places) // 2]]
    process.records.insert(places[3], process.records[places[3]])
    process.records.append(records.Drop(0, 0, "journal", "disk full", 4))
    store_all(tmp_path, run)
    files = sorted(tmp_path.rglob("*.rlj"), key=lambda file: file.stat().st_size)
    torn, corrupt = files[-2:]
    torn.write_bytes(torn.read_bytes()[:-3])
    damaged = bytearray(corrupt.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    corrupt.write_bytes(damaged)
    (tmp_path / "stray.000001.rlj").write_bytes(b"no journal, but of the length of one")
    judged = judge_both(spark, tmp_path)
    told = [each.what for each in judged.audit.verdict.violations if each.invariant == "JOURNAL"]
    for words in ("corrupt: ", "4 records could not be written", "bad length"):
        assert any(words in what for what in told), words


@pytest.mark.long
def test_an_audit_beyond_the_bound_fails_and_still_reports_transform_violations(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Told("NYC", "A").view("1A", "A")
    for number in (1, 1, 2, 5):
        a.send(number).deliver("A", number)
    store_told(tmp_path, [a])
    monkeypatch.setattr(outline, "ROWS_MAX", 1)
    report = run_audit(spark, [str(tmp_path)], 1, None, lambda *_: None).verdict
    assert {each.invariant for each in report.violations} == {"L1", "L2", "UNJUDGED"}
    [refused] = [each for each in report.violations if each.invariant == "UNJUDGED"]
    assert refused.where == "all journals"
    assert refused.what.endswith("the roles are 2, of which 1 are judged together at most")
    assert not report.quiescent
    assert "no process stopped" not in str(report.notes)


VID = Row("counter", "creator")(1, 16 * "aa")
ROW = Row(
    *("node", "uuid", "label", "position", "gseq", "origin_site", "origin", "scope", "first", "last", "order_id", "length")
)


def rows(member: str, order: str, places: Sequence[int]) -> list[Row]:
    """A member that delivered batches of two messages of these origins at these places."""
    return [
        ROW(member, member, f"NYC/{member}", at, place, "NYC", 16 * f"0{name}", "all", 1, 2, hash(order), len(order))
        for at, (name, place) in enumerate(zip(order, places, strict=True))
    ]


def test_all_members_with_the_same_deviating_order_are_reported_in_order() -> None:
    right = [1, 3, 5]
    members = [rows("A", "abc", right), rows("B", "abc", right), rows("C", "abc", right), rows("D", "acb", right)]
    members.append(rows("E", "acb", right))
    found = judge_view(VID, [row for member in members for row in member])
    assert [(who, number, issue) for who, number, issue, *_ in found] == [
        *(("D", 0, "place aaaaaaaa|1"), ("E", 0, "place aaaaaaaa|1")),
        *(("D", 1, "place aaaaaaaa|1"), ("E", 1, "place aaaaaaaa|1")),
        *(("D", 2, "order aaaaaaaa|1"), ("E", 2, "order aaaaaaaa|1")),
    ]
    assert found[-1][3:] == (
        "delivered NYC/0b0b0b0b all 1..2 (gseq 5) in aaaaaaaa|1 in another order than NYC/A",
        *("NYC", 16 * "0b", "all", "", 1, 2),
    )
