"""Turns what comes out of a stack into the records of the journal, in the order in which it happened.

Pure: the clock and the sink are handed in, so that a channel and a simulated world record in exactly the same way. A batch is
hashed once; a batch of one's own whose very bytes come back to be delivered is not hashed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.events import Event, LeftBehind, Sent, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import UNICASTS, Batch, Scope
from sitestack.model.view import View, ViewId

#: Answers with the monotonic and the wall clock, both in nanoseconds.
Clock = Callable[[], tuple[int, int]]
Write = Callable[[records.Record], None]

#: Batches of one's own that wait for their delivery; what is sent beyond is hashed a second time when it is delivered.
DIGESTS_MAX = 1_024

RoleName = Literal["member", "coord", "relay"]

#: What a package above writes of its own events, by their type: each is called with the recorder and the event.
EventRecords = Mapping[type[Event], Callable[["Recorder", Any], None]]
NO_EVENTS: EventRecords = MappingProxyType({})


class Recorder:
    """Records one process. `record` is given everything that comes out of the stack, in order."""

    def __init__(
        self,
        site: str,
        address: Address,
        write: Write,
        clock: Clock,
        *,
        keep_payloads: bool = False,
        total_order: bool = True,
        event_records: EventRecords = NO_EVENTS,
    ) -> None:
        """`total_order` False: places in the senders' own streams are no places in one order, and are not recorded."""
        self.site = site
        self.address = address
        self.write = write
        self.clock = clock
        self._keep_payloads = keep_payloads
        self._total_order = total_order
        self._event_records = event_records
        #: The view id of every site in the global view in force; package `relay` fills it.
        self.global_view: Mapping[str, ViewId] = {}
        self._view: ViewId | None = None
        self._role: records.Role | None = None
        #: By scope and first number, for own multicasts on their way: the body, and its digest.
        self._digests: dict[tuple[Scope, int], tuple[bytes, bytes]] = {}
        self._drops: dict[str, int] = {}

    def record_start(self, name: str, pid: int, incarnation: int, version: str, seed: int | None = None) -> None:
        """Before joining."""
        t, w = self.clock()
        self.write(records.Start(t, w, self.site, self.address, name, pid, incarnation, version, seed))

    def record_stop(self, answered: bool) -> None:
        """The last record of a process that ends by its own will; `answered`: the others went on without it first."""
        self.write(records.Stop(*self.clock(), "left" if answered else records.UNANSWERED))

    def reject(self, reason: str) -> None:
        """A send was refused."""
        self.write(records.Reject(*self.clock(), reason))

    def record(self, event: Event | Frame) -> None:
        """Record what came out of the stack; events that mean nothing to a reader of the journal are passed over."""
        if isinstance(event, Frame):
            if event.batch is not None:
                self.deliver(event.batch, event.seqno)
        elif isinstance(event, Sent):
            self._record_send(event.batch)
        elif isinstance(event, ViewInstalled):
            self.install(event.view)
            self.take_role(event.view)
        elif isinstance(event, Undeliverable):
            self._give_up(event)
        elif isinstance(event, LeftBehind):
            self._leave_behind(event)
        elif isinstance(event, Gap):
            self._miss(event)
        elif (write := self._event_records.get(type(event))) is not None:
            write(self, event)

    def drops(self, counts: Mapping[str, int]) -> None:
        """Record how much each counter of refused input has grown since the last call."""
        for why, count in counts.items():
            grown = count - self._drops.get(why, 0)
            if grown:
                self.write(records.Drop(*self.clock(), why, "", grown))
        self._drops = dict(counts)

    def role(self, role: RoleName, epoch: ViewId | None, to: tuple[str, ...] = ()) -> None:
        """The process took a role; nothing is written when it has it already."""
        taken = records.Role(*self.clock(), role, epoch, to)
        last = self._role
        if last is None or (last.role, last.epoch, last.to) != (role, epoch, to):
            self._role = taken
            self.write(taken)

    def _record_send(self, batch: Batch) -> None:
        t, w = self.clock()
        payload = batch.body if self._keep_payloads else None
        digest = hashlib.sha256(batch.body).digest()
        if batch.target is None and len(self._digests) < DIGESTS_MAX:
            self._digests[batch.scope, batch.first] = (batch.body, digest)
        self.write(
            records.Send(
                t,
                w,
                batch.site,
                batch.origin,
                batch.scope,
                batch.first,
                batch.count,
                batch.target,
                batch.target_site,
                batch.sizes,
                digest,
                payload,
            )
        )

    def deliver(self, batch: Batch, seqno: int) -> None:
        """A batch was delivered, at this place in the stream of its view; 0 where nothing gives places."""
        assert self._view is not None, "a delivery before the first view"
        t, w = self.clock()
        self.write(
            records.Deliver(
                t,
                w,
                batch.site,
                batch.origin,
                batch.scope,
                batch.first,
                batch.count,
                "local" if batch.site == self.site else "relay",
                seqno if self._total_order and batch.scope not in UNICASTS and seqno > 0 else None,
                self._view,
                self.global_view,
                batch.sizes,
                self._digest(batch),
                batch.body if self._keep_payloads else None,
            )
        )

    def _give_up(self, event: Undeliverable) -> None:
        """Unicasts of one's own to a member of one's own site; the other frames are the business of the protocols."""
        for batch in own_unicasts(event, self.site, self.address):
            self.write(
                records.Unreach(
                    *self.clock(),
                    batch.site,
                    batch.origin,
                    batch.scope,
                    batch.first,
                    batch.count,
                    batch.target,
                    batch.target_site,
                    "unacknowledged",
                    "unknown",
                )
            )

    def _miss(self, event: Gap) -> None:
        numbers = event.first, event.last
        self.write(records.Gap(*self.clock(), event.site, event.origin, *numbers, event.reason.value, event.scope))

    def _leave_behind(self, event: LeftBehind) -> None:
        t, w = self.clock()
        count = event.last - event.first + 1
        first = event.first
        self.write(records.Unreach(t, w, self.site, self.address, event.scope, first, count, None, "", "left", "unknown"))

    def _digest(self, batch: Batch) -> bytes:
        known = self._digests.pop((batch.scope, batch.first), None) if batch.origin == self.address else None
        return known[1] if known is not None and known[0] is batch.body else hashlib.sha256(batch.body).digest()

    def install(self, view: View) -> None:
        """A view is in force from now on."""
        t, w = self.clock()
        self._view = view.id
        subs = tuple([(sub.id, sub.members) for sub in view.subviews])
        kind: Literal["view", "merge"] = "merge" if subs else "view"
        self.write(records.View(t, w, view.id, view.lineage, view.members, view.names, kind, subs))

    def take_role(self, view: View) -> None:
        """What this process is to its site in a view."""
        if view.coordinator == self.address:
            self.role("coord", view.id)
        else:
            self.role("member", None)


def own_unicasts(event: Undeliverable, site: str, address: Address) -> list[Batch]:
    """The application's unicasts among the frames that were given up: of this member, to a member of its own site."""
    batches = [frame.batch for frame in event.frames if frame.batch is not None]
    return [b for b in batches if b.scope in UNICASTS and b.origin == address and b.site == b.target_site == site]
