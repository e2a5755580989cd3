"""Totals of orders by site, from the messages of a running site: a Spark job.

python examples/pipeline/totals.py --url http://10.0.0.1:7800,http://10.0.0.2:7800 --out totals/
spark-submit --master spark://host:7077 examples/pipeline/totals.py --url ... --out ...

It runs until Ctrl-C, or for `--seconds`, and continues from `--out` when it is started again.
`--out` gets Parquet tables, `messages` with each message and gap as it came and `totals`, and
report.html. A total appears once its window is over and LATE has passed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_relay.session import open_session, stop_session
from pyspark_relay.source.columns import MESSAGES
from relay.report import draw_bars, draw_lines, draw_note, draw_page, draw_table, draw_tiles

ORDER = "id string, customer string, amount double, placed timestamp"
TOTALS = "begin timestamp, site string, orders bigint, amount double"
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


def report(spark: SparkSession, out: Path) -> str:
    """Return the page of the totals so far."""
    totals = spark.read.schema(TOTALS).parquet(str(out / "totals")).orderBy("begin", "site")
    rows = [row.asDict() for row in totals.collect()]
    messages = spark.read.schema(MESSAGES).parquet(str(out / "messages"))
    gaps = [row.asDict() for row in messages.where("gap is not null").select("site", "gap.*").collect()]
    sites = sorted({row["site"] for row in rows})
    began = min((row["begin"] for row in rows), default=None)

    def line(site: str, column: str) -> list[tuple[float, float]]:
        return [((row["begin"] - began).total_seconds(), row[column]) for row in rows if row["site"] == site]

    def sum_of(column: str, site: str | None = None) -> float:
        return float(sum(row[column] for row in rows if site in (None, row["site"])))

    table = [(f"{row['begin']:%H:%M:%S}", row["site"], row["orders"], row["amount"]) for row in rows]
    return draw_page(
        "Orders by site",
        [
            "<h1>Orders by site</h1>",
            draw_note(f"Windows of {WINDOW} by the time of the order. Each order once, by its key."),
            draw_tiles(
                [("orders", f"{sum_of('orders'):,.0f}"), ("amount", f"{sum_of('amount'):,.2f}"), ("gaps", str(len(gaps)))]
            ),
            "<h2>Amount</h2>",
            draw_lines({site: line(site, "amount") for site in sites}, f"amount in {WINDOW}", since="the first window"),
            draw_bars({site: sum_of("amount", site) for site in sites}, "Amount by site"),
            "<h2>Orders</h2>",
            draw_lines({site: line(site, "orders") for site in sites}, f"orders in {WINDOW}", since="the first window"),
            "<h2>Totals</h2>",
            draw_table(("Window", "Site", "Orders", "Amount"), table),
            "<h2>Missing messages</h2>",
            draw_table(("Site", "Why", "Detail"), [(row["site"], row["reason"], row["detail"]) for row in gaps])
            if gaps
            else draw_note("None."),
        ],
    )


def run(url: str, out: Path, token: str, seconds: float | None) -> None:
    """Follow the site, and write the report at the end."""
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
    (out / "report.html").write_text(report(spark, out), encoding="utf-8")
    print(f"Report: {out / 'report.html'}")
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
