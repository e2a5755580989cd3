"""Floors of streams in journals whose beginning retention deleted, as in `relay check`.

A floor is the first number sent after the last deleted record (`sitestack.promises.floors`).
Messages below it are ignored in all journals: neither lost nor a violation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_relay.facts import STREAM, settle
from relay.journal.retention import WHY_RETIRED
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.promises import Floors
from sitestack.promises.floors import TOLERANCE_NS
from sitestack.promises.reception import Stream

#: SQL over facts: end (wall clock, ns) of the segments that retention deleted; null for other
#: records.
RETIRED_UNTIL = f"if(kind = 'drop' and reason = '{WHY_RETIRED}' and source rlike '^[0-9]+$', try_cast(source as bigint), null)"


@dataclass(frozen=True, slots=True)
class Rests:
    """The floors of the streams of some journals."""

    #: A row per stream: `STREAM` and `floor`.
    table: DataFrame
    #: The same in the memory of the driver.
    floors: Floors


def find_rests(facts: DataFrame, until_ns: int, uuids: Iterable[Address]) -> Rests:
    """Return the floors above `until_ns` (wall clock); `uuids` are the processes with a journal.

    The driver receives a row per stream: one or two multicast streams per origin, and its unicast
    targets.
    """
    since = until_ns + TOLERANCE_NS
    is_send, is_delivery = F.col("kind") == "send", F.col("kind") == "deliver"
    is_late, has_journal = F.col("wall_ns") >= since, F.col("origin").isin([uuid.hex() for uuid in uuids])
    known = F.min(F.when(is_send & is_late, F.col("first")))
    # A process without later sends is not judged as a sender; without a journal, only later
    # deliveries count.
    below = F.max(F.when((is_send & ~is_late) | (is_delivery & (~is_late | has_journal)), F.col("last")))
    found = facts.where(is_send | is_delivery).groupBy(*STREAM).agg(F.coalesce(known, below + 1).alias("floor"))
    table = settle(found.where("floor is not null"))
    return Rests(table, Floors({_stream(*row[:-1]): row[-1] for row in table.select(*STREAM, "floor").collect()}))


def mark_judged(facts: DataFrame, rests: Rests | None) -> DataFrame:
    """Add `judged`, false for messages below the floors; raise other records to the floors."""
    if rests is None:
        return facts.withColumn("judged", F.lit(True))
    placed = facts.join(F.broadcast(rests.table), [*STREAM], "left").withColumn("floor", F.coalesce("floor", F.lit(1)))
    is_range, is_baseline = F.col("kind").isin("gap", "unreach"), F.col("kind") == "baseline"
    is_message = F.col("kind").isin("send", "deliver")
    raised = F.when(is_range | is_baseline, F.greatest("first", "floor")).otherwise(F.col("first"))
    kept = placed.where(~(is_range & (F.col("last") < F.col("floor"))))
    return kept.withColumns({"judged": ~is_message | (F.col("first") >= F.col("floor")), "first": raised}).drop("floor")


def _stream(site: str, origin: str, scope: str, target: str) -> Stream:
    address = Address(bytes.fromhex(target)) if target else None
    return Stream(site, Address(bytes.fromhex(origin)), Scope[scope.upper()], address)
