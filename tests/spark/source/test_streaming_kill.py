"""Exactly once: a query that is killed while the journals grow, and begun again, leaves every record once in its sink."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.growing import GrowingJournals, small_run

PROJECT = Path(__file__).parents[3]
KILLS = 2
#: A loaded machine takes long to start Java; nothing waits longer than it must.
PATIENCE_S = 300


def start_query(journals: Path, out: Path, mode: str) -> subprocess.Popen[bytes]:
    """In a separate process group, so that Spark's Java is killed with it."""
    command = [sys.executable, "-m", "tests.spark.source.streaming_query", str(journals), str(out), mode]
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True, stderr=subprocess.DEVNULL)


def count_batches(out: Path) -> int:
    """Batches that are done."""
    commits = Path(f"{out}.checkpoint") / "commits"
    return sum(file.name.isdecimal() for file in commits.iterdir()) if commits.is_dir() else 0


@pytest.mark.long
@pytest.mark.conforms("USR-7")
def test_each_record_is_once_in_the_sink_of_a_query_that_was_killed(tmp_path: Path, spark: SparkSession) -> None:
    journals = GrowingJournals(tmp_path / "journals", small_run(deliveries=40_000), segment_bytes=30_000)
    out = tmp_path / "out"
    journals.write(500)
    done_at_kill = []
    for _ in range(KILLS):
        query = start_query(journals.directory, out, "follow")
        try:
            enough = count_batches(out) + 3
            deadline = time.monotonic() + PATIENCE_S
            while count_batches(out) < enough:
                assert query.poll() is None, "the query ended by itself"
                assert time.monotonic() < deadline
                journals.write(40)
                time.sleep(0.02)
        finally:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
        done_at_kill.append(count_batches(out))
        journals.write(300)
    journals.write()
    query = start_query(journals.directory, out, "drain")
    assert query.wait(PATIENCE_S) == 0

    # There may be more files, left by a killed batch. Spark's log of the sink lists the valid ones.
    sink = spark.read.parquet(str(out))
    assert done_at_kill[0] < done_at_kill[1] < count_batches(out)
    assert keys(sink) == keys(spark.read.format("relay").option("rows", "records").load(str(journals.directory)))
    assert len({(uuid, segment) for uuid, segment, _, _ in keys(sink)}) > 20


def keys(records: DataFrame) -> list[tuple[str, int, int, str]]:
    rows = records.selectExpr("uuid", "segment", "offset", "to_json(struct(*)) as row", "position").orderBy("uuid", "position")
    return [tuple(row[:4]) for row in rows.collect()]
