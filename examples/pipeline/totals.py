"""Totals of orders by site, from the messages of a running site: a Spark job.

python examples/pipeline/totals.py --url http://10.0.0.1:7800,http://10.0.0.2:7800 --out totals/
spark-submit --master spark://host:7077 examples/pipeline/totals.py --url ... --out ...

It runs until Ctrl-C, or for `--seconds`, and continues from `--out` when it is started again.
`--out` gets Parquet tables, `messages` with each message and gap as it came, and `totals`. A total
appears once its window is over and LATE has passed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_relay.session import open_session, stop_session
from pyspark_relay.source.columns import MESSAGES

ORDER = "id string, customer string, amount double, placed timestamp"
WINDOW = "5 seconds"
#: Time for which an order may arrive after later ones: longer than a failover. A later one is left
#: out, and counted by Spark (numRowsDroppedByWatermark). A repeated key is recognised for as long.
LATE = "30 seconds"


def total(messages: DataFrame) -> DataFrame:
    """Return orders and their sum by site and window, each key once."""
    order = F.from_json(F.col("value").cast("string"), ORDER).alias("order")
    orders = messages.where("gap is null").select("site", "key", order).select("site", "key", "order.*")
    once = orders.where("placed is not null").withWatermark("placed", LATE).dropDuplicatesWithinWatermark(["key"])
    sums = F.count("*").alias("orders"), F.sum("amount").alias("amount")
    windows = once.groupBy(F.window("placed", WINDOW), "site").agg(*sums)
    return windows.select(F.col("window.start").alias("begin"), "site", "orders", "amount")


def start(table: DataFrame, out: Path, name: str) -> StreamingQuery:
    """Write a stream to Parquet files under its name."""
    # With this directory a reader of the table sees only the files of finished batches.
    (out / name / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    writer = table.writeStream.queryName(name).outputMode("append").trigger(processingTime="1 second")
    return writer.option("checkpointLocation", str(out / "checkpoints" / name)).start(str(out / name), "parquet")


def run(url: str, out: Path, token: str, seconds: float | None) -> None:
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    spark = open_session("orders by site", None, 0, out / "spark.log")
    messages = spark.readStream.format("relay").option("url", url).option("token", token).load()
    queries = [start(messages, out, "messages")]
    kept = spark.readStream.schema(MESSAGES).parquet(str(out / "messages"))
    queries.append(start(total(kept), out, "totals"))
    try:
        spark.streams.awaitAnyTermination(seconds)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        pass
    finally:
        for query in queries:
            query.stop()
    stop_session(spark)


def main() -> None:
    parser = argparse.ArgumentParser(description="Totals of orders by site")
    parser.add_argument("--url", required=True, help="HTTP addresses of nodes of one site, separated by commas")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--token", default="")
    parser.add_argument("--seconds", type=float)
    options: Any = parser.parse_args()
    run(options.url, options.out, options.token, options.seconds)


if __name__ == "__main__":
    main()
