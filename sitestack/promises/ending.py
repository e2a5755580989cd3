"""Where a run ended, judged from journals alone.

Processes that are stopped together at the end of a run leave one by one, and the last ones see the first ones go. That
is no part of what the run is judged by: who stops only after the last message was sent, and nothing is sent or
delivered after it has gone, has survived the run, and its journal counts up to where the survivors begin to leave.

A simulated world knows all this and has no need of it. Here the wall clocks of different processes are compared, with
seconds of tolerance, and only to decide what is judged, never whether an invariant holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.promises.history import History

#: For so long nothing may have been sent before the first survivor leaves, if losses at the end are to mean anything.
QUIET_S = 1.0
#: Who leaves gracefully is gone from the others' views no longer than this before it writes its `Stop`.
LEAVE_S = 10.0

Journals: TypeAlias = Mapping[Address, Sequence[records.Record]]


@dataclass(frozen=True, slots=True)
class Ending:
    """Who survived a run, and up to which of their records it lasted."""

    #: Survivor -> how many of its records belong to the run.
    lengths: Mapping[Address, int]
    #: Seconds from the last send to the first survivor's stop; None without survivors.
    quiet_s: float | None

    @property
    def is_quiescent(self) -> bool:
        """Whether the run can be judged at its end."""
        return self.quiet_s is not None and self.quiet_s >= QUIET_S


def find_ending(journals: Journals) -> Ending:
    """Judge who survived; each journal is the records of one process."""
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
            quiet_s = (min(survivors.values()) - last_send) / 1e9
            return Ending({uuid: length for uuid, (length, _) in cuts.items()}, quiet_s)
        survivors = {uuid: stopped for uuid, stopped in survivors.items() if uuid not in early}
    return Ending({}, None)


def ending_at(journals: Journals, w: int) -> Ending:
    """The same for whoever has stopped the processes, and knows when it began to: `w`, on the wall clock in ns."""
    sends = [each.w for each in _all(journals) if isinstance(each, records.Send)]
    lengths = {
        uuid: sum(record.w < w for record in journal)
        for uuid, journal in journals.items()
        if any(isinstance(record, records.Stop) and record.w >= w for record in journal)
    }
    return Ending(lengths, (w - max(sends, default=0)) / 1e9 if lengths else None)


def fold(journals: Journals, ending: Ending | None) -> list[History]:
    """The histories, those of survivors up to the ending. Without one nobody is taken for a survivor."""
    lengths = {} if ending is None else ending.lengths
    return [History.of(journal[: lengths.get(uuid)], running=uuid in lengths) for uuid, journal in journals.items()]


def _all(journals: Journals) -> Iterable[records.Record]:
    return chain.from_iterable(journals.values())


def _find_cut(journal: Sequence[records.Record], survivors: Mapping[Address, int]) -> tuple[int, set[Address]]:
    """How many records come before the first view without a survivor who is leaving, and who that is.

    `survivors` maps them to the wall clock of their stop, in ns.
    """
    before: dict[type[records.Record], set[Address]] = {records.View: set(), records.GlobalView: set()}
    for number, record in enumerate(journal):
        if isinstance(record, records.View):
            members = set(record.members)
        elif isinstance(record, records.GlobalView):
            members = {member for _, member in record.members}
        else:
            continue
        gone = before[type(record)] - members
        leaving = {uuid for uuid in gone if uuid in survivors and record.w >= survivors[uuid] - LEAVE_S * 1e9}
        if leaving:
            return number, leaving
        before[type(record)] = members
    return len(journal), set()
