"""The forward-table: own batches not known to be delivered everywhere ("Variables" in JGroups'
SEQUENCER).

One ordered list in three parts: delivered here but not stable, forwarded, waiting to be forwarded.
So new batches never overtake older ones that must be sent again (S2, S4).
"""

from __future__ import annotations

from collections import deque

from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope

#: Remembered delivered but unstable entries; beyond, the oldest counts as stable. Only the reported
#: level is wrong then.
UNSTABLE_MAX = 65_536


class ForwardTable:
    """Own batches until they are stable, or a view follows their delivery here (S6; overrides SEQ-3)."""

    def __init__(self, undelivered_bytes_max: int) -> None:
        self.bytes = Level(undelivered_bytes_max)
        #: Batches not delivered here, bounded by the window above, as `add` asserts.
        self._undelivered: dict[tuple[Scope, int], Batch] = {}
        #: The last of the undelivered batches.
        self._waiting: deque[Batch] = deque()
        #: Places in the stream of own batches delivered here.
        self._unstable: deque[int] = deque(maxlen=UNSTABLE_MAX)

    def add(self, batch: Batch) -> None:
        size = len(batch.body)
        assert self.bytes.fits(size), "the layer above sends beyond every window (S18)"
        self.bytes.add(size)
        self._undelivered[batch.scope, batch.first] = batch
        self._waiting.append(batch)

    def next_to_forward(self) -> Batch | None:
        return self._waiting.popleft() if self._waiting else None

    def rewind(self) -> None:
        self._waiting = deque(self._undelivered.values())

    def delivered(self, batch: Batch, seqno: int) -> bool:
        """Note the delivery of an own batch at place `seqno`; return False if it was not in the table."""
        entry = self._undelivered.pop((batch.scope, batch.first), None)
        if entry is None:
            return False
        self.bytes.now -= len(entry.body)
        self._unstable.append(seqno)
        return True

    def stable(self, seqno: int) -> None:
        while self._unstable and self._unstable[0] <= seqno:
            self._unstable.popleft()

    def view_changed(self) -> None:
        """Begin a view: forward all undelivered batches again first (S11)."""
        self._unstable.clear()
        self.rewind()

    @property
    def undelivered(self) -> int:
        return len(self._undelivered)

    @property
    def unstable(self) -> int:
        """The number of own batches delivered here, but perhaps not everywhere."""
        return len(self._unstable)
