"""Members that ask for locks while faults happen, and the invariants on their tokens (M6)."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from relay_lab.sim.lies import opened
from relay_lab.sim.process import Process
from sitestack.config import SiteConfig
from sitestack.layers.batching import Manner
from sitestack.model.address import Address
from sitestack.model.envelope import STRUCTURE
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.structures.locks import Locks, Request
from sitestack.structures.registry import Structures

NAMES = ("l", "m")
#: Seconds without a turn after which a member was paused; its heartbeats alone are more frequent.
PAUSED_S = 2.0
#: Seconds in which the members of a view with the majority agree on their locks: a detection, as for a multicast (T1).
AGREED_S_MAX = 10.0


@dataclass
class Hold:
    """A time in which a member believes that it holds a lock."""

    name: str
    token: int
    #: The view of its grant, and those later ones whose members agreed that it holds.
    granted: ViewId
    views: set[ViewId]
    start: float
    end: float = math.inf


@dataclass
class Stay:
    """The time (s) of a member in a view of so many members with the majority, and when these agreed on their locks."""

    members: int
    begin: float
    end: float = math.inf
    agreed: float = math.inf


class LockUser:
    """A member's lock service, and the application that uses it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._structures = Structures(_refuse, self._post, lambda reason: None)
        self.locks = Locks(process.local.address, self._structures, lambda: int(process.schedule.now * 1e6))
        self._requests: list[Request] = []
        self._holds: dict[int, Hold] = {}
        #: All that this member has held, and its views in their order.
        self.held: list[Hold] = []
        self.views: list[ViewId] = []
        self._view: ViewId
        #: Its times in views with the majority.
        self.stays: dict[ViewId, Stay] = {}
        self._turned = 0.0

    def follow(self, events: Sequence[Event | Frame]) -> None:
        """Feed the service with the events of a turn, in their order."""
        now = self._process.schedule.now
        if self.views and now - self._turned > PAUSED_S and (stay := self.stays.get(self._view)):
            stay.begin += now - self._turned
        self._turned = now
        for event in events:
            if isinstance(event, ViewInstalled):
                self._leave_view()
                self._view = event.view.id
                if event.view.is_primary:
                    self.stays[self._view] = Stay(len(event.view.members), now)
                self.views.append(self._view)
                self.locks.view_changed(event.view)
            elif isinstance(event, Frame) and event.batch is not None and event.batch.has_envelopes:
                messages = [(envelope.headers.get(STRUCTURE, b""), data) for envelope, data in opened(event.batch)]
                self._structures.deliver(event.source, messages)
        if self.locks.is_agreed:
            stay = self.stays[self._view]
            stay.agreed = min(stay.agreed, now)
            for hold in self._holds.values():
                hold.views.add(self._view)

    def decide(self, rng: random.Random) -> None:
        self._requests = [request for request in self._requests if not request.is_over]
        if self._requests and rng.random() < 0.6:
            self.locks.release(self._requests.pop(rng.randrange(len(self._requests))))
        elif len(self._requests) < 3:
            made: list[Request] = []
            made.append(self.locks.request(rng.choice(NAMES), lambda: self._note(made[0])))
            self._requests += made

    def drain(self) -> bool:
        """Release the locks that this member holds; return whether it waits for none any more."""
        self._requests = [request for request in self._requests if not request.is_over]
        for request in self._requests:
            if request.token is not None:
                self.locks.release(request)
        return not self._requests

    def end(self) -> None:
        """The process has died."""
        self._leave_view()
        for hold in self._holds.values():
            hold.end = self._process.schedule.now

    def _leave_view(self) -> None:
        if self.views and (stay := self.stays.get(self._view)):
            stay.end = self._process.schedule.now

    def _note(self, request: Request) -> None:
        now = self._process.schedule.now
        if request.token is not None:
            hold = self._holds[request.number] = Hold(request.name, request.token, self._view, {self._view}, now)
            self.held.append(hold)
        elif request.number in self._holds:
            self._holds.pop(request.number).end = now

    def _post(self, body: bytes, scope: Scope, target: Address | None) -> None:
        if self._process.alive:
            self._process.batching.append(body, scope, target, Manner.INTERNAL)
            self._process.touch()


def _refuse(body: bytes, scope: Scope, target: Address | None) -> Awaitable[None]:
    raise AssertionError("the lock service does not wait")


def uses_locks(config: SiteConfig) -> bool:
    """Return whether a channel with this configuration has a lock service."""
    return (config.membership.when_split, config.agreement, config.order) == ("majority", "uniform", "total")


def find_violations(users: Sequence[tuple[Process, LockUser]], settled: bool, agreed_s_max: float) -> Iterator[str]:
    """Report two holders that a fenced resource would accept, and a view with the majority that grants nothing for long;
    at rest also tables that differ or have a holder.
    """
    for site in sorted({process.local.site for process, _ in users}):
        yield from _overlaps(site, [user for process, user in users if process.local.site == site])
    yield from _lacks([user for _, user in users], agreed_s_max)
    tables: dict[str, object] = {}
    for process, user in users:
        site, label = process.local.site, f"{process.local.site}/{process.local.name}"
        if not settled or not process.alive or process.view is None:
            continue
        table = user.locks.table
        if tables.setdefault(site, table.snapshot()) != table.snapshot():
            yield f"{label}: its locks differ from those of its site at rest"
        if held := [name for name in NAMES if table.holder(name) is not None]:
            yield f"{label}: lock {held[0]} is held at rest, though all members have released theirs"


def _lacks(users: Sequence[LockUser], agreed_s_max: float) -> Iterator[str]:
    """Report a long-lived view in which a member granted no lock."""
    stays: dict[ViewId, list[Stay]] = {}
    for user in users:
        for view, stay in user.stays.items():
            stays.setdefault(view, []).append(stay)
    for view, found in stays.items():
        lack_s = min(max(stay.agreed for stay in found), min(stay.end for stay in found)) - max(stay.begin for stay in found)
        if len(found) == found[0].members and lack_s > agreed_s_max:
            yield f"view {view} granted no lock for {lack_s:.1f} s"


def _overlaps(site: str, users: Sequence[LockUser]) -> Iterator[str]:
    """Report a lock that was passed on before its holder had released it, or was left out of the view.

    Such a holder still believes in a smaller token, which a fenced resource refuses.
    """
    holds = sorted([hold for user in users for hold in user.held], key=lambda hold: (hold.name, hold.token))
    following: dict[ViewId, set[ViewId]] = {}
    for user in users:
        for view, after in pairwise(user.views):
            following.setdefault(view, set()).add(after)
    for first, second in pairwise(holds):
        if first.name != second.name:
            continue
        if first.token == second.token:
            yield f"{site}: token {first.token} of lock {first.name} was held by two requests"
        elif (second.granted in first.views and first.end > second.start) or first.views & _later(following, second.granted):
            yield f"{site}: lock {first.name} had token {second.token} before token {first.token} was given back"


def _later(following: dict[ViewId, set[ViewId]], view: ViewId) -> set[ViewId]:
    """Return the views that some member of this view, or of one after it, has had later."""
    found: set[ViewId] = set()
    open_views = [view]
    while open_views:
        new = following.get(open_views.pop(), set()) - found
        found |= new
        open_views += new
    return found
