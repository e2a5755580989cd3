"""Hand-written journals: members have one-letter names, views are counters with their members spelled out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from relay.journal import JournalOptions, JournalStore
from relay.journal.store import SegmentFile, create_file
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises import Fate, History, Report, check_all
from tests.harness.addresses import address, view_id

ALL, SITE, UNICAST, OOB = tuple(Scope)
Certainty = Literal["not_delivered", "unknown"]


def batch_sent(origin: str, site: str, scope: Scope, first: int, count: int, target: str = "", to: str = "") -> records.Send:
    """The record of a batch sent, the same in every journal that has the batch; `to`: the site that it is for."""
    digest = hashlib.sha256(f"{origin} {scope} {first} {target}".encode()).digest()
    uuid = address(target) if target else None
    return records.Send(0, 0, site, address(origin), scope, first, count, uuid, to, bytes(4 * count), digest)


def write_journal(
    options: JournalOptions,
    site: str,
    uuid: Address,
    name: str,
    written: Iterable[records.Record],
    create: Callable[[Path], SegmentFile] = create_file,
) -> JournalStore:
    """Write a journal to the disk, or to that of `create`; its store, which is closed."""
    store = JournalStore(options, site, uuid, name, create)
    for record in written:
        store.write(record)
    store.close()
    return store


class Journal:
    """The records of one process, with the times of a clock; without a clock all times are 0."""

    def __init__(self, site: str, uuid: Address, name: str, clock: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        self.site = site
        self.uuid = uuid
        self.name = name
        self.clock = clock
        self.records: list[records.Record] = [records.Start(*clock(), site, uuid, name, 1, 1, "0.1.0")]

    def delivers(self, send: records.Send, gseq: int | None, vid: ViewId, gvec: Mapping[str, ViewId]) -> None:
        """Deliver a batch, at a place in the stream of this process's site."""
        via: Literal["local", "relay"] = "local" if send.site == self.site else "relay"
        deliver = records.Deliver(*self._head(send), via, gseq, vid, gvec, send.sizes, send.digest)
        self.records.append(deliver)

    def fails(self, send: records.Send, certainty: Certainty) -> None:
        """Report a batch of this process as unreachable."""
        self.records.append(records.Unreach(*self._head(send), send.target, send.target_site, "gone", certainty))

    def _head(self, send: records.Send) -> tuple[int, int, str, Address, Scope, int, int]:
        """The time now, and the fields that tell a batch from all others."""
        return (*self.clock(), send.site, send.origin, send.scope, send.first, send.count)


class Told(Journal):
    """A journal in letters; every method adds one record and gives back the journal."""

    def __init__(self, site: str, name: str) -> None:
        super().__init__(site, address(name), name)
        self.view_id = view_id("1A")

    def view(self, name: str, members: str, lineage: str = "1A", subs: Sequence[tuple[str, str]] = ()) -> Told:
        """`view("3A", "ABC")`; with `subs` a merge view."""
        self.view_id = view_id(name)
        parts = tuple((view_id(part), tuple(map(address, who))) for part, who in subs)
        kind: Literal["view", "merge"] = "merge" if subs else "view"
        who = tuple(map(address, members))
        return self.add(records.View(0, 0, self.view_id, view_id(lineage), who, tuple(members), kind, parts))

    def send(self, first: int, count: int = 1, scope: Scope = ALL, target: str = "", site: str = "") -> Told:
        """A batch of this process."""
        return self.add(batch_sent(self.name, self.site, scope, first, count, target, site))

    def deliver(
        self, origin: str, first: int, count: int = 1, scope: Scope = ALL, site: str = "", gseq: int | None = None
    ) -> Told:
        """A batch of `origin`, of this site unless another is named."""
        target = self.name if scope in UNICASTS else ""
        self.delivers(batch_sent(origin, site or self.site, scope, first, count, target), gseq, self.view_id, {})
        return self

    def global_view(self, vector: dict[str, str], members: str, down: Sequence[str] = ()) -> Told:
        """`members` as "NYC:AB SFO:D"."""
        pairs = [part.split(":") for part in members.split()]
        who = tuple((site, address(name)) for site, names in pairs for name in names)
        gvec = {site: view_id(name) for site, name in vector.items()}
        return self.add(records.GlobalView(0, 0, gvec, who, tuple(down)))

    def gap(self, origin: str, first: int, last: int, site: str) -> Told:
        """Messages of another site that never come."""
        return self.add(records.Gap(0, 0, site, address(origin), first, last, "budget"))

    def baseline(self, origin: str, number: int, site: str, in_state: bool = False) -> Told:
        """Where this process starts to receive; `in_state`: a state of another site has the messages before."""
        return self.add(records.Baseline(0, 0, site, address(origin), number, in_state))

    def unreach(self, first: int, certainty: Certainty, target: str = "", site: str = "", count: int = 1) -> Told:
        """A unicast to `target`, or a multicast to a whole site, that failed."""
        self.fails(batch_sent(self.name, self.site, UNICAST if target else ALL, first, count, target, site), certainty)
        return self

    def role(self, role: Literal["member", "coord", "relay", "share"], epoch: str) -> Told:
        """A role and the view id that fences it."""
        return self.add(records.Role(0, 0, role, view_id(epoch)))

    def stop(self) -> Told:
        """A graceful end."""
        return self.add(records.Stop(0, 0, "leave"))

    def add(self, record: records.Record) -> Told:
        self.records.append(record)
        return self

    def history(self, fate: Fate = Fate.RUNNING) -> History:
        """The finished journal."""
        if fate is Fate.STOPPED:
            self.stop()
        return History.of(self.records, running=fate is Fate.RUNNING)


