"""The outline of the journals in the driver's memory: all records of views, roles and ends.

Of messages it holds only the last ones of each process, and misfits: those in the wrong view, by the
wrong route or at the wrong target. `origins` judges the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pyspark_relay.facts import IS_MULTICAST, IS_UNICAST
from pyspark_relay.promises.row_reader import EVENT, MESSAGES, NEVER, Placed, RowReader, fold_placed, iterate
from relay.journal import Journal
from relay.journal.retention import WHY_RETIRED
from relay.journal.store import WHY_LOST
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.promises import Ending, Floors, History, find_ending

#: Maximum rows in the driver; a view counts one more row per member.
ROWS_MAX = 250_000

#: Records included in any case, a few per journal: they show the fate of a process.
_ALWAYS = f"kind in ('start', 'stop') or (kind = 'drop' and reason in ('{WHY_LOST}', '{WHY_RETIRED}'))"
_IN_OUTLINE = "kind in ('view', 'gview', 'role')"

Journals = Mapping[Address, Sequence[Placed]]


@dataclass(frozen=True, slots=True)
class Outline:
    #: Process -> records with positions, in order; without messages, gaps and reports.
    journals: Journals
    lasts: Journals
    #: Process -> deliveries, with stays, in the wrong view or by the wrong route.
    misfits: Journals
    #: Unicasts delivered at a process other than their targets, and their sends, with stays.
    strays: Journals
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether the outline is complete. Above `ROWS_MAX` it has only the processes' fates."""
        return self.rows <= ROWS_MAX

    @property
    def what_is_missing(self) -> str:
        """A sentence that lists the promises not judged without a complete outline."""
        return (
            f"L3 to L7, L9, L10, M1, X4 to X7, X10 and G1 to G4: the views, their members and the roles are {self.rows:,}, of "
            f"which {ROWS_MAX:,} are judged together at most"
        )

    def journal(self, uuid: Address) -> list[records.Record]:
        return [record for _, record in self.journals[uuid]]

    def find_end(self) -> tuple[Ending, dict[Address, int]]:
        """Return the ending as in `relay check`, and for each survivor the first position after it.

        An incomplete outline has no survivors.
        """
        if not self.is_whole:
            return Ending({}, None), {}
        placed = {uuid: sorted([*own, *self.lasts.get(uuid, ())], key=itemgetter(0)) for uuid, own in self.journals.items()}
        ending = find_ending({uuid: [record for _, record in own] for uuid, own in placed.items()})
        if not ending.is_quiescent:
            return ending, {}
        beyond = {uuid: placed[uuid][length:] for uuid, length in ending.lengths.items()}
        return ending, {uuid: rest[0][0] if rest else NEVER for uuid, rest in beyond.items()}

    def histories(self, cuts: Mapping[Address, int], floors: Floors | None, messages: Journals) -> list[History]:
        """Return the histories, of survivors up to their cuts, with these messages only."""
        histories = fold_placed(self.journals, cuts, floors)
        for history in histories:
            for stay, record in messages.get(history.uuid, ()):
                if isinstance(record, records.Send):
                    history.sends.append(record)
                elif isinstance(record, records.Deliver):
                    history.stays[stay].delivers.append(record)
        return histories


def draw_outline(
    journals: Sequence[Journal], events: DataFrame, deliveries: DataFrame, sends: DataFrame, strays: DataFrame
) -> Outline:
    """Return the outline of these journals.

    `events` are all records but messages, `deliveries` and `sends` unbroken runs, `strays` from
    `find_strays`.
    """
    reader = RowReader()

    def read(rows: DataFrame, columns: Iterable[str], make: Callable[[Row], Placed]) -> Iterator[tuple[Address, Placed]]:
        return ((reader.address(row["uuid"]), make(row)) for row in iterate(rows, columns))

    def event(row: Row) -> Placed:
        return row["position"], reader.event(row)

    def at_stay(row: Row) -> Placed:
        return row["stay"], reader.messages(row, row["first"], row["first_last"])

    def at_position(row: Row) -> Placed:
        return row["position"], reader.messages(row, row["first"], row["first"])

    told, misfits = events.where(_IN_OUTLINE), _find_misfits(deliveries, events)
    rows = sum(map(_weigh, (told, misfits, strays)))
    # The header suffices if the first record is damaged.
    found: dict[Address, list[Placed]] = {
        each.uuid: [(-1, records.Start(0, 0, each.site, each.uuid, each.name, 0, 0, ""))] for each in journals
    }
    is_whole = rows <= ROWS_MAX
    for uuid, placed in chain(read(events.where(_ALWAYS), EVENT, event), read(told, EVENT, event) if is_whole else ()):
        found[uuid].append(placed)
    for each in found.values():
        each.sort(key=itemgetter(0))
    columns = (*MESSAGES, "position", "stay", "first", "first_last")

    def collect(frame: DataFrame, place: Callable[[Row], Placed]) -> Journals:
        messages: dict[Address, list[Placed]] = {}
        for uuid, placed in read(frame.orderBy("position"), columns, place) if is_whole else ():
            messages.setdefault(uuid, []).append(placed)
        return messages

    lasts = collect(_find_lasts(deliveries, sends), at_position)
    return Outline(found, lasts, collect(misfits, at_stay), collect(strays, at_stay), rows)


def find_strays(facts: DataFrame) -> DataFrame:
    """Return deliveries of unicasts at a process that no send names, and those sends."""
    unicasts = facts.where(IS_UNICAST)
    batch = ["origin_site", "origin", "scope", "first", "contents"]
    sends = unicasts.where("kind = 'send'")
    meant = sends.groupBy(*batch).agg(F.collect_set("target").alias("targets"))
    strays = unicasts.where("kind = 'deliver'").join(meant, batch).where("not array_contains(targets, uuid)")
    columns = (*MESSAGES, "position", "stay", "first", F.col("last").alias("first_last"))
    named = sends.join(strays.select(*batch).distinct(), batch, "left_semi")
    return strays.select(*columns).unionByName(named.select(*columns))


def _find_misfits(deliveries: DataFrame, events: DataFrame) -> DataFrame:
    """Return deliveries that may break L5 or X6: wrong view, origin not in it, or wrong route."""
    members = F.transform("members", lambda member: member["uuid"]).alias("members")
    views = events.where("kind = 'view'").select("uuid", "stay", F.col("vid").alias("in_force"), members)
    placed = deliveries.where("judged").join(F.broadcast(views), ["uuid", "stay"], "left")
    is_stranger = f"origin_site = site and {IS_MULTICAST} and not array_contains(members, origin)"
    is_misfit = f"(via = 'relay') = (origin_site = site) or in_force is null or vid != in_force or ({is_stranger})"
    return placed.where(is_misfit).drop("members", "in_force")


def _find_lasts(deliveries: DataFrame, sends: DataFrame) -> DataFrame:
    """Return each process's last send, with the latest clock of all sends, and last delivery."""
    runs = deliveries.unionByName(sends, allowMissingColumns=True)
    latest = F.max_by(F.struct(*[name for name in runs.columns if name not in ("uuid", "kind", "wall_ns")]), "last_position")
    found = runs.groupBy("uuid", "kind").agg(latest.alias("run"), F.max("wall_ns").alias("wall_ns"))
    return found.select("uuid", "kind", "wall_ns", "run.*").withColumn("position", F.col("last_position"))


def _weigh(rows: DataFrame) -> int:
    members = F.greatest(F.size("members"), F.lit(0)) if "members" in rows.columns else F.lit(0)
    found = rows.agg(F.sum(1 + members)).first()
    assert found is not None
    return found[0] or 0
