"""Measurements: rates, lag, skew of clocks, failover windows, convergence, and time shares."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_relay.facts import add_stays, read_facts, settle
from pyspark_relay.measures import (
    estimate_skew,
    find_lags,
    measure_convergence,
    measure_failover,
    measure_lag,
    measure_lag_over_time,
    measure_rates,
    measure_throughput,
)
from pyspark_relay.promises.integrity import match_sends
from pyspark_relay.rests import find_rests
from relay.check import check_directories
from relay.journal import find_journals, read_journal
from relay.journal.retention import retired_until
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import Floors
from tests.harness.addresses import address
from tests.harness.correct_run import CorrectRun
from tests.relay.test_check import shut_down, store_what_stays
from tests.spark.promises.auditing import BEGIN, SECOND, judge_both, store

A, B, D = map(address, "ABD")
VID, NEXT, FAR = ViewId(1, A), ViewId(2, B), ViewId(1, D)
MILLI = 1_000_000


def send(site: str, origin: Address, n: int, at: int, count: int = 1) -> records.Send:
    return records.Send(at, BEGIN + at, site, origin, Scope.ALL, n, count, None, "", b"\x0a\0\0\0" * count, bytes(32))


def deliver(site: str, origin: Address, n: int, at: int, here: str, count: int = 1) -> records.Deliver:
    via = "local" if here == site else "relay"
    vid = FAR if here == "SFO" else VID
    sizes = b"\x0a\0\0\0" * count
    return records.Deliver(
        at,
        BEGIN + at,
        site,
        origin,
        Scope.ALL,
        n,
        count,
        "relay" if via == "relay" else "local",
        None,
        vid,
        {},
        sizes,
        bytes(32),
    )


def start(site: str, uuid: Address, name: str) -> records.Start:
    return records.Start(0, BEGIN, site, uuid, name, 1, 1, "1.0")


@pytest.fixture(scope="module")
def lags_ms() -> list[int]:
    """How long the messages from NYC take: any order, negative ones too, because SFO's clock is behind."""
    rng = random.Random(3)
    return [rng.randrange(-5, 400) for _ in range(150)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, lags_ms: list[int]) -> Path:
    """A in NYC sends a message every 100 ms and B takes over as relay after ten seconds; D in SFO sends ten."""
    directory = tmp_path_factory.mktemp("measured")
    a: list[records.Record] = [start("NYC", A, "A"), records.Role(0, BEGIN, "relay", VID, ("SFO",))]
    b: list[records.Record] = [start("NYC", B, "B")]
    d: list[records.Record] = [start("SFO", D, "D"), records.View(0, BEGIN, FAR, FAR, (D,), ("D",))]
    arrivals = []
    for n, lag in enumerate(lags_ms, 1):
        at = n * 100 * MILLI
        a += [send("NYC", A, n, at), deliver("NYC", A, n, at, "NYC")]
        arrivals.append((at + lag * MILLI, n))
    # A link keeps its order; only the wall clocks show another one here.
    d += [deliver("NYC", A, n, at, "SFO") for at, n in sorted(arrivals, key=lambda arrival: arrival[1])]
    for n in range(1, 11):
        at = n * SECOND
        d += [send("SFO", D, 2 * n - 1, at, 2), deliver("SFO", D, 2 * n - 1, at, "SFO", 2)]
        b.append(deliver("SFO", D, 2 * n - 1, at + 7 * MILLI, "NYC", 2))
    b.insert(1, records.Role(10 * SECOND, BEGIN + 10 * SECOND, "relay", NEXT, ("SFO",)))
    members = (("NYC", A), ("NYC", B), ("SFO", D))
    for journal, wait in ((a, 0), (b, 30), (d, 130)):
        journal.append(records.GlobalView(1, BEGIN + wait * MILLI, {"NYC": VID, "SFO": FAR}, members))
    for site, uuid, name, journal in (("NYC", A, "A", a), ("NYC", B, "B", b), ("SFO", D, "D", d)):
        store(directory, site, uuid, name, journal)
    return directory


@pytest.fixture(scope="module")
def facts(spark: SparkSession, directory: Path) -> DataFrame:
    return settle(add_stays(settle(read_facts(spark, [str(directory)]))))


@pytest.fixture(scope="module")
def lags(facts: DataFrame) -> DataFrame:
    return settle(find_lags(match_sends(facts)))


