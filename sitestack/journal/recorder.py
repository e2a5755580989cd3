"""Converts the output of a stack into journal records, in order of occurrence.

Pure: clock and sink are parameters, so that a channel and a simulated world record identically. A
batch is hashed once; an own batch that returns for delivery with the same bytes object is not
hashed again.
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

#: Returns the monotonic and the wall clock, both in nanoseconds.
Clock = Callable[[], tuple[int, int]]
Write = Callable[[records.Record], None]

#: Maximum own batches that await delivery; further ones are hashed again when delivered.
DIGESTS_MAX = 1_024

RoleName = Literal["member", "coord", "relay"]

#: Writers of a higher package for its events, by type. Each is called with the recorder and the
#: event.
EventRecords = Mapping[type[Event], Callable[["Recorder", Any], None]]
NO_EVENTS: EventRecords = MappingProxyType({})


class Recorder:
    """Records one process. `record` must receive all output of the stack, in order."""

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
        """`total_order` False: places in the senders' streams form no single order, and are not recorded."""
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
        #: By scope and first number, for own multicasts in transit: the body, and its digest.
        self._digests: dict[tuple[Scope, int], tuple[bytes, bytes]] = {}
        self._drops: dict[str, int] = {}

    def record_start(self, name: str, pid: int, incarnation: int, version: str, seed: int | None = None) -> None:
        t, w = self.clock()
        self.write(records.Start(t, w, self.site, self.address, name, pid, incarnation, version, seed))

    def record_stop(self, answered: bool) -> None:
        """Record a graceful stop. `answered`: the others installed a view without this member first."""
        self.write(records.Stop(*self.clock(), "left" if answered else records.UNANSWERED))

    def reject(self, reason: str) -> None:
        self.write(records.Reject(*self.clock(), reason))

    def record(self, event: Event | Frame) -> None:
        """Record an event or a delivery of the stack; ignore events that have no record."""
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
        """Record the growth of each counter of rejected input since the last call."""
        for why, count in counts.items():
            grown = count - self._drops.get(why, 0)
            if grown:
                self.write(records.Drop(*self.clock(), why, "", grown))
        self._drops = dict(counts)

    def role(self, role: RoleName, epoch: ViewId | None, to: tuple[str, ...] = ()) -> None:
        """Record a role change; write nothing if the process has this role."""
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
        self.write(records.Send(t, w, *_numbers(batch), batch.target, batch.target_site, batch.sizes, digest, payload))

    def deliver(self, batch: Batch, seqno: int) -> None:
        """Record a delivery with its place in the stream of its view; 0 without an order."""
        assert self._view is not None, "a delivery before the first view"
        t, w = self.clock()
        self.write(
            records.Deliver(
                t,
                w,
                *_numbers(batch),
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
        """Record own unicasts to a member of this site. The other frames belong to the protocols."""
        for batch in own_unicasts(event, self.site, self.address):
            t, w = self.clock()
            to, site = batch.target, batch.target_site
            self.write(records.Unreach(t, w, *_numbers(batch), to, site, "unacknowledged", "unknown"))

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
        t, w = self.clock()
        self._view = view.id
        subs = tuple([(sub.id, sub.members) for sub in view.subviews])
        kind: Literal["view", "merge"] = "merge" if subs else "view"
        self.write(records.View(t, w, view.id, view.lineage, view.members, view.names, kind, subs))

    def take_role(self, view: View) -> None:
        if view.coordinator == self.address:
            self.role("coord", view.id)
        else:
            self.role("member", None)


def _numbers(batch: Batch) -> tuple[str, Address, Scope, int, int]:
    """Return the fields of a record that name the messages of a batch."""
    return batch.site, batch.origin, batch.scope, batch.first, batch.count


def own_unicasts(event: Undeliverable, site: str, address: Address) -> list[Batch]:
    """Return this member's application unicasts to its own site among the undeliverable frames."""
    batches = [frame.batch for frame in event.frames if frame.batch is not None]
    return [b for b in batches if b.scope in UNICASTS and b.origin == address and b.site == b.target_site == site]
