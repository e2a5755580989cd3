"""The forward-table: own batches that are not known to be delivered everywhere ("Variables" in JGroups' SEQUENCER).

It is one ordered list in three parts: batches that are delivered here but not stable, batches that are forwarded, and batches
that wait to be forwarded. `take` moves the border between the last two forwards, `rewind` moves it back, and so new batches can
never overtake older ones that must be sent again (S2, S4).
"""

from __future__ import annotations

from collections import deque

from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope

#: How many delivered but unstable entries are remembered; beyond, the oldest counts as stable. Only the number in the levels is
#: wrong then: a flush gives to all survivors what one of them has delivered.
UNSTABLE_MAX = 65_536


class ForwardTable:
    """Own batches. One leaves when it is stable, or when a view follows its delivery here (S6; SEQ-3 gives way)."""

    def __init__(self, undelivered_bytes_max: int) -> None:
        self.bytes = Level(undelivered_bytes_max)
        #: Batches not delivered here, in order of sending. Bounded by the window of the layer above, which the assertion in
        #: `add` checks.
        self._undelivered: dict[tuple[Scope, int], Batch] = {}
        #: The last of the undelivered batches, which wait to be forwarded for the first time or again.
        self._waiting: deque[Batch] = deque()
        #: The places in the stream of own batches delivered here. NAKACK holds their frames, and a flush takes them from there.
        self._unstable: deque[int] = deque(maxlen=UNSTABLE_MAX)

    def add(self, batch: Batch) -> None:
        """Append an own batch."""
        size = len(batch.body)
        assert self.bytes.fits(size), "the layer above sends beyond every window (S18)"
        self.bytes.add(size)
        self._undelivered[batch.scope, batch.first] = batch
        self._waiting.append(batch)

    def next_to_forward(self) -> Batch | None:
        """The next batch to forward; None when none waits."""
        return self._waiting.popleft() if self._waiting else None

    def rewind(self) -> None:
        """Forward all undelivered batches again, in order."""
        self._waiting = deque(self._undelivered.values())

    def delivered(self, batch: Batch, seqno: int) -> bool:
        """An own batch was delivered here, at place `seqno` of the stream; False when it was not in the table."""
        entry = self._undelivered.pop((batch.scope, batch.first), None)
        if entry is None:
            return False
        self.bytes.now -= len(entry.body)
        self._unstable.append(seqno)
        return True

    def stable(self, seqno: int) -> None:
        """Every member has the stream up to `seqno`."""
        while self._unstable and self._unstable[0] <= seqno:
            self._unstable.popleft()

    def view_changed(self) -> None:
        """Begin a view: batches delivered here are everywhere by the flush; all others are forwarded again first (S11)."""
        self._unstable.clear()
        self.rewind()

    @property
    def undelivered(self) -> int:
        """How many own batches have not been delivered here."""
        return len(self._undelivered)

    @property
    def unstable(self) -> int:
        """How many own batches were delivered here, but perhaps not everywhere."""
        return len(self._unstable)
