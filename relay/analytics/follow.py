"""`relay audit --follow`: the audit of journals that grow.

Three streams, each with its own checkpoint, so that all of it goes on where it was after any kind of end:

* `rates`: what each origin sends a minute, by the transform of the audit, in a window with a watermark;
* `lag_histograms`: sends and deliveries are joined within the horizon, and their lags counted by minute;
* `promises`: every batch is judged against what is known (`relay.analytics.horizon`).

The horizon is the watermark's delay: for so long a late site is waited for, and so far back reaches the state.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from relay.analytics.columns import select_schema
from relay.analytics.facts import to_facts
from relay.analytics.follow_judge import FollowError, Judge, Progress
from relay.analytics.integrity import BATCH
from relay.analytics.measures import count_lags, find_lags, measure_rates
from relay.analytics.streaming import BYTES_MAX

#: Tables over time are by the minute.
STRETCH_S = 60
#: Longer than the buffers of a relay hold messages for a site that is cut off.
HORIZON_S = 900
#: How often the journals are looked at.
TRIGGER_S = 5.0
#: How often it is looked at whether the streams still run.
_WATCH_S = 0.5

_COLUMNS = (
    *("kind", "site", "node", "uuid", "segment", "offset", "position", "wall_ns", "time"),
    *("origin_site", "origin", "scope", "first", "last", "target", "gseq", "vid", "bytes", "sizes", "digest"),
    *("reason", "file", "detail"),
)


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """What to follow, and how."""

    paths: Sequence[str]
    #: Tables, state and checkpoints; a later run goes on from there.
    out: Path
    horizon_s: int = HORIZON_S
    #: None: take what is there and end.
    trigger_s: float | None = TRIGGER_S
    #: So much of the journals is in a batch.
    bytes_max: int = BYTES_MAX


def follow(
    spark: SparkSession,
    options: FollowOptions,
    observe: Callable[[Progress], None],
    tell: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Run the streams until `stop` is set, or all is taken. `tell` hears sentences about the tables.

    Raises FollowError when a stream cannot go on.
    """
    queries = start_following(spark, options, observe)
    told: set[tuple[str, int]] = set()
    try:
        while not stop.wait(_WATCH_S) and any(query.isActive for query in queries):
            for query in queries:
                _raise_failure(query)
                for sentence in _dropped(query, options.horizon_s, told):
                    tell(sentence)
    finally:
        for query in queries:
            query.stop()
    if not stop.is_set():
        for query in queries:
            _raise_failure(query)


def start_following(spark: SparkSession, options: FollowOptions, observe: Callable[[Progress], None]) -> list[StreamingQuery]:
    """Start the streams."""
    trigger = {"availableNow": True} if options.trigger_s is None else {"processingTime": f"{options.trigger_s} seconds"}
    out = options.out.absolute()

    def writer(table: DataFrame, name: str) -> StreamingQuery:
        stream = table.writeStream.queryName(name).trigger(**trigger)
        stream = stream.option("checkpointLocation", str(out / "checkpoint" / name))
        if name == "promises":
            return stream.foreachBatch(Judge(spark, out, options.horizon_s, observe).take).start()
        return stream.start(str(out / name), "parquet")

    facts = _read(spark, options, "send,deliver").withWatermark("time", f"{options.horizon_s} seconds")
    lags = find_lags(match_in_time(facts, options.horizon_s))
    tables = {"promises": _read(spark, options, None)}
    tables |= {"rates": measure_rates(facts, STRETCH_S), "lag_histograms": count_lags(lags, STRETCH_S)}
    return [writer(table, name) for name, table in tables.items()]


def match_in_time(facts: DataFrame, horizon_s: int) -> DataFrame:
    """Relayed deliveries with their sends, which a join can forget when the horizon has passed."""
    sends = facts.where("kind = 'send' and scope = 'all'").select(
        *[F.col(name).alias(f"send_{name}") for name in BATCH],
        F.col("wall_ns").alias("send_ns"),
        F.col("time").alias("send_time"),
    )
    deliveries = facts.where("kind = 'deliver' and scope = 'all' and origin_site != site")
    same = [F.col(name) == F.col(f"send_{name}") for name in BATCH]
    # Clocks may disagree, so that a delivery may seem to come before its send.
    near = F.expr(f"time between send_time - interval 60 seconds and send_time + interval {horizon_s} seconds")
    return deliveries.join(sends, [*same, near])


def _read(spark: SparkSession, options: FollowOptions, kinds: str | None) -> DataFrame:
    stream = spark.readStream.format("relay").schema(select_schema(*_COLUMNS)).option("paths", json.dumps(list(options.paths)))
    stream = stream.option("maxBytesPerTrigger", options.bytes_max)
    return to_facts((stream if kinds is None else stream.option("kinds", kinds)).load())


def _raise_failure(query: StreamingQuery) -> None:
    failure: PySparkException | None = query.exception()
    if failure is not None:
        first = next((line for line in str(failure).splitlines() if line.strip()), "no reason given")
        raise FollowError(f"The stream {query.name} of the audit ended: {first}")


def _dropped(query: StreamingQuery, horizon_s: int, told: set[tuple[str, int]]) -> Iterator[str]:
    """A sentence for every batch in which rows came too late for a table."""
    for progress in query.recentProgress:
        key = (progress.name or "", progress.batchId)
        late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
        if late and key not in told:
            told.add(key)
            yield f"{late} rows came more than {horizon_s} s late and are not in table {query.name} (batch {progress.batchId})."
