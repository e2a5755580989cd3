"""`relay audit` on a standalone cluster of Spark: a master and two workers, as processes on this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.lab.test_demo import RELAY
from tests.spark.standalone import HOST, standalone_cluster

#: A busy machine starts six Java processes; nothing waits longer than it must.
LIMIT_S = 600.0
WORKERS = 2


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.conforms("USR-7")
def test_an_audit_on_a_cluster_prints_the_same_as_a_local_one(tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> str:
        environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": HOST}
        ran = subprocess.run([*RELAY, *arguments], capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        return ran.stdout

    run("journal", "generate", tmp_path / "journals", "--deliveries", "2000")
    with standalone_cluster(tmp_path, WORKERS) as master:
        assert master.startswith(f"spark://{HOST}:")
        said = run("audit", tmp_path / "journals", "--master", master)
    assert "PASS: " in said
    assert said == run("audit", tmp_path / "journals", "--master", "local[1]")
    assert [tasks_run(tmp_path / f"work{number}") > 0 for number in range(WORKERS)] == [True] * WORKERS


def tasks_run(work: Path) -> int:
    """Return the number of tasks that the executors of a worker report as finished."""
    return sum(log.read_text(errors="replace").count(": Finished task ") for log in work.glob("app-*/*/stderr"))
