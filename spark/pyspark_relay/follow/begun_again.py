"""Journals that retention has overtaken: what nobody has read is gone, so the journal is judged as one that begins behind it.

Nothing is known of the part in between, neither what the process delivered nor in which order. So its state is dropped, and of
this batch what stands before.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST, settle
from pyspark_relay.promises.findings import text

_IS_RETIRED = "kind = 'problem' and reason = 'retired'"
#: More than the batches of any block of places: a block of which a part is gone is like no other.
_UNLIKE = 1_000_000


def find_overtaken(facts: DataFrame) -> DataFrame:
    """For each journal of which something is gone unread (`uuid`), where the rest begins (`begins`, a position)."""
    return settle(facts.where(_IS_RETIRED).groupBy("uuid").agg(F.max("position").alias("begins")))


def leave_out(facts: DataFrame, overtaken: DataFrame) -> DataFrame:
    """The facts that stand behind what is gone."""
    placed = facts.where(f"not ({_IS_RETIRED})").join(F.broadcast(overtaken), "uuid", "left")
    return placed.where("begins is null or position >= begins").drop("begins")


def forget(state: DataFrame, overtaken: DataFrame) -> DataFrame:
    """The rows of a state without those of the journals of which something is gone."""
    return state.join(F.broadcast(overtaken), "uuid", "left_anti")


def mark_cut_blocks(facts: DataFrame, overtaken: DataFrame, block: int) -> DataFrame:
    """Rows of `orders` that make the block of places with which each rest begins unlike those of all other members."""
    places = facts.where(f"kind = 'deliver' and gseq is not null and {IS_MULTICAST}").join(F.broadcast(overtaken), "uuid")
    first = F.min_by(F.struct("site", "vid", "gseq", "wall_ns"), "position")
    begun = places.groupBy("uuid").agg(first.alias("first"))
    return begun.select(
        "first.site",
        "first.vid",
        "uuid",
        F.floor(F.col("first.gseq") / block).alias("block"),
        (F.lit(_UNLIKE) + F.abs(F.xxhash64("uuid") % 1_000_000_000)).alias("batches"),
        F.lit(0).cast("long").alias("order_hash"),
        F.col("first.gseq").alias("low"),
        (F.col("first.gseq") - 1).alias("high"),  # the places of these facts are still to come
        F.col("first.wall_ns").alias("last_ns"),
    )


def note_overtaken(facts: DataFrame) -> DataFrame:
    """Notes on what retention has deleted before it was read."""
    label = F.concat("site", F.lit("/"), "node", F.lit("("), F.substring("uuid", 1, 8), F.lit(")"))
    told = facts.where(_IS_RETIRED).groupBy(label.alias("place"), "segment")
    what = text(
        "retention deleted segments before they were read; the journal is judged like a new one from segment ", F.col("segment")
    )
    counted = told.agg(F.count("*").alias("times"))
    return counted.select(F.lit("retired").alias("note"), "place", "times", what.alias("what"))
