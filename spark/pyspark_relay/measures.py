from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Time (s) before and after a takeover in which its deliveries are searched.
FAILOVER_SEARCH_S = 600
#: Width of the histogram buckets of lags, as a factor.
BUCKET_FACTOR = 1.05


def measure_rates(facts: DataFrame, stretch_s: float) -> DataFrame:
    """Return `batches`, `messages` and `bytes` of each origin in each interval from `begin`."""
    return (
        facts.where("kind = 'send'")
        .groupBy(_stretch("time", stretch_s), "site", F.col("uuid").alias("origin"))
        .agg(F.count("*").alias("batches"), F.sum(_messages()).alias("messages"), F.sum("bytes").alias("bytes"))
        .select(F.col("stretch.start").alias("begin"), "site", "origin", "batches", "messages", "bytes")
    )


def measure_throughput(facts: DataFrame, stretch_s: float) -> DataFrame:
    """Return messages and bytes delivered by all members of a site in each interval, by `via`."""
    return (
        facts.where("kind = 'deliver'")
        .groupBy(_stretch("time", stretch_s), "site", "via")
        .agg(F.sum(_messages()).alias("messages"), F.sum("bytes").alias("bytes"))
        .select(F.col("stretch.start").alias("begin"), "site", "via", "messages", "bytes")
    )


def find_lags(matched: DataFrame) -> DataFrame:
    """Return the lag of every relayed batch.

    `pair` ("NYC>SFO"), `lag_ns` by the uncorrected wall clocks of both ends, `messages`, and
    `bucket` of the histogram.
    """
    lag = F.col("wall_ns") - F.col("send_ns")
    # Logarithmic on both sides of zero: disagreeing clocks make lags negative.
    size = F.floor(F.log(F.abs(lag) + 1) / F.log(F.lit(BUCKET_FACTOR)))
    relayed = matched.where("scope = 'all' and origin_site != site and send_ns is not null")
    return relayed.select(
        F.concat("origin_site", F.lit(">"), "site").alias("pair"),
        "origin_site",
        "site",
        "send_time",
        lag.alias("lag_ns"),
        F.when(lag < 0, -size - 1).otherwise(size).alias("bucket"),
        _messages().alias("messages"),
    )


def measure_lag(lags: DataFrame) -> DataFrame:
    """Return exact percentiles of the lag of each pair of sites (ms): `p50`, `p99`, `messages`."""
    return _percentiles(lags, ("pair",), (50, 99))


def measure_lag_over_time(lags: DataFrame, stretch_s: float) -> DataFrame:
    """Return the same for each interval of the send time, from `begin`."""
    timed = lags.withColumn("begin", _window("send_time", stretch_s)["start"])
    return _percentiles(timed, ("pair", "begin"), (50, 99))


def estimate_skew(lags: DataFrame) -> DataFrame:
    """Estimate the clock skew of two sites: half the difference of the smallest lags both ways.

    A row per pair (`one` < `other`). `skew_ms` is the lead of `other`'s clock if the quickest
    messages took equally long both ways. `uncertainty_ms`, its maximum error, is half the quickest
    round trip.
    """
    least = lags.groupBy("origin_site", "site").agg(F.min("lag_ns").alias("least"))
    there = least.select(F.col("origin_site").alias("one"), F.col("site").alias("other"), F.col("least").alias("there"))
    back = least.select(F.col("site").alias("one"), F.col("origin_site").alias("other"), F.col("least").alias("back"))
    both = there.join(back, ["one", "other"]).where("one < other")
    return both.select(
        "one",
        "other",
        ((F.col("there") - F.col("back")) / 2e6).alias("skew_ms"),
        ((F.col("there") + F.col("back")) / 2e6).alias("uncertainty_ms"),
    )


def measure_failover(facts: DataFrame, events: DataFrame, processes: DataFrame) -> DataFrame:
    """Return a row per takeover and remote site.

    `taken_ns` is the time at which another process of `origin_site` became its relay.
    `last_before_ns` and `first_after_ns`, null if missing, are the deliveries around the longest
    silence, `silence_ms`, at a member of `site`.
    """
    relays = events.where("kind = 'role' and role = 'relay'").select("site", "uuid", "wall_ns", "epoch")
    order = Window.partitionBy("site").orderBy("wall_ns")
    takeovers = (
        relays.withColumn("before", F.lag("uuid").over(order))
        .where("before is not null and before != uuid")
        .select(
            F.col("site").alias("origin_site"), F.col("uuid").alias("relay"), F.col("before").alias("relay_before"), "wall_ns"
        )
        .withColumnRenamed("wall_ns", "taken_ns")
    )
    near = F.abs(F.col("wall_ns") - F.col("taken_ns")) <= FAILOVER_SEARCH_S * 1_000_000_000
    heard = (
        facts.where("kind = 'deliver' and via = 'relay'")
        .select("origin_site", "site", "uuid", "wall_ns")
        .join(F.broadcast(takeovers), "origin_site")
        .where(near)
    )
    is_before = F.col("wall_ns") < F.col("taken_ns")
    windows = heard.groupBy("origin_site", "relay_before", "relay", "taken_ns", "site", "uuid").agg(
        F.max(F.when(is_before, F.col("wall_ns"))).alias("last_before_ns"),
        F.min(F.when(~is_before, F.col("wall_ns"))).alias("first_after_ns"),
    )
    silence = (F.col("first_after_ns") - F.col("last_before_ns")) / 1e6
    worst = windows.withColumn("silence_ms", silence).groupBy("origin_site", "relay_before", "relay", "taken_ns", "site")
    longest = F.max_by(F.struct("uuid", "last_before_ns", "first_after_ns", "silence_ms"), F.coalesce("silence_ms", F.lit(-1)))
    nodes = processes.select("uuid", "node")
    return (
        worst.agg(longest.alias("longest"))
        .select("origin_site", "relay_before", "relay", "taken_ns", "site", "longest.*")
        .join(F.broadcast(_named(nodes, "relay_before", "node_before")), "relay_before", "left")
        .join(F.broadcast(_named(nodes, "relay", "node")), "relay", "left")
    )


