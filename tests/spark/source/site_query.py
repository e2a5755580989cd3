"""A query from a running site into Parquet files, in a separate process that a test kills.

python -m tests.spark.source.site_query OUT URL...
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark_relay.session import open_session


def run(out: Path, *urls: str) -> None:
    """Follow the site until somebody ends this process."""
    spark = open_session("site query", "local[1]", 0, out.with_suffix(".log"))
    stream = spark.readStream.format("relay").option("url", ",".join(urls)).load()
    writer = stream.writeStream.trigger(processingTime="100 milliseconds").option("checkpointLocation", f"{out}.checkpoint")
    writer.start(str(out), "parquet").awaitTermination()


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
