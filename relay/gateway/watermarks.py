"""Watermarks: how far a relay may send to other sites, and acknowledge their messages.

An entry is sent once another member of this site holds it (X4, R11). An entry of another site is
acknowledged once stable here (R5). `gseq` is a number in the coordinator's own stream; a view
change settles all earlier ones.
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
    """A range of another site's numbers that an entry admitted, above `before` to `n`, or a view."""

    gseq: int
    site: str
    origin: Address | None
    before: int
    n: int
    view: ViewId | None
    lineage: ViewId | None


class Watermarks:
    """Numbers of the installed view that no other member holds, or that are not stable. Bound: flow control."""

    def __init__(self, state: ReplicatedState) -> None:
        #: The last buffer position that may be sent to other sites; -1 for none.
        self.sendable = -1
        self._state = state
        self._alone = False
        #: Entries that no other member holds: stream, number, position.
        self._unheld: deque[tuple[Address | None, int, int]] = deque()
        self._held: dict[Address, int] = {}
        self._unstable: deque[Admitted] = deque()

    def installed(self, alone: bool) -> list[Admitted]:
        """Begin a view: all earlier deliveries are held and stable. Return the newly stable ones.
        `alone`: this member is the only one.
        """
        settled = list(self._unstable)
        self._alone = alone
        self._unheld.clear()
        self._held = {}
        self._unstable.clear()
        self.sendable = self._state.buffer.end - 1
        return settled

    def clear(self) -> None:
        self._unheld.clear()
        self._unstable.clear()

    def appended(self, stream: Address | None, seqno: int, position: int) -> None:
        """Note a delivered and buffered entry of this site; `stream` and `seqno` are those of its frame."""
        if self._alone:
            self.sendable = position
        else:
            self._unheld.append((stream, seqno, position))
            self.held(self._held)

    def held(self, vector: dict[Address, int]) -> bool:
        """Note another member's holdings; return whether more may be sent now."""
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
        """Note an admitted entry of another site; return it if stable at once (a member alone)."""
        if self._alone:
            return [entry]
        self._unstable.append(entry)
        return []

    def stable(self, gseq: int) -> list[Admitted]:
        """Note how far every member has the coordinator's stream; return the newly stable entries."""
        settled: list[Admitted] = []
        while self._unstable and self._unstable[0].gseq <= gseq:
            settled.append(self._unstable.popleft())
        return settled

    def stable_vector(self, site: str, lineage: ViewId) -> SiteVector:
        """Return a site's stable numbers for a link's first ACK: the admitted ones less unstable ones."""
        admitted = self._state.admitted_vector(site, lineage) or SiteVector()
        origins, view = dict(admitted.origins), admitted.view
        for entry in reversed(self._unstable):
            if entry.site == site and entry.origin is not None:
                origins[entry.origin] = entry.before
            elif entry.site == site and entry.lineage == lineage:
                view = None
        return SiteVector(origins, view)


def admitted_by(frame: Frame, entry: Header, outcome: Outcome) -> Iterator[Admitted]:
    """Yield another site's numbers and views that this entry has admitted."""
    match entry:
        case Relayed() if outcome.admission in (Admission.NEXT, Admission.DELIVERED) and frame.batch is not None:
            batch = frame.batch
            yield Admitted(frame.seqno, batch.site, batch.origin, batch.first - 1, batch.last, None, None)
        case RemoteView(site, view) if outcome.admission is Admission.NEXT:
            yield Admitted(frame.seqno, site, None, 0, 0, view.id, view.lineage)
        case RemoteGap(site) | RemoteBaseline(site):
            for origin, before, n in outcome.numbers:
                yield Admitted(frame.seqno, site, origin, before, n, None, None)
