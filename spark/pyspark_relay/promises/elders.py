"""Elders: from whom a process has its history, directly or by way of others (`sitestack/promises/joiners.py`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import settle


def find_elders(stays: DataFrame) -> DataFrame:
    """What each process was handed when it joined: what its `elder` had before that one's stay `before`.

    Elders are the members of its first view that came from another view, and those of whom they had it themselves.
    """
    first = stays.where("stay = 1").select("site", "uuid", "vid", F.explode("members").alias("elder"))
    there = stays.where("stay > 1").select("site", F.col("uuid").alias("elder"), "vid", F.col("stay").alias("before"))
    teachers = settle(first.join(there, ["site", "elder", "vid"]).select("uuid", "elder", "before"))
    elders, known = teachers, teachers.count()
    while True:
        elders = settle(elders.unionByName(_hand_on(elders.drop("before"), teachers, ["uuid"])).distinct())
        if (grown := elders.count()) == known:
            return elders
        known = grown


def find_elders_met(stays: DataFrame, elders: DataFrame) -> DataFrame:
    """The same by `origin`, of those whom each process met in its first view with that origin; `elders` as found above."""
    meetings = stays.select("uuid", "stay", "vid", F.explode("members").alias("origin"))
    met = meetings.groupBy("uuid", "origin").agg(F.min_by("vid", "stay").alias("vid"))
    there = stays.where("stay > 1").select(F.col("uuid").alias("elder"), "vid")
    return _hand_on(met.join(F.broadcast(there), "vid").select("uuid", "origin", "elder"), elders, ["uuid", "origin"])


def _hand_on(between: DataFrame, elders: DataFrame, heir: list[str]) -> DataFrame:
    """The elders of those from whom each heir has its history."""
    onward = elders.withColumnRenamed("uuid", "between")
    return between.withColumnRenamed("elder", "between").join(onward, "between").select(*heir, "elder", "before")
