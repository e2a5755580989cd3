"""A query from text files into nodes, in a separate process that a test kills.

python -m tests.spark.sink.publishing_query FILES CHECKPOINT (follow|drain) URL...
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark_relay.session import open_session


def run(files: Path, checkpoint: Path, mode: str, *urls: str) -> None:
    """Follow the files until this process is ended, or drain them and end."""
    spark = open_session("publishing query", "local[1]", 0, checkpoint.with_suffix(".log"))
    stream = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(files))
    trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "100 milliseconds"}
    writer = stream.writeStream.trigger(**trigger).option("checkpointLocation", str(checkpoint))
    writer.format("relay").option("url", ",".join(urls)).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
