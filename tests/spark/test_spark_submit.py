"""`relay audit`, as `spark-submit` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from pyspark_relay import audit, session
from pyspark_relay.audit import AuditResult
from pyspark_relay.audit_command import main
from pyspark_relay.java import find_java
from tests.harness.command_line import Run, run
from tests.lab.test_demo import RELAY
from tests.spark.test_audit_command import VERDICT
from tests.spark.test_report import DATA

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
LIMIT_S = 900.0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.conforms("USR-7")
def test_spark_submit_says_what_the_command_says_and_writes_the_tables(tmp_path: Path) -> None:
    journals, tables = tmp_path / "journals", tmp_path / "audit"
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }

    def say(*command: str | Path) -> str:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        return ran.stdout

    say(*RELAY, "journal", "generate", journals, "--deliveries", "2000")
    job = ROOT / "spark/pyspark_relay/audit_command.py"
    said = say(home / "bin" / "spark-submit", "--master", "local[1]", job, journals, "--out", tables)
    assert said.splitlines()[-1] == say(*RELAY, "audit", journals).splitlines()[-1]
    assert "PASS: " in said
    assert (tables / "report.html").is_file()


def test_of_little_it_says_what_relay_audit_says_of_it(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("journal", "generate", tmp_path / "journals", "--deliveries", 100)
    monkeypatch.setattr(session, "open_session", lambda *_: SimpleNamespace(stop=lambda: None))
    result = AuditResult(VERDICT, replace(DATA, lag=[], summary={"failovers": [], "clocks": ""}))
    monkeypatch.setattr(audit, "run_audit", lambda *_: result)

    def said(*more: str) -> str:
        assert main([str(tmp_path / "journals"), *more]) == 0
        return capsys.readouterr().err

    assert said() == "0.0 MB of journals: use relay check, which judges the same promises in seconds.\n"
    assert said("--json") == ""
    monkeypatch.setattr(session, "SMALL_BYTES", 0)
    assert said() == ""
