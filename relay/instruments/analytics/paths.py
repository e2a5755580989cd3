"""X6, X7: nothing comes back to its own site, and one process relays."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import range_text, stream_text, vid_text
from relay.instruments.analytics.findings import text, to_findings


def find_loops(facts: DataFrame) -> DataFrame:
    """X6. Nothing is delivered by way of a relay at its own site, nor of another site without one."""
    wrong = facts.where("kind = 'deliver' and (via = 'relay') = (origin_site = site)")
    what = text("delivered ", stream_text(), " ", range_text(), " via ", F.col("via"))
    return to_findings(wrong, "X6", F.col("via"), what)


def find_twin_relays(events: DataFrame, stays: DataFrame, processes: DataFrame) -> DataFrame:
    """X7. For a site's lineage and an epoch, at most one process is the relay."""
    lineages = F.broadcast(stays.select("uuid", "stay", "lineage"))
    relays = events.where("kind = 'role' and role = 'relay' and epoch is not null").drop("lineage")
    holders = (
        relays.join(lineages, ["uuid", "stay"], "left")
        .groupBy("site", "lineage", "epoch", "uuid")
        .agg(F.min("position").alias("position"))
    )
    known = F.broadcast(processes.select("uuid", F.struct("site", "node", "uuid").alias("who"), "label"))
    named = holders.join(known, "uuid")
    first = named.groupBy("site", "lineage", "epoch").agg(
        F.min_by("label", "who").alias("holder"), F.min("who").alias("first_who")
    )
    keys = [F.col(f"one.{name}").eqNullSafe(F.col(f"first.{name}")) for name in ("site", "lineage", "epoch")]
    others = named.alias("one").join(F.broadcast(first).alias("first"), keys).where("who != first_who")
    twins = others.select("one.uuid", "one.position", "one.epoch", "holder")
    what = text("is the relay of epoch ", vid_text("epoch"), ", and so is ", F.col("holder"))
    return to_findings(twins, "X7", vid_text("epoch"), what)
