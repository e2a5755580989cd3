"""A query in a separate process, which a test kills.

    python -m tests.spark.killed_query (follow|drain) CHECKPOINT SOURCE SINK

SOURCE and SINK are options as JSON, with the format among them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark_relay.session import open_session
from relay_lab.drills.tether import tie

PROJECT = Path(__file__).parents[2]
#: A loaded machine takes long to start Java; nothing waits longer than it must.
PATIENCE_S = 300


def start_query(mode: str, checkpoint: Path, source: dict[str, Any], sink: dict[str, Any]) -> subprocess.Popen[bytes]:
    """In a separate process group, so that Spark's Java is killed with it."""
    command = [sys.executable, "-m", "tests.spark.killed_query", mode, str(checkpoint), json.dumps(source), json.dumps(sink)]
    return subprocess.Popen(tie(command), cwd=PROJECT, start_new_session=True, stderr=subprocess.DEVNULL)


def kill(query: subprocess.Popen[bytes]) -> None:
    os.killpg(query.pid, signal.SIGKILL)
    query.wait()


def count_batches(checkpoint: Path) -> int:
    """Batches that are done."""
    commits = checkpoint / "commits"
    return sum(file.name.isdecimal() for file in commits.iterdir()) if commits.is_dir() else 0


def run(mode: str, checkpoint: Path, source: dict[str, Any], sink: dict[str, Any]) -> None:
    """Follow the source until this process is ended, or drain it and end."""
    spark = open_session("killed query", "local[2]", 0, checkpoint.with_suffix(".log"))
    stream = spark.readStream.format(source.pop("format")).options(**source).load()
    trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "100 milliseconds"}
    writer = stream.writeStream.trigger(**trigger).option("checkpointLocation", str(checkpoint))
    writer.format(sink.pop("format")).options(**sink).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), *map(json.loads, sys.argv[3:]))
