"""`relay audit --follow`: the audit of journals that grow.

Three streams, each with its own checkpoint, so that all of it goes on where it was after any kind of end:

* `rates`: what each origin sends a minute, by the transform of the audit, in a window with a watermark;
* `lag_histograms`: sends and deliveries are joined within the horizon, and their lags counted by minute;
* `promises`: every batch is judged against what is known (`pyspark_relay.follow.horizon`).

The horizon is the watermark's delay: for so long a late site is waited for, and so far back reaches the state.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_relay.facts import to_facts
from pyspark_relay.follow.judge import Judge, Progress
from pyspark_relay.follow.restarts import LateRows, RestartedStream
from pyspark_relay.measures import count_lags, find_lags, measure_rates
from pyspark_relay.promises.integrity import BATCH
from pyspark_relay.source.columns import select_schema
from pyspark_relay.source.streaming import BYTES_MAX
from sitestack.model.errors import ConfigurationError

#: Seconds of a stretch of time in tables.
STRETCH_S = 60
#: Default horizon in seconds: longer than a relay buffers messages for a site that is cut off.
HORIZON_S = 900
#: Shortest horizon in seconds, two looks at the journals: with less, records that are merely not read yet would be late.
HORIZON_MIN_S = 10
#: Seconds between two looks at the journals.
TRIGGER_S = 5.0
#: Batches of the promises for one batch of the tables, which are not urgent.
TABLES_EVERY = 6
#: Seconds between two checks whether the streams still run.
_WATCH_S = 0.5
#: Seconds at the end for batches under way. Batches that are aborted then are repeated by the next run.
_FINISH_S = 5.0

_COLUMNS = (
    *("kind", "site", "node", "uuid", "segment", "offset", "position", "wall_ns", "time"),
    *("origin_site", "origin", "scope", "first", "last", "target", "gseq", "vid", "bytes", "sizes", "digest"),
    *("reason", "file", "detail"),
)


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """What to follow, and how. Raises ConfigurationError when the horizon is too short."""

    paths: Sequence[str]
    #: Tables, state and checkpoints; a later run goes on from there.
    out: Path
    horizon_s: int = HORIZON_S
    #: None: take what is there and end.
    trigger_s: float | None = TRIGGER_S
    #: So much of the journals is in a batch.
    bytes_max: int = BYTES_MAX

    def __post_init__(self) -> None:
        if self.horizon_s < HORIZON_MIN_S:
            raise ConfigurationError(f"The horizon must be at least {HORIZON_MIN_S} s, and not {self.horizon_s} s.")


def follow(
    spark: SparkSession,
    options: FollowOptions,
    observe: Callable[[Progress], None],
    tell: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Run the streams until `stop` is set, or all is taken. `tell` is given sentences about the tables.

    Raises FollowError when a stream cannot go on.
    """
    # An error in a batch ends its stream, which reports it; the bridge to Java need not print it too.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    listener = LateRows(options.horizon_s, tell)
    spark.streams.addListener(listener)
    streams: list[RestartedStream] = []
    try:
        streams.extend(RestartedStream(name, start) for name, start in _define(spark, options, observe).items())
        is_over = False
        while not is_over and not stop.wait(_WATCH_S):
            have_ended = not any(stream.is_active for stream in streams)
            for stream in streams:
                stream.watch()
            is_over = have_ended and not any(stream.is_active for stream in streams)
        deadline = time.monotonic() + _FINISH_S
        while any(stream.is_busy for stream in streams) and time.monotonic() < deadline:
            time.sleep(_WATCH_S)
    finally:
        for stream in streams:
            stream.stop()
        spark.streams.removeListener(listener)


def _define(
    spark: SparkSession, options: FollowOptions, observe: Callable[[Progress], None]
) -> dict[str, Callable[[], StreamingQuery]]:
    """Name -> what starts the stream, for the first time and again."""
    out = options.out.absolute()

    def writer(table: DataFrame, name: str, every: int) -> DataStreamWriter:
        named = table.writeStream.queryName(name).option("checkpointLocation", str(out / "checkpoint" / name))
        if options.trigger_s is None:
            return named.trigger(availableNow=True)
        return named.trigger(processingTime=f"{options.trigger_s * every} seconds")

    judge = Judge(spark, out, options.horizon_s, observe)
    promises = writer(_read(spark, options, options.bytes_max), "promises", 1)
    traffic = _read(spark, options, options.bytes_max * TABLES_EVERY, "send,deliver")
    facts = traffic.withWatermark("time", f"{options.horizon_s} seconds")
    rates = writer(measure_rates(facts, STRETCH_S), "rates", TABLES_EVERY)
    lags = find_lags(match_in_time(facts, options.horizon_s))
    histograms = writer(count_lags(lags, STRETCH_S), "lag_histograms", TABLES_EVERY)
    return {
        "promises": lambda: promises.foreachBatch(judge.take).start(),
        "rates": lambda: rates.start(str(out / "rates"), "parquet"),
        "lag_histograms": lambda: histograms.start(str(out / "lag_histograms"), "parquet"),
    }


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


def _read(spark: SparkSession, options: FollowOptions, bytes_max: int, kinds: str | None = None) -> DataFrame:
    stream = spark.readStream.format("relay").schema(select_schema(*_COLUMNS)).option("paths", json.dumps(list(options.paths)))
    stream = stream.option("maxBytesPerTrigger", bytes_max)
    return to_facts((stream if kinds is None else stream.option("kinds", kinds)).load())
