"""`relay audit`, as `spark-submit` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_relay.java import find_java
from tests.harness.command_line import run
from tests.lab.test_demo import RELAY

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
LIMIT_S = 900.0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.conforms("USR-7")
def test_spark_submit_prints_the_verdict_of_the_command_and_writes_the_report(tmp_path: Path) -> None:
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
    verdict = next(line for line in said.splitlines() if line.startswith("PASS: "))
    assert verdict in say(*RELAY, "audit", journals).splitlines()
    assert (tables / "report.html").is_file()
