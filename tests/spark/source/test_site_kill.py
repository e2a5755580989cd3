"""Exactly once: a stream from a running site into Parquet, through a kill of the read relay and of the query."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.client import Client
from relay_lab.drills.tether import tie
from tests.harness.node_sites import NodeSites, node_sites
from tests.spark.source.test_streaming_kill import PATIENCE_S, PROJECT, count_batches


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

    def post_until(self, query: subprocess.Popen[bytes], out: Path, batches: int) -> None:
        """Until so many batches are in the sink."""
        ends = time.monotonic() + PATIENCE_S
        while count_batches(out) < batches:
            assert query.poll() is None, out.with_suffix(".log").read_text(errors="replace")[-5_000:]
            assert time.monotonic() < ends
            self.post()


def start_query(out: Path, urls: list[str]) -> subprocess.Popen[bytes]:
    """In a separate process group, so that Spark's Java is killed with it."""
    command = [sys.executable, "-m", "tests.spark.source.site_query", str(out), *urls]
    return subprocess.Popen(tie(command), cwd=PROJECT, start_new_session=True, stderr=subprocess.DEVNULL)


def kill(query: subprocess.Popen[bytes]) -> None:
    os.killpg(query.pid, signal.SIGKILL)
    query.wait()


@pytest.mark.long
@pytest.mark.slow
def test_each_message_is_once_in_the_sink_of_a_query_that_was_killed(directory: Path, spark: SparkSession) -> None:
    out = directory / "out"
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites:
        relay, second = sites.status("A")["view"]["members"]
        urls = [sites.urls[relay], sites.urls[second]]
        query = start_query(out, urls)
        senders = Senders(sites, [second, "D"])
        try:
            senders.post_until(query, out, 3)
            sites.kill(relay)
            senders.post_until(query, out, count_batches(out) + 3)
            kill(query)
            for _ in range(20):
                senders.post()
            query = start_query(out, urls)
            senders.post_until(query, out, count_batches(out) + 2)
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
