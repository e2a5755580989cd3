"""A query from journals into Parquet files, in a separate process that a test kills.

python -m tests.spark.source.streaming_query JOURNALS OUT (follow|drain)
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark_relay.session import open_session

#: Small, so that there are many batches to be killed in.
BYTES_MAX = 40_000


def run(journals: Path, out: Path, mode: str) -> None:
    """Follow the journals until this process is ended, or drain them and end."""
    spark = open_session("streaming query", "local[2]", 0, out.with_suffix(".log"))
    stream = (
        spark.readStream.format("relay").option("rows", "records").option("maxBytesPerTrigger", BYTES_MAX).load(str(journals))
    )
    trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "100 milliseconds"}
    writer = stream.writeStream.trigger(**trigger).option("checkpointLocation", f"{out}.checkpoint")
    writer.start(str(out), "parquet").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
