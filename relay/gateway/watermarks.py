"""Watermarks: how far the coordinator may go on both sides of a link.

Out: an entry is sent once one more member of this site holds it (X4, R11), so that nothing is known elsewhere that this site
can forget. In: what another site sent is acknowledged once it is stable here (R5), so that nothing is trimmed there that this
site can forget. Both are read off the coordinator's own stream: `gseq` is a number in it, and a view change settles all before.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from relay.replica.entries import SiteVector
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.view import ViewId


class Admitted(NamedTuple):
    """Something of another site that this site has admitted: from above `before` to `n` of an origin, or a view."""

    gseq: int
    site: str
    origin: Address | None
    before: int
    n: int
    view: ViewId | None
    lineage: ViewId | None


class Watermarks:
    """Positions and numbers of the installed view that are not held or not stable yet.

    Bound: what is sequenced and not yet held or stable, which flow control below bounds.
    """

    def __init__(self, state: ReplicatedState) -> None:
        #: The position in the buffer up to which entries may be sent.
        self.sendable = -1
        self._state = state
        self._alone = False
        #: Whose stream brought it (each member's own in `order: fifo`), its number in there, and its position in the buffer.
        self._unheld: deque[tuple[Address | None, int, int]] = deque()
        self._held: dict[Address, int] = {}
        self._unstable: deque[Admitted] = deque()

    def installed(self, alone: bool) -> list[Admitted]:
        """A view begins: all that was delivered before is held and stable. What thereby became stable."""
        settled = list(self._unstable)
        self._alone = alone
        self._unheld.clear()
        self._held = {}
        self._unstable.clear()
        self.sendable = self._state.buffer.end - 1
        return settled

    def appended(self, stream: Address | None, seqno: int, position: int) -> None:
        """An entry of this site was delivered and buffered."""
        if self._alone:
            self.sendable = position
        else:
            self._unheld.append((stream, seqno, position))
            self.held(self._held)

    def held(self, vector: dict[Address, int]) -> bool:
        """One more member holds each stream up to these numbers; True when more may be sent."""
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
        """An entry of another site was admitted; what thereby became stable, which is itself when nobody else is here."""
        if self._alone:
            return [entry]
        self._unstable.append(entry)
        return []

    def stable(self, gseq: int) -> list[Admitted]:
        """Every member has the stream up to this number; what thereby became stable."""
        settled: list[Admitted] = []
        while self._unstable and self._unstable[0].gseq <= gseq:
            settled.append(self._unstable.popleft())
        return settled

    def stable_vector(self, site: str, lineage: ViewId) -> SiteVector:
        """All of a site that is stable here, for the first ACK of a link."""
        admitted = self._state.admitted_vector(site, lineage) or SiteVector()
        origins, view = dict(admitted.origins), admitted.view
        for entry in reversed(self._unstable):  # so that the earliest one of each origin counts
            if entry.site == site and entry.origin is not None:
                origins[entry.origin] = entry.before
            elif entry.site == site and entry.lineage == lineage:
                view = None
        return SiteVector(origins, view)
