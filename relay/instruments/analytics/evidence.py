"""What an audit works on, worked out once: the facts of the run, and the few rows that millions of deliveries fold into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.instruments.analytics.agreement import find_dealt_with
from relay.instruments.analytics.conservation import find_owed_across
from relay.instruments.analytics.endings import Ending, add_fates, cut_at_ending, find_ending, find_processes
from relay.instruments.analytics.facts import IS_MULTICAST, add_stays, find_stays, read_facts, settle
from relay.instruments.analytics.integrity import match_sends
from relay.instruments.analytics.measures import find_lags
from relay.instruments.analytics.reception import find_baselines, find_gaps, find_received, fold_deliveries
from relay.instruments.analytics.total_order import measure_order
from relay.journal import JournalError

#: Charts and tables over time have at most this many stretches, of at least a second.
STRETCHES_MAX = 120
_STRETCHES_S = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400)


@dataclass(frozen=True, slots=True)
class Extent:
    """The journals in a few numbers."""

    records: int
    processes: int
    begin_ns: int
    end_ns: int
    last_send_ns: int
    last_start_ns: int
    #: Whether messages of the own site have a place in its stream.
    has_order: bool

    @property
    def stretch_s(self) -> int:
        """How long a stretch of time is in tables over time: a second in short runs, a minute and more in long ones."""
        seconds = (self.end_ns - self.begin_ns) / 1e9
        return next((step for step in _STRETCHES_S if seconds / step <= STRETCHES_MAX), _STRETCHES_S[-1])


@dataclass(frozen=True, slots=True)
class Evidence:
    """The inputs of the transforms. Those that several of them read are persisted."""

    extent: Extent
    ending: Ending
    persisted: tuple[DataFrame, ...]
    #: All that is in the journals except sends and deliveries.
    recorded: DataFrame
    #: All records that belong to the run.
    facts: DataFrame
    #: Those of them that are no sends and deliveries.
    events: DataFrame
    processes: DataFrame
    stays: DataFrame
    runs: DataFrame
    received: DataFrame
    gaps: DataFrame
    dealt_with: DataFrame
    #: What survivors should have of origins of other sites.
    owed: DataFrame
    #: The order of each view at each member.
    orders: DataFrame
    #: Deliveries with their sends: those across sites, and those that do not match.
    matched: DataFrame
    #: The lag of every delivery across sites.
    lags: DataFrame

    def release(self) -> None:
        """Free what the executors keep of the deliveries."""
        for frame in self.persisted:
            frame.unpersist()


def gather(spark: SparkSession, paths: Sequence[str], partitions: int) -> Evidence:
    """Read the journals under these paths into so many partitions. Raises JournalError when there are none.

    What all records are in is persisted, in columns. Where one partition will do, the optimizer takes longer than the rows, so
    that there the plans are cut instead.
    """
    keep, shorten = (settle, settle) if partitions == 1 else (_persist, _as_is)
    read = keep(read_facts(spark, paths).coalesce(partitions))
    recorded = shorten(add_stays(read))
    extent = measure_extent(recorded)
    if not extent.processes:
        raise JournalError(f"no journal in {', '.join(paths)}")
    is_event = "kind not in ('send', 'deliver')"
    everybody = settle(find_processes(recorded))
    ending = find_ending(settle(recorded.where(is_event)), everybody, extent.last_send_ns, extent.last_start_ns)
    quiescent = ending.is_quiescent
    processes = settle(add_fates(everybody, ending if quiescent else None))
    facts = shorten(cut_at_ending(recorded, ending)) if quiescent else recorded
    events = settle(facts.where(is_event))
    stays = settle(find_stays(events))
    runs = settle(fold_deliveries(facts))
    received = settle(find_received(runs))
    gaps = settle(find_gaps(runs))
    matched = keep(match_sends(facts).where("origin_site != site or not is_same"))
    return Evidence(
        extent=extent,
        ending=ending,
        persisted=(read, matched),
        recorded=recorded.where(is_event),
        facts=facts,
        events=events,
        processes=processes,
        stays=stays,
        runs=runs,
        received=received,
        gaps=gaps,
        dealt_with=settle(find_dealt_with(received, gaps, find_baselines(runs))),
        owed=settle(find_owed_across(facts, events, received, stays, processes)),
        orders=settle(measure_order(facts)),
        matched=matched,
        lags=shorten(find_lags(matched)),
    )


def _persist(frame: DataFrame) -> DataFrame:
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _as_is(frame: DataFrame) -> DataFrame:
    return frame


def measure_extent(recorded: DataFrame) -> Extent:
    """One pass over the records."""
    kind = F.col("kind")
    has_place = (kind == "deliver") & (F.col("via") == "local") & F.expr(IS_MULTICAST) & F.col("gseq").isNotNull()
    found = recorded.agg(
        F.count_if(F.col("wall_ns").isNotNull()).alias("records"),
        F.count_distinct("uuid").alias("processes"),
        F.min(F.when(F.col("wall_ns") > 0, F.col("wall_ns"))).alias("begin_ns"),
        F.max("wall_ns").alias("end_ns"),
        F.max(F.when(kind == "send", F.col("wall_ns"))).alias("last_send_ns"),
        F.max(F.when(kind == "start", F.col("wall_ns"))).alias("last_start_ns"),
        F.coalesce(F.bool_or(has_place), F.lit(False)).alias("has_order"),
    ).first()
    assert found is not None
    values: dict[str, Any] = {name: 0 if value is None else value for name, value in found.asDict().items()}
    return Extent(**values)
