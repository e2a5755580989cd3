"""The history of one process, in the form that the checkers need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises.floors import Floors
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Reception, Stream

_NOTHING = Reception()


class Fate(Enum):
    #: The process lived to the end of the run: a survivor.
    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Stay:
    view: records.View | None
    delivers: list[records.Deliver]
    #: Multicasts only.
    received: dict[Stream, Ranges] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """The actions of one process, in the order of its records. Made by `History.of`."""

    site: str
    uuid: Address
    name: str
    fate: Fate
    stays: list[Stay] = field(default_factory=lambda: [Stay(None, [])])
    stay_in: dict[ViewId, int] = field(default_factory=dict)
    receptions: dict[Stream, Reception] = field(default_factory=dict)
    sends: list[records.Send] = field(default_factory=list)
    sent: dict[Stream, Ranges] = field(default_factory=dict)
    unreached: list[records.Unreach] = field(default_factory=list)
    global_views: list[records.GlobalView] = field(default_factory=list)
    #: Each with the lineage of the view in force, None before the first view.
    roles: list[tuple[records.Role, ViewId | None]] = field(default_factory=list)
    delivered_messages: int = 0
    #: Whether the journal may begin in the middle.
    is_cut: bool = False

    @classmethod
    def of(cls, journal: Iterable[records.Record], running: bool = False, floors: Floors | None = None) -> History:
        """Build the history of the process with these records.

        `running`: it lived to the end of the run. Otherwise it stopped if it has a `Stop` record,
        or crashed. Raise ValueError without a `Start`.
        """
        rest = iter(journal)
        start = next(rest, None)
        if not isinstance(start, records.Start):
            raise ValueError("a history begins with a Start")
        history = cls(start.site, start.uuid, start.name, Fate.RUNNING if running else Fate.CRASHED)
        history.is_cut = floors is not None
        _Reader(history, floors or Floors({})).read(rest if floors is None else floors.above(start.uuid, rest))
        return history

    @property
    def label(self) -> str:
        return f"{self.site}/{self.name}({self.uuid.hex()[:8]})"

    @property
    def survives(self) -> bool:
        return self.fate is Fate.RUNNING

    @property
    def first_view(self) -> records.View | None:
        """The view it joined in; None when it never had one."""
        return self.stays[1].view if len(self.stays) > 1 else None

    def reception(self, stream: Stream) -> Reception:
        """Return what it received from this stream, perhaps nothing."""
        return self.receptions.get(stream, _NOTHING)

    def placed_stays(self) -> Iterator[tuple[Stay, records.View]]:
        """Return the stays in views, each with its view."""
        return ((stay, stay.view) for stay in self.stays if stay.view is not None)

    def next_view(self, vid: ViewId) -> records.View | None:
        """Return the view it installed after this one; None without one, or if it never installed this one."""
        stay = self.stay_in.get(vid)
        return self.stays[stay + 1].view if stay is not None and stay + 1 < len(self.stays) else None

    def came_with(self, vid: ViewId, following: records.View) -> bool:
        """Return whether the process went to `following` with the members from view `vid`."""
        stay = self.stay_in.get(following.vid)
        if stay is None:
            return False
        before = self.stays[stay - 1].view
        return following.kind == "view" or (before is not None and before.vid == vid)


class _Reader:
    def __init__(self, history: History, floors: Floors) -> None:
        self.history = history
        self.floors = floors
        self.stays = history.stays
        self.receptions: dict[tuple[str, Address, Scope], Reception] = {}

    def read(self, journal: Iterable[records.Record]) -> None:
        history = self.history
        for record in journal:
            if type(record) is records.Deliver:
                self.deliver(record)
            elif type(record) is records.Send:
                history.sends.append(record)
            else:
                self.other(record)
        history.stay_in = {stay.view.vid: number for number, stay in enumerate(self.stays) if stay.view is not None}
        self.finish()

    def deliver(self, record: records.Deliver) -> None:
        self.stays[-1].delivers.append(record)
        self.history.delivered_messages += record.count
        key = (record.site, record.origin, record.scope)
        reception = self.receptions.get(key)
        if reception is None:
            reception = self.receptions[key] = self.open_reception(*key)
        first = record.first
        reception.deliver(first, first + record.count - 1, len(self.stays) - 1)

    def other(self, record: records.Record) -> None:
        history = self.history
        match record:
            case records.View():
                self.stays.append(Stay(record, []))
            case records.GlobalView():
                history.global_views.append(record)
            case records.Role():
                view = self.stays[-1].view
                history.roles.append((record, None if view is None else view.lineage))
            case records.Gap():
                self.relayed(record).gap(record.first, record.last)
            case records.Baseline():
                view = self.stays[-1].view
                merged = view is not None and view.kind == "merge"
                self.relayed(record).start_at(record.next, merged or record.in_state, record.in_state)
            case records.Unreach():
                history.unreached.append(record)
            case records.Stop():
                if history.fate is Fate.CRASHED and record.reason != records.UNANSWERED:
                    history.fate = Fate.STOPPED

    def relayed(self, record: records.Gap | records.Baseline) -> Reception:
        key = (record.site, record.origin, record.scope if isinstance(record, records.Gap) else Scope.ALL)
        if key not in self.receptions:
            self.receptions[key] = self.open_reception(*key)
        return self.receptions[key]

    def open_reception(self, site: str, origin: Address, scope: Scope) -> Reception:
        reception = Reception()
        floor = self.floors.of(Stream(site, origin, scope, self.history.uuid if scope in UNICASTS else None))
        if floor > 1:
            reception.start_at(floor)
        return reception

    def finish(self) -> None:
        """File sent and received numbers under their streams, also those that each stay received."""
        history = self.history
        sent: dict[tuple[Any, ...], Ranges] = {}
        for send in history.sends:
            key = (send.site, send.origin, send.scope, send.target)
            numbers = sent.get(key)
            if numbers is None:
                numbers = sent[key] = Ranges()
            numbers.add(send.first, send.first + send.count - 1)
        history.sent = {Stream(*key): numbers for key, numbers in sent.items()}
        for (site, origin, scope), reception in self.receptions.items():
            reception.finish()
            stream = Stream(site, origin, scope, history.uuid if scope in UNICASTS else None)
            history.receptions[stream] = reception
            for run in reception.runs if scope not in UNICASTS else ():
                self.stays[run.stay].received.setdefault(stream, Ranges()).add(run.first, run.last)


def by_site(histories: Sequence[History]) -> dict[str, list[History]]:
    sites: dict[str, list[History]] = {}
    for history in histories:
        sites.setdefault(history.site, []).append(history)
    return sites


def unreached_unicasts(histories: Sequence[History], *certainties: str) -> dict[Stream, Ranges]:
    """Return the unicasts that their origins reported with these certainties of failure, by stream."""
    found: dict[Stream, Ranges] = {}
    for each in (report for history in histories for report in history.unreached):
        if each.scope in UNICASTS and each.certainty in certainties:
            stream = Stream(each.site, each.origin, each.scope, each.target)
            found.setdefault(stream, Ranges()).add(each.first, each.last)
    return found
