"""Judges the messages of one origin at all receivers, in the executors.

The checkers are those of `relay check`. Spark groups the runs by origin; the judging function
carries the views of all processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pyspark_relay.promises.findings import SCHEMA, list_rows, name_stream, unite
from pyspark_relay.promises.row_reader import MESSAGES, Placed, RowReader, fold_placed, select_or_null
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.promises import LIVENESS, SAFETY, Checker, Floors, History
from sitestack.promises.across import check_no_remote_only
from sitestack.promises.agreement import check_agreement, check_same_view, check_validity, check_virtual_synchrony
from sitestack.promises.order import check_fifo, check_no_duplication, check_relayed_once, check_remote_fifo
from sitestack.promises.reception import Reception
from sitestack.promises.sites import check_conservation, find_owed
from sitestack.promises.unicast import check_unicast_outcomes, check_unicasts

OF_ORIGIN: frozenset[Checker] = frozenset(
    {
        *(check_no_duplication, check_relayed_once, check_fifo, check_remote_fifo, check_same_view, check_virtual_synchrony),
        *(check_agreement, check_validity, check_conservation, check_no_remote_only, check_unicasts, check_unicast_outcomes),
    }
)
#: The subset that needs no views.
WITHOUT_VIEWS: tuple[Checker, ...] = (check_no_duplication, check_relayed_once, check_remote_fifo)

_RUN = (*MESSAGES, "position", "last_position", "first", "first_last", "last", "target_site", "certainty", "reason")
_STREAM = "origin_site string, origin string, scope string, target string"
_RECEPTIONS = (
    f"site string, uuid string, {_STREAM}, delivered long, duplicated long, reordered long, in_gaps long, missing long"
)
_ACCOUNTS = "origin_site string, origin string, site string, uuid string, sent long, delivered long, excused long, missing long"
_JUDGED = ", ".join(
    f"{name} array<struct<{schema}>>"
    for name, schema in (("findings", SCHEMA), ("receptions", _RECEPTIONS), ("accounts", _ACCOUNTS))
)


@dataclass(frozen=True, slots=True)
class OriginJudge:
    """Judges the rows of one origin. `is_whole` is False if the views are unknown."""

    journals: Mapping[Address, Sequence[Placed]]
    #: Survivor -> end of the run, as a position in its journal.
    cuts: Mapping[Address, int]
    floors: Floors | None
    is_whole: bool

    def judge(self, rows: Sequence[Row]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the findings, and the rows of the tables `completeness` and `conservation`."""
        histories = self._fold(rows)
        checkers = [each for each in (*SAFETY, *(LIVENESS if self.cuts else ())) if each in OF_ORIGIN]
        violations = [each for checker in (checkers if self.is_whole else WITHOUT_VIEWS) for each in checker(histories)]
        prefix = f"{rows[0]['origin_site']} {rows[0]['origin']} "
        return list_rows(violations, prefix), list(_list_receptions(histories)), list(_list_accounts(histories))

    def _fold(self, rows: Sequence[Row]) -> list[History]:
        reader = RowReader()
        placed = {uuid: [*own] for uuid, own in self.journals.items()}
        for row in rows:
            placed[reader.address(row["uuid"])] += reader.run(row)
        return fold_placed(placed, self.cuts, self.floors)


def judge_origins(judge: OriginJudge, deliveries: DataFrame, sends: DataFrame, events: DataFrame) -> DataFrame:
    """Return a row per origin with its `findings`, `receptions` and `accounts`.

    `deliveries` and `sends` are unbroken runs.
    """
    told = events.where("kind in ('gap', 'baseline', 'unreach')")
    united = unite(*[select_or_null(each, _RUN) for each in (deliveries, sends, told)])
    origins = united.groupBy("origin_site", "origin").agg(F.collect_list(F.struct(*_RUN)).alias("rows"))
    # Without Arrow, for which PySpark needs pandas. There are only a few rows per receiver.
    run = F.udf(lambda rows: judge.judge(rows), f"struct<{_JUDGED}>", useArrow=False)
    return origins.select(run("rows").alias("judged")).select("judged.*")


def spread(origins: DataFrame, name: str) -> DataFrame:
    return origins.select(F.explode(name).alias("row")).select("row.*")


def _list_receptions(histories: Sequence[History]) -> Iterator[tuple[Any, ...]]:
    for history in histories:
        for stream, reception in history.receptions.items():
            is_ordered = stream.scope is not Scope.OOB
            passed = [hole.missing - reception.delivered for hole in reception.holes if is_ordered and not hole.initial]
            again = sum(last - first + 1 for first, last in reception.duplicates)
            late = len(reception.late) if is_ordered else 0
            counts = (
                len(reception.delivered) + len(reception.superseded),
                again,
                late,
                len(reception.gaps),
                sum(map(len, passed)),
            )
            yield history.site, history.uuid.hex(), *name_stream(stream), *counts


def _list_accounts(histories: Sequence[History]) -> Iterator[tuple[Any, ...]]:
    nothing = Reception()
    for stream, expected, members in find_owed(histories):
        for receiver in members:
            if receiver.survives and expected:
                reception = receiver.receptions.get(stream, nothing)
                sent, missing = len(expected), len(expected - reception.accounted)
                delivered = len(reception.delivered)
                named = stream.site, stream.origin.hex(), receiver.site, receiver.uuid.hex()
                yield *named, sent, delivered, sent - delivered - missing, missing
