"""A generator of correct journals: two sites, joins, leaves and crashes, and every kind of message.

It does not use the protocols: each site has one list of messages, and every member of the view
delivers its head. Two members of each site live to the end.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import History
from tests.harness.journals import Journal

SITES = ("NYC", "SFO")
_FOUNDERS = 3
_MEMBERS_MAX = 5


class Process(Journal):
    """One member and its journal."""

    def __init__(self, site: str, uuid: Address, name: str, clock: Callable[[], tuple[int, int]]) -> None:
        super().__init__(site, uuid, name, clock)
        self.sent: dict[tuple[Scope, Address | None], int] = {}
        self.running = True


@dataclass
class Batch:
    """A batch that waits to be sequenced in a site."""

    origin: Process
    send: records.Send


@dataclass
class Site:
    """A site: its members, its stream, and the messages that its relay has still to bring in."""

    name: str
    members: list[Process] = field(default_factory=list)
    counter: int = 0
    gseq: int = 0
    vid: ViewId | None = None
    lineage: ViewId | None = None
    pending: deque[Batch] = field(default_factory=deque)
    inbound: deque[Batch] = field(default_factory=deque)
    #: By origin of the other site, the next number that the site will take.
    taken: dict[Address, int] = field(default_factory=dict)


class CorrectRun:
    """Runs `steps` random steps and keeps the journals. Equal seeds give equal runs."""

    def __init__(self, seed: int, steps: int = 300, batch_max: int = 4, with_gseq: bool = True) -> None:
        self.rng = random.Random(seed)
        self.batch_max = batch_max
        self.with_gseq = with_gseq
        self.clock = 1_000_000_000
        self.processes: list[Process] = []
        self.sites = {name: Site(name) for name in SITES}
        for site in self.sites.values():
            for _ in range(_FOUNDERS):
                self.start(site)
        for site in self.sites.values():
            self.install(site)
        for _ in range(steps):
            self.step()
        self.drain()

    def histories(self) -> list[History]:
        return [History.of(each.records, each.running) for each in self.processes]

    def crashed(self) -> set[Address]:
        """The processes that ended without a Stop record."""
        return {each.uuid for each in self.processes if not each.running and not isinstance(each.records[-1], records.Stop)}

    def step(self) -> None:
        site = self.sites[self.rng.choice(SITES)]
        action = self.rng.random()
        if action < 0.45:
            self.send(site)
        elif action < 0.65 and site.pending:
            self.sequence(site)
        elif action < 0.93 and site.inbound:
            self.bring_in(site)
        elif action < 0.97 and len(site.members) < _MEMBERS_MAX:
            self.start(site)
            self.install(site)
        elif action > 0.97 and len(site.members) > 2:
            self.end(site, self.rng.choice(site.members[2:]))

    def drain(self) -> None:
        for site in self.sites.values():
            while site.pending:
                self.sequence(site)
        for site in self.sites.values():
            while site.inbound:
                self.bring_in(site)

    def now(self) -> tuple[int, int]:
        self.clock += self.rng.randrange(1, 1_000_000)
        return self.clock, 1_700_000_000_000_000_000 + self.clock

    def start(self, site: Site) -> None:
        name = chr(ord("A") + len(self.processes)) if len(self.processes) < 26 else f"M{len(self.processes)}"
        process = Process(site.name, Address.make(self.rng), name, self.now)
        for origin, number in site.taken.items():
            other = next(name for name in SITES if name != site.name)
            process.records.append(records.Baseline(*self.now(), other, origin, number))
        self.processes.append(process)
        site.members.append(process)

    def install(self, site: Site) -> None:
        site.counter += 1
        site.gseq = 0
        site.vid = ViewId(site.counter, site.members[0].uuid)
        site.lineage = site.lineage or site.vid
        uuids = tuple(each.uuid for each in site.members)
        names = tuple(each.name for each in site.members)
        for each in site.members:
            each.records.append(records.View(*self.now(), site.vid, site.lineage, uuids, names))
            is_relay = each is site.members[0]
            each.records.append(records.Role(*self.now(), "relay" if is_relay else "member", site.vid))
        vector = self.vector()
        members = tuple((each.name, member.uuid) for each in self.sites.values() if each.vid for member in each.members)
        for each in (member for other in self.sites.values() if other.vid for member in other.members):
            each.records.append(records.GlobalView(*self.now(), vector, members))

    def vector(self) -> dict[str, ViewId]:
        return {site.name: site.vid for site in self.sites.values() if site.vid}

    def send(self, site: Site) -> None:
        origin = self.rng.choice(site.members)
        kind = self.rng.random()
        scope = Scope.ALL if kind < 0.6 else Scope.SITE if kind < 0.8 else Scope.UNICAST
        others = [each for each in self.processes if each is not origin and each.running]
        target = self.rng.choice(others) if scope is Scope.UNICAST else None
        uuid = None if target is None else target.uuid
        count = self.rng.randint(1, self.batch_max)
        first = origin.sent.get((scope, uuid), 0) + 1
        origin.sent[scope, uuid] = first + count - 1
        sizes = struct.pack(f"<{count}I", *[self.rng.randrange(1_000) for _ in range(count)])
        digest = hashlib.sha256(repr((origin.uuid, scope, uuid, first)).encode()).digest()
        to = "" if target is None else target.site
        send = records.Send(*self.now(), site.name, origin.uuid, scope, first, count, uuid, to, sizes, digest)
        origin.records.append(send)
        if target is None:
            site.pending.append(Batch(origin, send))
        elif self.rng.random() < 0.1:
            origin.fails(send, "unknown")
        else:
            self.deliver(target, send, None)

    def sequence(self, site: Site) -> None:
        batch = site.pending.popleft()
        site.gseq += 1
        for each in site.members:
            self.deliver(each, batch.send, site.gseq)
        if batch.send.scope is Scope.ALL:
            other = next(each for each in self.sites.values() if each is not site)
            other.inbound.append(batch)

    def bring_in(self, site: Site) -> None:
        send = site.inbound.popleft().send
        site.taken[send.origin] = send.last + 1
        if self.rng.random() < 0.03:
            for each in site.members:
                t, w = self.now()
                each.records.append(records.Gap(t, w, send.site, send.origin, send.first, send.last, "budget"))
            return
        site.gseq += 1
        for each in site.members:
            self.deliver(each, send, site.gseq)

    def deliver(self, process: Process, send: records.Send, gseq: int | None) -> None:
        site = self.sites[process.site]
        assert site.vid is not None
        process.delivers(send, gseq if self.with_gseq else None, site.vid, self.vector())

    def end(self, site: Site, process: Process) -> None:
        """End a process by a crash, which loses its unsequenced messages, or by a graceful stop, which loses none."""
        if self.rng.random() < 0.6:
            site.pending = deque(each for each in site.pending if each.origin is not process)
        else:
            while site.pending:
                self.sequence(site)
            process.records.append(records.Stop(*self.now(), "leave"))
        process.running = False
        site.members.remove(process)
        self.install(site)
