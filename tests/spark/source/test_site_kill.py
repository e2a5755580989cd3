"""Exactly once: a stream from a running site into Parquet, through a kill of the read relay and of the query."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.client import Client
from tests.harness.node_sites import NodeSites, node_sites
from tests.spark.killed_query import PATIENCE_S, count_batches, kill, start_query


class Senders:
    """Posts numbered messages at both sites, each until a node has it, and counts them."""

    def __init__(self, sites: NodeSites, names: list[str]) -> None:
        self.clients = {name: Client([sites.urls[name]], give_up_s=PATIENCE_S) for name in names}
        self.posted: list[str] = []

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def post(self) -> None:
        for name, client in self.clients.items():
            self.posted.append(f"{name}-{len(self.posted)}")
            client.publish(self.posted[-1].encode(), key=self.posted[-1])

    def post_until(self, query: subprocess.Popen[bytes], checkpoint: Path, batches: int) -> None:
        """Until so many batches are in the sink."""
        ends = time.monotonic() + PATIENCE_S
        while count_batches(checkpoint) < batches:
            assert query.poll() is None, checkpoint.with_suffix(".log").read_text(errors="replace")[-5_000:]
            assert time.monotonic() < ends
            self.post()


@pytest.mark.long
@pytest.mark.slow
def test_each_message_is_once_in_the_sink_of_a_query_that_was_killed(directory: Path, spark: SparkSession) -> None:
    out, checkpoint = directory / "out", directory / "checkpoint"
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites:
        relay, second = sites.status("A")["view"]["members"]
        what = {"format": "relay", "url": f"{sites.urls[relay]},{sites.urls[second]}"}, {"format": "parquet", "path": str(out)}
        query = start_query("follow", checkpoint, *what)
        senders = Senders(sites, [second, "D"])
        try:
            senders.post_until(query, checkpoint, 3)
            sites.kill(relay)
            senders.post_until(query, checkpoint, count_batches(checkpoint) + 3)
            kill(query)
            for _ in range(20):
                senders.post()
            query = start_query("follow", checkpoint, *what)
            senders.post_until(query, checkpoint, count_batches(checkpoint) + 2)
            last = sites.status(second)
            assert last["view"]["members"] == [second]
            ends = time.monotonic() + PATIENCE_S
            while not Counter(values(spark, out)) >= Counter(senders.posted):
                assert time.monotonic() < ends
                time.sleep(0.5)
        finally:
            kill(query)
            senders.close()
    assert Counter(values(spark, out)) == Counter(senders.posted)


def values(spark: SparkSession, out: Path) -> list[str]:
    """What is in the sink; a gap by its reason."""
    rows = spark.read.parquet(str(out)).selectExpr("coalesce(cast(value as string), gap.reason) as value").collect()
    return [row["value"] for row in rows]
