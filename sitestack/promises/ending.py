"""The end of a run, judged from journals alone.

A process that stops after the last send, with nothing sent or delivered after its departure, has
survived the run. Its journal counts only up to where the survivors begin to leave. This compares
wall clocks, with seconds of tolerance, and only decides which records are judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.promises.floors import Floors
from sitestack.promises.history import History

#: Seconds without a send before the first survivor leaves.
QUIET_S = 1.0
#: A process that leaves gracefully writes its `Stop` at most this many seconds after the others'
#: views have lost it.
LEAVE_S = 10.0

Journals: TypeAlias = Mapping[Address, Sequence[records.Record]]


@dataclass(frozen=True, slots=True)
class Ending:
    """The survivors of a run, and the number of their records that belong to it."""

    lengths: Mapping[Address, int]
    #: Seconds from the last send to the first survivor's stop; None if a process still runs.
    quiet_s: float | None

    @property
    def is_quiescent(self) -> bool:
        return self.quiet_s is not None and self.quiet_s >= QUIET_S


def find_ending(journals: Journals) -> Ending:
    """Find the processes that survived; each journal holds the records of one process."""
    stops = {uuid: record.w for uuid, journal in journals.items() for record in journal if isinstance(record, records.Stop)}
    last_send = max((each.w for each in _all(journals) if isinstance(each, records.Send)), default=0)
    last_start = max((each.w for each in _all(journals) if isinstance(each, records.Start)), default=0)
    survivors = {uuid: stopped for uuid, stopped in stops.items() if stopped >= max(last_send, last_start)}
    while survivors:
        cuts = {uuid: _find_cut(journals[uuid], survivors) for uuid in survivors}
        early = {
            uuid
            for owner, (length, leaving) in cuts.items()
            if any(isinstance(each, records.Send | records.Deliver) for each in journals[owner][length:])
            for uuid in leaving
        }
        if not early:
            first = min(survivors.values())
            runs = any(journal[-1].w > first for uuid, journal in journals.items() if uuid not in stops)
            return Ending({uuid: each[0] for uuid, each in cuts.items()}, None if runs else (first - last_send) / 1e9)
        survivors = {uuid: stopped for uuid, stopped in survivors.items() if uuid not in early}
    return Ending({}, None)


def ending_at(journals: Journals, w: int) -> Ending:
    """Return the ending of a run whose processes the caller stopped from `w` on (wall clock, ns)."""
    sends = [each.w for each in _all(journals) if isinstance(each, records.Send)]
    lengths = {
        uuid: sum(record.w < w for record in journal)
        for uuid, journal in journals.items()
        if any(isinstance(record, records.Stop) and record.w >= w for record in journal)
    }
    return Ending(lengths, (w - max(sends, default=0)) / 1e9 if lengths else None)


def fold(journals: Journals, ending: Ending | None, floors: Floors | None = None) -> list[History]:
    """Return the histories of all processes, those of survivors up to the ending; without one none
    survives.

    `floors` are needed when beginnings of journals have been deleted.
    """
    lengths = {} if ending is None else ending.lengths
    return [History.of(each[: lengths.get(uuid)], uuid in lengths, floors) for uuid, each in journals.items()]


def _all(journals: Journals) -> Iterable[records.Record]:
    return chain.from_iterable(journals.values())


def _find_cut(journal: Sequence[records.Record], survivors: Mapping[Address, int]) -> tuple[int, set[Address]]:
    """Return the number of records before the first view without a leaving survivor, and those
    survivors.

    `survivors`: wall clock of each stop, in ns. A process that is in a later view is not leaving.
    """
    views = [
        (number, type(record), members) for number, record in enumerate(journal) if (members := _members(record)) is not None
    ]
    last = {(kind, member): number for number, kind, members in views for member in members}
    before: dict[type[records.Record], set[Address]] = {records.View: set(), records.GlobalView: set()}
    for number, kind, members in views:
        gone = {uuid for uuid in before[kind] - members if uuid in survivors and last[kind, uuid] < number}
        leaving = {uuid for uuid in gone if journal[number].w >= survivors[uuid] - LEAVE_S * 1e9}
        if leaving:
            return number, leaving
        before[kind] = members
    return len(journal), set()


def _members(record: records.Record) -> set[Address] | None:
    if isinstance(record, records.View):
        return set(record.members)
    if isinstance(record, records.GlobalView):
        return {member for _, member in record.members}
    return None
