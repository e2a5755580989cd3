"""A standalone cluster of Spark: a master and some workers of a core each, processes that are started here on loopback.

How long an audit takes on one: python -m tests.spark.standalone JOURNALS WORKERS
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from pyspark_relay.audit import run_audit
from pyspark_relay.java import find_java
from pyspark_relay.session import count_partitions, measure_bytes, open_session, stop_session

LIMIT_S = 120.0
HOST = "127.0.0.1"


@contextmanager
def spark_process(log: Path, kind: str, *arguments: str) -> Iterator[None]:
    """A process of the cluster, ended and awaited after the block, with its children."""
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}",
        "--host",
        HOST,
        "--webui-port",
        "0",
        *arguments,
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": HOST}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_line(log: Path, pattern: str) -> str:
    """Return the first group of the pattern in a process's log."""
    ends = time.monotonic() + LIMIT_S
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        if time.monotonic() > ends:
            raise TimeoutError(log.read_text(errors="replace"))
        time.sleep(0.1)
    return found[1]


@contextmanager
def standalone_cluster(place: Path, workers: int) -> Iterator[str]:
    """The address of a master with so many workers. Worker 0 logs to `worker0` and its executors to `work0`, and so on."""
    with ExitStack() as stack:
        stack.enter_context(spark_process(place / "master", "master.Master", "--port", "0"))
        master = await_line(place / "master", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log, work = place / f"worker{number}", place / f"work{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(work), master)
            stack.enter_context(spark_process(log, "worker.Worker", *options))
            await_line(log, r"(Successfully registered) with master")
        yield master


def measure(journals: Path, workers: int) -> str:
    """A line with the figures of one audit."""
    with TemporaryDirectory(prefix="standalone-") as name, standalone_cluster(place := Path(name), workers) as master:
        os.environ["SPARK_LOCAL_IP"] = HOST
        size = measure_bytes([journals])
        spark = open_session("standalone", master, size, place / "spark.log")
        began = time.monotonic()
        verdict = run_audit(spark, [str(journals)], count_partitions(size), None, lambda *_: None).verdict
        seconds = time.monotonic() - began
        rows = (
            spark.read.format("relay")
            .option("rows", "records")
            .load(str(journals))
            .where("kind not in ('segment', 'problem')")
            .count()
        )
        stop_session(spark)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    told = f"{verdict.deliveries} deliveries, {rows} rows, {workers} workers: {verdict.verdict} in {seconds:.1f} s"
    return f"{told}, {rows / seconds:.0f} rows/s, {verdict.deliveries / seconds:.0f} deliveries/s (load average {load})"


if __name__ == "__main__":
    print(measure(Path(sys.argv[1]), int(sys.argv[2])))