def test_percentiles_of_the_lag_are_exact_and_those_of_the_check(lags: DataFrame, lags_ms: list[int], directory: Path) -> None:
    found = {row["pair"]: row for row in measure_lag(lags).collect()}
    ordered = sorted(lags_ms)
    assert (found["NYC>SFO"]["p50"], found["NYC>SFO"]["p99"]) == (ordered[74], ordered[148])
    assert (found["SFO>NYC"]["p50"], found["SFO>NYC"]["messages"]) == (7.0, 20)
    checked = check_directories([directory]).lag_ms
    assert {pair: {"p50": row["p50"], "p99": row["p99"]} for pair, row in found.items()} == checked


def test_lag_over_time_has_a_row_a_pair_and_stretch(lags: DataFrame, lags_ms: list[int]) -> None:
    rows = measure_lag_over_time(lags, 5).where("pair = 'NYC>SFO'").orderBy("begin").collect()
    assert [row["messages"] for row in rows] == [49, 50, 50, 1]
    assert rows[0]["p50"] == sorted(lags_ms[:49])[24]


def test_clocks_are_compared_by_the_quickest_messages_of_both_directions(lags: DataFrame, lags_ms: list[int]) -> None:
    [row] = estimate_skew(lags).collect()
    assert (row["one"], row["other"]) == ("NYC", "SFO")
    assert row["skew_ms"] == pytest.approx((min(lags_ms) - 7) / 2)
    assert row["uncertainty_ms"] == pytest.approx((min(lags_ms) + 7) / 2)


def test_rates_count_the_messages_sent_by_each_site(facts: DataFrame) -> None:
    rows = measure_rates(facts, 5).orderBy("site", "begin").collect()
    nyc = [(row["batches"], row["messages"], row["bytes"]) for row in rows if row["site"] == "NYC"]
    assert nyc == [(49, 49, 490), (50, 50, 500), (50, 50, 500), (1, 1, 10)]
    assert sum(row["messages"] for row in rows if row["site"] == "SFO") == 20


def test_throughput_counts_the_deliveries_of_each_site_by_path(facts: DataFrame) -> None:
    sums = measure_throughput(facts, 60).groupBy("site", "via").sum("messages").collect()
    assert {(row[0], row[1]): row[2] for row in sums} == {
        ("NYC", "local"): 150,
        ("NYC", "relay"): 20,
        ("SFO", "local"): 20,
        ("SFO", "relay"): 150,
    }


def test_a_failover_lies_between_the_deliveries_around_it(facts: DataFrame, lags_ms: list[int]) -> None:
    events = facts.where("kind not in ('send', 'deliver')")
    [row] = measure_failover(facts, events, facts.select("uuid", "node").distinct()).collect()
    arrivals = [n * 100 + lag for n, lag in enumerate(lags_ms, 1)]
    silence = min(at for at in arrivals if at >= 10_000) - max(at for at in arrivals if at < 10_000)
    assert (row["origin_site"], row["site"], row["node_before"], row["node"]) == ("NYC", "SFO", "A", "B")
    assert row["silence_ms"] == pytest.approx(silence)


def test_a_global_view_has_converged_when_the_last_process_has_it(facts: DataFrame) -> None:
    [row] = measure_convergence(facts).collect()
    assert (row["members"], row["processes"], row["spread_ms"]) == (3, 3, 130.0)


BYTES_MAX = 40_000


@pytest.mark.long
def test_floors_equal_those_of_the_check_and_records_in_force_are_read(spark: SparkSession, tmp_path: Path) -> None:
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
def test_messages_deleted_by_retention_are_no_violation_as_in_the_check(spark: SparkSession, tmp_path: Path, seed: int) -> None:
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
def test_a_loss_after_messages_deleted_by_retention_is_found_as_in_the_check(spark: SparkSession, tmp_path: Path) -> None:
    run = CorrectRun(1, steps=1_500)
    victim = run.sites["NYC"].members[0]
    delivered = [place for place, each in enumerate(victim.records) if isinstance(each, records.Deliver)]
    del victim.records[delivered[-5]]
    shut_down(run)
    assert store_what_stays(tmp_path, run, BYTES_MAX) > 0
    assert judge_both(spark, tmp_path).audit.verdict.lost > 0