def measure_convergence(events: DataFrame) -> DataFrame:
    """Return a row per global view: `vector`, `members`, and the number of `processes` that had it.

    `first_ns` and `last_ns` are the wall clocks of its first and last installation, `spread_ms`
    apart.
    """
    # Maps cannot be grouped; their texts are equal for equal vectors.
    vector = _vector_text(F.map_entries("gvec")).alias("vector")
    seen = (
        events.where("kind = 'gview'")
        .groupBy(vector, "uuid")
        .agg(F.min("wall_ns").alias("wall_ns"), F.first(F.size("members")).alias("members"))
    )
    return (
        seen.groupBy("vector")
        .agg(
            F.first("members").alias("members"),
            F.count("*").alias("processes"),
            F.min("wall_ns").alias("first_ns"),
            F.max("wall_ns").alias("last_ns"),
        )
        .withColumn("spread_ms", (F.col("last_ns") - F.col("first_ns")) / 1e6)
    )


def _vector_text(entries: Column) -> Column:
    component = F.transform(
        F.array_sort(entries),
        lambda entry: F.concat(
            entry["key"],
            F.lit(": "),
            F.substring(entry["value"]["creator"], 1, 8),
            F.lit("|"),
            entry["value"]["counter"].cast("string"),
        ),
    )
    return F.concat(F.lit("{"), F.array_join(component, ", "), F.lit("}"))


def _named(nodes: DataFrame, uuid: str, node: str) -> DataFrame:
    return nodes.select(F.col("uuid").alias(uuid), F.col("node").alias(node))


def _messages() -> Column:
    return F.col("last") - F.col("first") + 1


def _stretch(time: str, stretch_s: float) -> Column:
    return _window(time, stretch_s).alias("stretch")


def _window(time: str, stretch_s: float) -> Column:
    return F.window(time, f"{round(stretch_s * 1_000)} milliseconds")


def _percentiles(lags: DataFrame, keys: Sequence[str], percents: Sequence[int]) -> DataFrame:
    """Return the smallest lags not exceeded by at least these shares of the messages; exact.

    A histogram finds the bucket of each percentile, of a few hundred. Only lags in these are
    sorted.
    """
    histogram = lags.groupBy(*keys, "bucket").agg(F.sum("messages").alias("messages"))
    goals = _find_buckets(histogram, keys, percents)
    inside = Window.partitionBy(*keys, "percent").orderBy("lag_ns")
    found = (
        lags.join(F.broadcast(goals), [*keys, "bucket"])
        .groupBy(*keys, "percent", "lag_ns")
        .agg(F.sum("messages").alias("equal"), F.first("below").alias("below"), F.first("total").alias("total"))
        .withColumn("reached", F.col("below") + F.sum("equal").over(inside.rowsBetween(Window.unboundedPreceding, 0)))
        .where("reached * 100 >= total * percent")
        .groupBy(*keys, "percent")
        .agg(F.min("lag_ns").alias("lag_ns"), F.first("total").alias("total"))
    )
    columns = [F.max(F.when(F.col("percent") == percent, F.col("lag_ns") / 1e6)).alias(f"p{percent}") for percent in percents]
    return found.groupBy(*keys).agg(*columns, F.max("total").alias("messages"))


def _find_buckets(histograms: DataFrame, keys: Sequence[str], percents: Sequence[int]) -> DataFrame:
    """Return the bucket of each percentile, the number of messages `below` it, and the `total`."""
    ordered = Window.partitionBy(*keys).orderBy("bucket")
    below = F.coalesce(F.sum("messages").over(ordered.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    counted = histograms.withColumns({"below": below, "total": F.sum("messages").over(Window.partitionBy(*keys))})
    wanted = F.explode(F.array(*[F.lit(percent) for percent in percents])).alias("percent")
    goals = counted.select(*keys, "bucket", "below", "messages", "total", wanted)
    reached = "below * 100 < total * percent and (below + messages) * 100 >= total * percent"
    return goals.where(reached).drop("messages")
