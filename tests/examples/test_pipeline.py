"""The pipeline of orders, on the embedded Spark and on a standalone cluster: its totals are the posted orders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.programs import PROJECT
from tests.spark.standalone import HOST, standalone_cluster

LIMIT_S = 1_200.0


def run_pipeline(out: Path, *options: str) -> str:
    command = [sys.executable, "examples/pipeline/run.py", str(out), "--seconds", "120", *options]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3_000:]
    return ran.stdout


@pytest.mark.long
@pytest.mark.slow
def test_the_totals_are_the_posted_orders_through_a_kill_of_the_relay(tmp_path: Path) -> None:
    said = run_pipeline(tmp_path / "out")
    assert "Killed " in said
    assert said.splitlines()[-1] == "PASS"


@pytest.mark.long
@pytest.mark.slow
def test_the_same_job_runs_by_spark_submit_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", HOST)
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster", 1) as master:
        assert "PASS" in run_pipeline(tmp_path / "out", "--master", master)
        assert list((tmp_path / "cluster" / "work0").iterdir()), "an executor ran"
