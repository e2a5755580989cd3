"""One process's records, folded once into what the checkers ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Reception, Stream


class Fate(Enum):
    """What became of a process."""

    #: It lived to the end of the run: a survivor.
    RUNNING = "running"
    #: It stopped gracefully before the end.
    STOPPED = "stopped"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Stay:
    """A process's time in one view; number 0 is the time before its first view."""

    view: records.View | None
    #: Its deliveries, in order.
    delivers: list[records.Deliver]
    #: What it delivered here, multicasts only, by stream.
    received: dict[Stream, Ranges] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """What one process did. Made by `History.of`; the order of everything is the order of its records."""

    site: str
    uuid: Address
    name: str
    fate: Fate
    stays: list[Stay]
    #: Number of the stay in a view.
    stay_in: dict[ViewId, int]
    receptions: dict[Stream, Reception]
    sends: list[records.Send]
    #: The numbers it sent, by stream.
    sent: dict[Stream, Ranges]
    unreached: list[records.Unreach]
    global_views: list[records.GlobalView]
    #: With the lineage of the view in force, None before the first.
    roles: list[tuple[records.Role, ViewId | None]]
    drops: list[records.Drop]
    delivered_messages: int

    @classmethod
    def of(cls, journal: Iterable[records.Record], running: bool = False) -> History:
        """The history of the process whose records these are; a `Start` must come first.

        `running` says that the process lived to the end of the run. Otherwise it stopped if it says so, and crashed
        if it does not. Raises ValueError when there is no `Start`.
        """
        return _Reader(running).read(journal)

    @property
    def label(self) -> str:
        """For people: site, name and the beginning of the uuid."""
        return f"{self.site}/{self.name}({self.uuid.hex()[:8]})"

    @property
    def survives(self) -> bool:
        """Whether the process neither crashed nor stopped before the end."""
        return self.fate is Fate.RUNNING

    @property
    def first_view(self) -> records.View | None:
        """The view it joined in; None when it never had one."""
        return self.stays[1].view if len(self.stays) > 1 else None

    def next_view(self, vid: ViewId) -> records.View | None:
        """The view it installed after this one; None when it did not, or never installed this one."""
        stay = self.stay_in.get(vid)
        return self.stays[stay + 1].view if stay is not None and stay + 1 < len(self.stays) else None

    def came_with(self, vid: ViewId, following: records.View) -> bool:
        """Whether it went to `following` together with those who came from view `vid`.

        Whoever installs a plain view did. Of a merge view only those did who came from the same view.
        """
        stay = self.stay_in.get(following.vid)
        if stay is None:
            return False
        before = self.stays[stay - 1].view
        return following.kind == "view" or (before is not None and before.vid == vid)


class _Reader:
    """Walks the records once."""

    def __init__(self, running: bool) -> None:
        self.running = running
        self.start: records.Start | None = None
        self.stopped = False
        self.stays = [Stay(None, [])]
        self.receptions: dict[tuple[str, Address, Scope], Reception] = {}
        self.sends: list[records.Send] = []
        self.unreached: list[records.Unreach] = []
        self.global_views: list[records.GlobalView] = []
        self.roles: list[tuple[records.Role, ViewId | None]] = []
        self.drops: list[records.Drop] = []
        self.messages = 0

    def read(self, journal: Iterable[records.Record]) -> History:
        for record in journal:
            if type(record) is records.Deliver:
                self.deliver(record)
            elif type(record) is records.Send:
                self.sends.append(record)
            else:
                self.other(record)
        if self.start is None:
            raise ValueError("a history begins with a Start")
        ended = Fate.STOPPED if self.stopped else Fate.CRASHED
        stay_in = {stay.view.vid: number for number, stay in enumerate(self.stays) if stay.view is not None}
        return History(
            self.start.site,
            self.start.uuid,
            self.start.name,
            Fate.RUNNING if self.running else ended,
            self.stays,
            stay_in,
            self.finished(self.start.uuid),
            self.sends,
            self.sent(),
            self.unreached,
            self.global_views,
            self.roles,
            self.drops,
            self.messages,
        )

    def deliver(self, record: records.Deliver) -> None:
        self.stays[-1].delivers.append(record)
        self.messages += record.count
        key = (record.site, record.origin, record.scope)
        reception = self.receptions.get(key)
        if reception is None:
            reception = self.receptions[key] = Reception()
        first = record.first
        reception.deliver(first, first + record.count - 1, len(self.stays) - 1)

    def other(self, record: records.Record) -> None:
        match record:
            case records.View():
                self.stays.append(Stay(record, []))
            case records.GlobalView():
                self.global_views.append(record)
            case records.Role():
                view = self.stays[-1].view
                self.roles.append((record, None if view is None else view.lineage))
            case records.Gap():
                self.relayed(record).gap(record.first, record.last)
            case records.Baseline():
                self.relayed(record).start_at(record.next)
            case records.Unreach():
                self.unreached.append(record)
            case records.Drop():
                self.drops.append(record)
            case records.Start():
                self.start = record
            case records.Stop():
                self.stopped = record.reason != records.UNANSWERED

    def sent(self) -> dict[Stream, Ranges]:
        found: dict[tuple[Any, ...], Ranges] = {}
        for send in self.sends:
            key = (send.site, send.origin, send.scope, send.target)
            numbers = found.get(key)
            if numbers is None:
                numbers = found[key] = Ranges()
            numbers.add(send.first, send.first + send.count - 1)
        return {Stream(*key): numbers for key, numbers in found.items()}

    def relayed(self, record: records.Gap | records.Baseline) -> Reception:
        return self.receptions.setdefault((record.site, record.origin, Scope.ALL), Reception())

    def finished(self, uuid: Address) -> dict[Stream, Reception]:
        """The receptions by stream, and what each stay received."""
        found = {}
        for (site, origin, scope), reception in self.receptions.items():
            reception.finish()
            stream = Stream(site, origin, scope, uuid if scope in UNICASTS else None)
            found[stream] = reception
            if scope in UNICASTS:
                continue
            for run in reception.runs:
                self.stays[run.stay].received.setdefault(stream, Ranges()).add(run.first, run.last)
        return found


def by_site(histories: Sequence[History]) -> dict[str, list[History]]:
    """The processes of each site, in their given order."""
    sites: dict[str, list[History]] = {}
    for history in histories:
        sites.setdefault(history.site, []).append(history)
    return sites