class Every:
    """Several journals to which the same happens: each method of `Told` is called on each of them."""

    def __init__(self, *told: Told) -> None:
        self._told = told

    def __getattr__(self, name: str) -> Callable[..., Every]:
        def tell(*arguments: Any, **more: Any) -> Every:
            for each in self._told:
                getattr(each, name)(*arguments, **more)
            return self

        return tell


def paused_sender(held: bool, founded: bool = False) -> tuple[Told, Told, Told]:
    """A stood still after it had sent 1, and joins B, and C who came meanwhile; `held`: B had delivered it before C came.

    `founded`: C did not join B, it had begun alone and was merged with it.
    """
    a, b, c = Told("NYC", "A").view("1A", "AB"), Told("NYC", "B").view("1A", "AB"), Told("NYC", "C")
    a.send(1).view("2A", "A", lineage="2A")
    if held:
        b.deliver("A", 1)
    b.view("2B", "B")
    if founded:
        c.view("1C", "C", lineage="1C")
    Every(b, c).view("3B", "BC", subs=[("1C", "C"), ("2B", "B")] if founded else ())
    Every(a, b, c).view("4A", "ABC", lineage="4A", subs=[("2A", "A"), ("3B", "BC")])
    a.deliver("A", 1).send(2)
    if not held:
        b.deliver("A", 1)
    Every(a, b, c).deliver("A", 2)
    return a, b, c


def outlived_sender() -> tuple[Told, ...]:
    """As `paused_sender`, but B, which had delivered 1, has died when A joins C, and D whom only C has met."""
    a, b, c, d = Told("NYC", "A").view("1A", "AB"), Told("NYC", "B").view("1A", "AB"), Told("NYC", "C"), Told("NYC", "D")
    a.send(1).view("2A", "A", lineage="2A")
    b.deliver("A", 1).view("2B", "B")
    Every(b, c).view("3B", "BC")
    c.view("4C", "C")
    Every(c, d).view("5C", "CD")
    Every(a, c, d).view("6A", "ACD", lineage="6A", subs=[("2A", "A"), ("5C", "CD")])
    a.deliver("A", 1).send(2)
    Every(a, c, d).deliver("A", 2)
    return a, b, c, d


def check(*told: Told, crashed: str = "", stopped: str = "", quiescent: bool = True, total: bool = True) -> Report:
    """The report on a run of these processes; those neither crashed nor stopped lived to the end."""
    fates = {**dict.fromkeys(crashed, Fate.CRASHED), **dict.fromkeys(stopped, Fate.STOPPED)}
    histories = [each.history(fates.get(each.name, Fate.RUNNING)) for each in told]
    return check_all(histories, quiescent, total)


def broken(report: Report) -> set[str]:
    """The names of the invariants that do not hold."""
    return {violation.invariant for violation in report.violations}
