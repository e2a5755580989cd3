"""The journals in outline, as records in the memory of the driver: what most promises depend on, judged by their own checkers.

An outline has all that a journal says of views, roles and outcomes, and of messages the unbroken runs, each as two records:
its first batch and the rest. The histories that `sitestack.promises` makes of it say the same as those of the whole journals
about everything but the contents of batches, where they were cut, and the order of one origin beside another. A run of any
length is one row, so that an undisturbed journal has few of them; there is a bound all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_UNICAST
from pyspark_relay.promises.row_reader import EVENT, MESSAGES, RowReader, iterate
from relay.journal import Journal
from relay.journal.retention import WHY_RETIRED
from relay.journal.store import WHY_LOST
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.promises import Ending, Floors, History, find_ending, fold

#: The most rows that come to the driver, some 400 MB with the histories; a view counts as one more row for each member.
ROWS_MAX = 250_000

#: Records that are taken in any case, a handful of each journal: they tell what became of a process.
_ALWAYS = f"kind in ('start', 'stop') or (kind = 'drop' and reason in ('{WHY_LOST}', '{WHY_RETIRED}'))"
_IN_OUTLINE = "kind in ('view', 'gview', 'role', 'unreach', 'gap', 'baseline')"

#: A record and its place: its position in the journal, or the stay that it belongs to.
Placed: TypeAlias = tuple[int, records.Record]


@dataclass(frozen=True, slots=True)
class Outline:
    """The outlines of all journals, in their given order."""

    #: Process -> its records with their positions, in order.
    journals: Mapping[Address, Sequence[Placed]]
    #: Deliveries of unicasts that were sent to other processes only, and the sends, with their stays.
    strays: Mapping[Address, Sequence[Placed]]
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether the outline is complete. Beyond `ROWS_MAX` it only has how each process began and ended."""
        return self.rows <= ROWS_MAX

    @property
    def what_is_missing(self) -> str:
        """A sentence on what cannot be judged when the outline is incomplete."""
        return (
            f"L4 to L7, L9, L10, M1, X4, X6, X7, X10 and G1 to G4, and X5, which asks who survived: the views, their members, "
            f"outcomes and unbroken runs of messages are {self.rows:,}, of which {ROWS_MAX:,} are judged together at most"
        )

    def find_ending(self) -> Ending:
        """The ending of the run, as `relay check` finds it; without survivors when the outline is incomplete."""
        if not self.is_whole:
            return Ending({}, None)
        return find_ending(self._records())

    def journal(self, uuid: Address) -> list[records.Record]:
        """The records of one process."""
        return [record for _, record in self.journals[uuid]]

    def cuts(self, ending: Ending) -> dict[Address, int]:
        """The position of the first record of each survivor that does not belong to the run, if there is one."""
        ends = {uuid: self.journals[uuid][length:] for uuid, length in ending.lengths.items()}
        return {uuid: beyond[0][0] for uuid, beyond in ends.items() if beyond}

    def histories(self, ending: Ending | None, floors: Floors | None = None) -> list[History]:
        """What each process did, the survivors up to the ending; above the floors where beginnings of journals were deleted."""
        histories = fold(self._records(), ending, floors)
        for history in histories:
            # They are in the runs as well; here each of them says whom it was for.
            for stay, record in self.strays.get(history.uuid, ()):
                if isinstance(record, records.Send):
                    history.sends.append(record)
                elif isinstance(record, records.Deliver):
                    history.stays[stay].delivers.append(record)
        return histories

    def _records(self) -> dict[Address, list[records.Record]]:
        return {uuid: self.journal(uuid) for uuid in self.journals}


def draw_outline(
    journals: Sequence[Journal], events: DataFrame, runs: DataFrame, sent: DataFrame, strays: DataFrame
) -> Outline:
    """The outline of these journals: `events` are all records but messages, `runs` and `sent` what `fold_runs` makes of
    deliveries and sends, `strays` what `find_strays` says.
    """
    reader = RowReader()

    def event(row: Row) -> Iterator[Placed]:
        yield row["position"], reader.event(row)

    def run(row: Row) -> Iterator[Placed]:
        """Its first batch, and the rest where its last batch stands."""
        yield row["position"], reader.messages(row, row["first"], row["first_last"])
        if row["last"] > row["first_last"]:
            yield row["last_position"], reader.messages(row, row["first_last"] + 1, row["last"])

    def stray(row: Row) -> Iterator[Placed]:
        yield row["stay"], reader.messages(row, row["first"], row["last"])

    def read(
        rows: DataFrame, columns: Iterable[str], make: Callable[[Row], Iterator[Placed]]
    ) -> Iterator[tuple[Address, Placed]]:
        return ((reader.address(row["uuid"]), placed) for row in iterate(rows, columns) for placed in make(row))

    told = events.where(_IN_OUTLINE)
    delivered = runs.where("kind = 'deliver'")
    sends = sent.withColumn("kind", F.lit("send"))
    columns = (*MESSAGES, "position", "last_position", "first", "first_last", "last")
    rows = sum(map(_weigh, (told, delivered, sends, strays)))
    # The header knows enough where a first record is damaged.
    found: dict[Address, list[Placed]] = {
        each.uuid: [(-1, records.Start(0, 0, each.site, each.uuid, each.name, 0, 0, ""))] for each in journals
    }
    strayed: dict[Address, list[Placed]] = {}
    for uuid, placed in read(events.where(_ALWAYS), EVENT, event):
        found[uuid].append(placed)
    if rows <= ROWS_MAX:
        for uuid, placed in chain(read(told, EVENT, event), read(delivered, columns, run), read(sends, columns, run)):
            found[uuid].append(placed)
        for uuid, placed in read(strays.orderBy("position"), (*MESSAGES, "stay", "first", "last"), stray):
            strayed.setdefault(uuid, []).append(placed)
    for each in found.values():
        each.sort(key=itemgetter(0))
    return Outline(found, strayed, rows)


def find_strays(facts: DataFrame) -> DataFrame:
    """Deliveries of unicasts whose sends name other processes only, and these sends."""
    unicasts = facts.where(IS_UNICAST)
    batch = ["origin_site", "origin", "scope", "first", "contents"]
    sends = unicasts.where("kind = 'send'")
    meant = sends.groupBy(*batch).agg(F.collect_set("target").alias("targets"))
    strays = unicasts.where("kind = 'deliver'").join(meant, batch).where("not array_contains(targets, uuid)")
    columns = (*MESSAGES, "position", "stay", "first", "last")
    named = sends.join(strays.select(*batch).distinct(), batch, "left_semi")
    return strays.select(*columns).unionByName(named.select(*columns))


def _weigh(rows: DataFrame) -> int:
    members = F.greatest(F.size("members"), F.lit(0)) if "members" in rows.columns else F.lit(0)
    found = rows.agg(F.sum(1 + members)).first()
    assert found is not None
    return found[0] or 0
