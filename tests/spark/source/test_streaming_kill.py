"""Exactly once: a query that is killed while the journals grow, and begun again, leaves every record once in its sink."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.growing import GrowingJournals, small_run
from tests.spark.killed_query import PATIENCE_S, count_batches, kill, start_query

KILLS = 2
#: Small, so that there are many batches to be killed in.
BYTES_MAX = 40_000


@pytest.mark.long
@pytest.mark.conforms("USR-7")
def test_each_record_is_once_in_the_sink_of_a_query_that_was_killed(tmp_path: Path, spark: SparkSession) -> None:
    journals = GrowingJournals(tmp_path / "journals", small_run(deliveries=40_000), segment_bytes=30_000)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    written = {"format": "relay", "rows": "records", "maxBytesPerTrigger": BYTES_MAX, "path": str(journals.directory)}
    what = written, {"format": "parquet", "path": str(out)}
    journals.write(500)
    done_at_kill = []
    for _ in range(KILLS):
        query = start_query("follow", checkpoint, *what)
        try:
            enough = count_batches(checkpoint) + 3
            deadline = time.monotonic() + PATIENCE_S
            while count_batches(checkpoint) < enough:
                assert query.poll() is None, "the query ended by itself"
                assert time.monotonic() < deadline
                journals.write(40)
                time.sleep(0.02)
        finally:
            kill(query)
        done_at_kill.append(count_batches(checkpoint))
        journals.write(300)
    journals.write()
    query = start_query("drain", checkpoint, *what)
    assert query.wait(PATIENCE_S) == 0

    # There may be more files, left by a killed batch. Spark's log of the sink lists the valid ones.
    sink = spark.read.parquet(str(out))
    assert done_at_kill[0] < done_at_kill[1] < count_batches(checkpoint)
    assert keys(sink) == keys(spark.read.format("relay").option("rows", "records").load(str(journals.directory)))
    assert len({(uuid, segment) for uuid, segment, _, _ in keys(sink)}) > 20


def keys(records: DataFrame) -> list[tuple[str, int, int, str]]:
    rows = records.selectExpr("uuid", "segment", "offset", "to_json(struct(*)) as row", "position").orderBy("uuid", "position")
    return [tuple(row[:4]) for row in rows.collect()]
