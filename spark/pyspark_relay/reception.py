"""What every process received of every stream: deliveries folded into runs.

Nothing else looks at the order of all deliveries. It is done within one segment of one receiver at a time, so that a
busy origin is spread over the segments of all its receivers and no task gets more of it than a segment's rows. A segment
yields a row for each unbroken run, and only these rows are folded once more and put in order over the whole journal. An
undisturbed origin is one row for each receiver and view.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pyspark_relay.facts import RECEPTION
from pyspark_relay.ranges import common_first, common_last, merge_ranges, overlap, overlay_ranges, subtract_ranges

#: Kinds of records that change a reception.
IS_RECEIVED = "kind in ('deliver', 'gap', 'baseline')"


def fold_runs(rows: DataFrame, broken_by: Sequence[str] = ()) -> DataFrame:
    """Deliveries of each reception as unbroken runs, in order of `position`; gaps and baselines (`kind`) stay as they are.

    Of a run `first_last` is where its first batch ends, `last_position` where its last batch stands, and `wall_ns` the latest
    clock. It also ends where one of the columns `broken_by` changes.
    """
    columns = (*RECEPTION, "segment", "position", "kind", "stay", "first", "last", "wall_ns", *broken_by)
    ends = {"first_last": F.col("last"), "last_position": F.col("position")}
    within = _fold(rows.select(*columns).withColumns(ends), (*RECEPTION, "segment"), broken_by)
    return _fold(within, RECEPTION, broken_by)


def order_runs(runs: DataFrame) -> DataFrame:
    """Runs with what came before them in the whole journal.

    `high` is the highest number dealt with before the row: delivered, or before the baseline. `started` says whether
    anything had been delivered.
    """
    whole = Window.partitionBy(*RECEPTION)
    ordered = whole.orderBy("position")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    is_delivery = F.col("kind") == "deliver"
    is_baseline = F.col("kind") == "baseline"
    begun = F.min(F.when(~is_baseline, F.col("position"))).over(whole)
    # A baseline means nothing once the stream has begun.
    counts = is_baseline & (F.col("begun").isNull() | (F.col("position") < F.col("begun")))
    baseline = F.max_by(F.when(counts, F.col("first")), F.when(counts, F.col("position"))).over(whole)
    delivered = F.max(F.when(is_delivery, F.col("last"))).over(before)
    return (
        runs.withColumn("begun", begun)
        .withColumns({"baseline": baseline, "delivered": delivered})
        .withColumn("high", F.greatest(F.coalesce("delivered", F.lit(0)), F.coalesce(F.col("baseline") - 1, F.lit(0))))
        .withColumn("started", F.col("delivered").isNotNull())
        .drop("begun", "delivered")
    )


def find_received(runs: DataFrame) -> DataFrame:
    """The numbers that each process delivered for the first time in each stay, as ranges."""
    ahead = _ahead(runs).select(*RECEPTION, "stay", "first", "last")
    late = find_late(runs).select(*RECEPTION, "stay", "first", "last")
    return merge_ranges(ahead.unionByName(late), (*RECEPTION, "stay"))


def find_late(runs: DataFrame) -> DataFrame:
    """Numbers delivered for the first time after a higher one, or below the baseline."""
    behind = _behind(runs)
    return subtract_ranges(behind, _ahead(runs), RECEPTION, carried=("stay", "position"))


def find_duplicates(runs: DataFrame) -> DataFrame:
    """Numbers delivered again, and how many `times` again."""
    pieces = overlay_ranges(_behind(runs), _ahead(runs), RECEPTION, carried=("stay", "position"))
    times = F.when(F.col("others") > 0, F.col("covers")).otherwise(F.col("covers") - 1)
    return pieces.withColumn("times", times).where("covers > 0 and times > 0").drop("covers", "others")


def find_gaps(runs: DataFrame) -> DataFrame:
    """Numbers that were declared lost."""
    return merge_ranges(runs.where("kind = 'gap'"), RECEPTION)


def find_baselines(runs: DataFrame) -> DataFrame:
    """Numbers before the baseline, which are not owed."""
    baselines = runs.where("baseline > 1").select(*RECEPTION, (F.col("baseline") - 1).alias("last")).distinct()
    return baselines.withColumn("first", F.lit(1).cast("long"))


def find_holes(runs: DataFrame) -> DataFrame:
    """Numbers passed over without an earlier gap: `first..last` when `before` was delivered in `stay`.

    `initial` says that nothing had been delivered before, and no baseline was given.
    """
    ahead = runs.where("kind = 'deliver' and first > high + 1")
    holes = ahead.select(
        *RECEPTION,
        F.col("position"),
        "stay",
        (F.col("high") + 1).alias("first"),
        (F.col("first") - 1).alias("last"),
        F.col("first").alias("before"),
        (~F.col("started") & F.col("baseline").isNull()).alias("initial"),
    )
    gaps = runs.where("kind = 'gap'").select(*RECEPTION, "position", "first", "last")
    same = [F.col(f"hole.{name}") == F.col(f"gap.{name}") for name in RECEPTION]
    covered = (
        holes.alias("hole")
        .join(gaps.alias("gap"), [*same, overlap("hole", "gap"), F.col("gap.position") < F.col("hole.position")])
        .select(
            *[f"hole.{name}" for name in (*RECEPTION, "position")],
            common_first("hole", "gap").alias("first"),
            common_last("hole", "gap").alias("last"),
        )
    )
    return subtract_ranges(holes, covered, (*RECEPTION, "position"), carried=("stay", "before", "initial"))


def find_misplaced_gaps(runs: DataFrame) -> DataFrame:
    """Gaps that stand before the delivery of a lower number."""
    later = Window.partitionBy(*RECEPTION).orderBy("position").rowsBetween(1, Window.unboundedFollowing)
    is_ahead = (F.col("kind") == "deliver") & (F.col("first") > F.col("high"))
    lowest = F.min(F.when(is_ahead, F.col("first_last"))).over(later)
    return (
        runs.withColumn("lowest", lowest)
        .where("kind = 'gap' and lowest < last")
        .withColumn("first", F.greatest(F.col("first"), F.col("lowest") + 1))
        .select(*RECEPTION, "position", "first", "last")
    )


def _fold(rows: DataFrame, keys: Sequence[str], broken_by: Sequence[str]) -> DataFrame:
    """Rows of each key that follow one another, as one."""
    ordered = Window.partitionBy(*keys).orderBy("position")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    is_delivery = F.col("kind") == "deliver"
    same = ("kind", "stay", *broken_by)
    previous = F.lag(F.struct(*same, "last")).over(ordered)
    high = F.max(F.when(is_delivery, F.col("last"))).over(before)
    follows = is_delivery & (F.col("previous.last") + 1 == F.col("first")) & (F.col("high") + 1 == F.col("first"))
    for name in same:
        follows &= F.col(f"previous.{name}").eqNullSafe(F.col(name))
    return (
        rows.withColumns({"previous": previous, "high": high})
        .withColumn("begins", F.when(F.coalesce(follows, F.lit(False)), 0).otherwise(1))
        .withColumn("run", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*keys, *same, "run")
        .agg(
            F.min_by("first_last", "position").alias("first_last"),
            *[F.min(name).alias(name) for name in ("position", "first")],
            *[F.max(name).alias(name) for name in ("last", "last_position", "wall_ns")],
        )
        .drop("segment", "run")
    )


def _ahead(runs: DataFrame) -> DataFrame:
    """The part of each run above everything before it."""
    ahead = runs.where("kind = 'deliver' and last > high")
    return ahead.withColumn("first", F.greatest(F.col("first"), F.col("high") + 1))


def _behind(runs: DataFrame) -> DataFrame:
    """The part of each run that is not above everything before it."""
    behind = runs.where("kind = 'deliver' and first <= high")
    return behind.withColumn("last", F.least(F.col("last"), F.col("high")))
