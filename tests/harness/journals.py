"""Journals told by hand: members have one-letter names, views are counters with their members spelled out."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Literal

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises import Fate, History, Report, check_all

ALL, SITE, UNICAST, OOB = tuple(Scope)


def uuid(name: str) -> Address:
    """The address of the member with this name."""
    return Address(name.encode() * 16)


def vid(name: str) -> ViewId:
    """`"3A"` is the view with counter 3 that A created."""
    return ViewId(int(name[:-1]), uuid(name[-1]))


def digest(origin: str, scope: Scope, first: int, target: str = "") -> bytes:
    """What the n-th batch of somebody contains."""
    return hashlib.sha256(f"{origin} {scope} {first} {target}".encode()).digest()


class Told:
    """The journal of one process; every method adds one record and gives back the journal."""

    def __init__(self, site: str, name: str) -> None:
        self.site = site
        self.name = name
        self.view_id = vid("1A")
        self.records: list[records.Record] = [
            records.Start(0, 0, site, uuid(name), name, 1, 1, "0.1.0"),
        ]

    def view(self, name: str, members: str, lineage: str = "1A", subs: Sequence[tuple[str, str]] = ()) -> Told:
        """`view("3A", "ABC")`; with `subs` a merge view."""
        self.view_id = vid(name)
        parts = tuple((vid(part), tuple(map(uuid, who))) for part, who in subs)
        kind: Literal["view", "merge"] = "merge" if subs else "view"
        who = tuple(map(uuid, members))
        return self.add(records.View(0, 0, self.view_id, vid(lineage), who, tuple(members), kind, parts))

    def send(self, first: int, count: int = 1, scope: Scope = ALL, target: str = "", site: str = "") -> Told:
        """A batch of this process."""
        return self.add(
            records.Send(
                0,
                0,
                self.site,
                uuid(self.name),
                scope,
                first,
                count,
                uuid(target) if target else None,
                site,
                bytes(4 * count),
                digest(self.name, scope, first, target),
            )
        )

    def deliver(
        self,
        origin: str,
        first: int,
        count: int = 1,
        scope: Scope = ALL,
        site: str = "",
        gseq: int | None = None,
    ) -> Told:
        """A batch of `origin`, of this site unless another is named."""
        home = site or self.site
        target = self.name if scope in UNICASTS else ""
        return self.add(
            records.Deliver(
                0,
                0,
                home,
                uuid(origin),
                scope,
                first,
                count,
                "local" if home == self.site else "relay",
                gseq,
                self.view_id,
                {},
                struct.pack(f"<{count}I", *[0] * count),
                digest(origin, scope, first, target),
            )
        )

    def global_view(self, vector: dict[str, str], members: str, down: Sequence[str] = ()) -> Told:
        """`members` as "NYC:AB SFO:D"."""
        pairs = [part.split(":") for part in members.split()]
        who = tuple((site, uuid(name)) for site, names in pairs for name in names)
        gvec = {site: vid(name) for site, name in vector.items()}
        return self.add(records.GlobalView(0, 0, gvec, who, tuple(down)))

    def gap(self, origin: str, first: int, last: int, site: str) -> Told:
        """Messages of another site that never come."""
        return self.add(records.Gap(0, 0, site, uuid(origin), first, last, "budget"))

    def baseline(self, origin: str, number: int, site: str) -> Told:
        """Where this process starts to receive."""
        return self.add(records.Baseline(0, 0, site, uuid(origin), number))

    def unreach(
        self,
        first: int,
        certainty: Literal["not_delivered", "unknown"],
        target: str = "",
        site: str = "",
        count: int = 1,
    ) -> Told:
        """A unicast to `target`, or a multicast to a whole site, that failed."""
        member = uuid(target) if target else None
        scope = UNICAST if target else ALL
        origin = uuid(self.name)
        return self.add(records.Unreach(0, 0, self.site, origin, scope, first, count, member, site, "gone", certainty))

    def role(self, role: Literal["member", "coord", "relay"], epoch: str) -> Told:
        """A role and the view id that fences it."""
        return self.add(records.Role(0, 0, role, vid(epoch)))

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


def check(*told: Told, crashed: str = "", stopped: str = "", quiescent: bool = True, total: bool = True) -> Report:
    """The report on a run of these processes; who is not named lived to the end."""
    fates = {**dict.fromkeys(crashed, Fate.CRASHED), **dict.fromkeys(stopped, Fate.STOPPED)}
    histories = [each.history(fates.get(each.name, Fate.RUNNING)) for each in told]
    return check_all(histories, quiescent, total)


def broken(report: Report) -> set[str]:
    """The names of the invariants that do not hold."""
    return {violation.invariant for violation in report.violations}
