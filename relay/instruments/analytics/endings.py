"""Who took part in a run, and where it ended: the counterpart of `sitestack.promises.ending`.

Survivors are those who stop only after the last message was sent, and after whose leaving nothing is sent or delivered
any more. What a survivor records after the survivors begin to leave is no part of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import settle
from sitestack.journal import records
from sitestack.promises.ending import LEAVE_S, QUIET_S


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. `cuts` has a row a survivor: `uuid`, and `cut`, the position where its part of the run ends or null."""

    cuts: DataFrame
    #: Seconds from the last send to the first survivor's stop; None without survivors.
    quiet_s: float | None

    @property
    def is_quiescent(self) -> bool:
        """Whether the run can be judged at its end."""
        return self.quiet_s is not None and self.quiet_s >= QUIET_S


def find_processes(facts: DataFrame) -> DataFrame:
    """A row a process: `uuid`, `site`, `node`, `label`, its segments, its last send or delivery, when and why it stopped."""
    traffic = F.when(F.col("kind").isin("send", "deliver"), F.col("position"))
    stop = F.col("kind") == "stop"
    names = F.concat("site", F.lit("/"), "node", F.lit("("), F.substring("uuid", 1, 8), F.lit(")"))
    return (
        facts.where("uuid is not null")
        .groupBy("uuid")
        .agg(
            F.min("site").alias("site"),
            F.min("node").alias("node"),
            F.max(traffic).alias("last_traffic"),
            F.max_by(F.when(stop, F.col("wall_ns")), F.when(stop, F.col("position"))).alias("stop_ns"),
            F.max_by(F.when(stop, F.col("reason")), F.when(stop, F.col("position"))).alias("stop_reason"),
            F.max("segment").alias("last_segment"),
        )
        .withColumn("label", names)
    )


def find_ending(events: DataFrame, processes: DataFrame, last_send_ns: int, last_start_ns: int) -> Ending:
    """Judge who survived."""
    departures = settle(_departures(events))
    cuts = processes.where(F.col("stop_ns") >= max(last_send_ns, last_start_ns)).select("uuid", "stop_ns", "last_traffic")
    while True:
        cuts = settle(_cut(cuts.select("uuid", "stop_ns", "last_traffic"), departures))
        early = cuts.where("last_traffic >= cut").select(F.explode("leaving").alias("uuid"))
        remaining = cuts.join(early, "uuid", "left_anti")
        found = cuts.agg(F.min("stop_ns"), F.count("*"), F.sum(F.when(F.col("last_traffic") >= F.col("cut"), 1))).first()
        assert found is not None
        first_stop_ns, survivors, are_early = found
        if not are_early:
            return Ending(cuts.select("uuid", "cut"), (first_stop_ns - last_send_ns) / 1e9 if survivors else None)
        cuts = remaining


def cut_at_ending(facts: DataFrame, ending: Ending) -> DataFrame:
    """Only the records that belong to the run."""
    cut = facts.join(F.broadcast(ending.cuts), "uuid", "left")
    return cut.where("cut is null or position < cut").drop("cut")


def add_fates(processes: DataFrame, ending: Ending | None) -> DataFrame:
    """With `fate`: `running` for survivors, `stopped` or `crashed`, which is also who left and was not answered."""
    ended = F.when(F.col("stop_reason") != records.UNANSWERED, "stopped").otherwise("crashed")
    if ending is None:
        return processes.withColumn("fate", ended)
    survivors = ending.cuts.select("uuid", F.lit(True).alias("survives"))
    joined = processes.join(F.broadcast(survivors), "uuid", "left")
    return joined.withColumn("fate", F.when(F.col("survives"), "running").otherwise(ended)).drop("survives")


def _departures(events: DataFrame) -> DataFrame:
    """Who is missing in a view or global view that was in the one before: `owner`, `position`, `wall_ns`, `gone`."""
    members = F.transform("members", lambda member: member["uuid"])
    before = F.lag("members").over(Window.partitionBy("uuid", "kind").orderBy("position"))
    views = events.where("kind in ('view', 'gview')").withColumn("members", members).withColumn("before", before)
    gone = F.explode(F.array_except("before", "members"))
    return views.select(F.col("uuid").alias("owner"), "position", "wall_ns", gone.alias("gone"))


def _cut(survivors: DataFrame, departures: DataFrame) -> DataFrame:
    """With `cut`, the first view of each survivor without one who is leaving, and who those are."""
    stops = survivors.select(F.col("uuid").alias("gone"), F.col("stop_ns").alias("gone_stop_ns"))
    is_leaving = F.col("wall_ns") >= F.col("gone_stop_ns") - F.lit(int(LEAVE_S * 1e9))
    leaving = (
        departures.join(stops, "gone")
        .where(is_leaving)
        .groupBy("owner", "position")
        .agg(F.collect_set("gone").alias("leaving"))
        .groupBy("owner")
        .agg(F.min("position").alias("cut"), F.min_by("leaving", "position").alias("leaving"))
        .withColumnRenamed("owner", "uuid")
    )
    return survivors.join(leaving, "uuid", "left")
