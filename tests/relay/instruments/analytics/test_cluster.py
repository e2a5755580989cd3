"""`relay audit` on a cluster: a master and two workers, each a process of its own, which Spark starts on this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.relay.instruments.test_demo import RELAY

#: A busy machine starts five Java processes; nothing waits longer than it must.
LIMIT_S = 900.0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.needs("Java")
@pytest.mark.conforms("USR-7")
def test_an_audit_on_a_cluster_says_what_one_on_this_machine_says(java: None, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> str:
        environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        ran = subprocess.run([*RELAY, *arguments], capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        return ran.stdout

    run("journal", "generate", tmp_path / "journals", "--deliveries", "2000")
    masters = {"cluster": "local-cluster[2,1,1024]", "machine": "local[1]"}
    said = {where: run("audit", tmp_path / "journals", "--master", master) for where, master in masters.items()}
    assert "PASS: " in said["cluster"]
    assert said["cluster"] == said["machine"]
