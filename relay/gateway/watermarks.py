"""Watermarks: up to where a relay may send to other sites, and acknowledge what they sent.

Sending: an entry is sent once one more member of this site holds it (X4, R11), so that no other site knows what this site can
still forget; what another member has multicast, that one holds. Acknowledging: what another site sent is acknowledged once it
is stable here (R5), so that the other site trims nothing that this site can still forget. `gseq` is a number in the
coordinator's own stream; a view change settles all before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from relay.replica.entries import Relayed, RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.outcome import Outcome
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId


class Admitted(NamedTuple):
    """What this site has admitted of another one by an entry: from above `before` up to `n` of an origin, or a view."""

    gseq: int
    site: str
    origin: Address | None
    before: int
    n: int
    view: ViewId | None
    lineage: ViewId | None


class Watermarks:
    """The positions and numbers of the installed view that are not held by another member, or not stable, yet.

    Bound: flow control, which limits how much may be sequenced and not yet stable.
    """

    def __init__(self, state: ReplicatedState) -> None:
        #: The buffer position up to which entries may be sent to other sites; -1 for none.
        self.sendable = -1
        self._state = state
        #: True when this member is the only one of its view.
        self._alone = False
        #: Entries that no other member holds yet: their stream (each member's own in `order: fifo`), number in it, position.
        self._unheld: deque[tuple[Address | None, int, int]] = deque()
        self._held: dict[Address, int] = {}
        self._unstable: deque[Admitted] = deque()

    def installed(self, alone: bool) -> list[Admitted]:
        """A view begins: all that was delivered before is held and stable. Returns what thereby became stable.

        `alone`: this member is the only one of the view.
        """
        settled = list(self._unstable)
        self._alone = alone
        self._unheld.clear()
        self._held = {}
        self._unstable.clear()
        self.sendable = self._state.buffer.end - 1
        return settled

    def appended(self, stream: Address | None, seqno: int, position: int) -> None:
        """An entry of this site was delivered and buffered; `stream` and `seqno` are those of its frame."""
        if self._alone:
            self.sendable = position
        else:
            self._unheld.append((stream, seqno, position))
            self.held(self._held)

    def held(self, vector: dict[Address, int]) -> bool:
        """At least one other member holds each stream up to these numbers; True when more may be sent now."""
        self._held = vector
        before = self.sendable
        while self._unheld:
            stream, seqno, position = self._unheld[0]
            if stream is None or seqno > vector.get(stream, 0):
                break
            self._unheld.popleft()
            self.sendable = position
        return self.sendable > before

    def admitted(self, entry: Admitted) -> list[Admitted]:
        """Something of another site was admitted; returns what thereby became stable: this itself when the member is alone."""
        if self._alone:
            return [entry]
        self._unstable.append(entry)
        return []

    def stable(self, gseq: int) -> list[Admitted]:
        """Every member has the coordinator's stream up to this number; returns what thereby became stable."""
        settled: list[Admitted] = []
        while self._unstable and self._unstable[0].gseq <= gseq:
            settled.append(self._unstable.popleft())
        return settled

    def stable_vector(self, site: str, lineage: ViewId) -> SiteVector:
        """All of a site that is stable here, for the first ACK of a link: what was admitted, less what is not stable yet."""
        admitted = self._state.admitted_vector(site, lineage) or SiteVector()
        origins, view = dict(admitted.origins), admitted.view
        for entry in reversed(self._unstable):  # so that the earliest one of each origin counts
            if entry.site == site and entry.origin is not None:
                origins[entry.origin] = entry.before
            elif entry.site == site and entry.lineage == lineage:
                view = None
        return SiteVector(origins, view)


def admitted_by(frame: Frame, entry: Header, outcome: Outcome) -> Iterator[Admitted]:
    """The numbers and views of another site that this entry has admitted to this one."""
    match entry:
        case Relayed() if outcome.admission in (Admission.NEXT, Admission.DELIVERED) and frame.batch is not None:
            batch = frame.batch
            yield Admitted(frame.seqno, batch.site, batch.origin, batch.first - 1, batch.last, None, None)
        case RemoteView(site, view) if outcome.admission is Admission.NEXT:
            yield Admitted(frame.seqno, site, None, 0, 0, view.id, view.lineage)
        case RemoteGap(site) | RemoteBaseline(site):
            for origin, before, n in outcome.numbers:
                yield Admitted(frame.seqno, site, origin, before, n, None, None)
