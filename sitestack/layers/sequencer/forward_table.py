"""The forward-table: own batches not delivered here ("Variables" in JGroups' SEQUENCER).

One ordered list in two parts: forwarded, waiting to be forwarded. So new batches never overtake
older ones that must be sent again (S2, S4).
"""

from __future__ import annotations

from collections import deque

from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope


class ForwardTable:
    """Own batches until they are delivered here; NAKACK keeps their frames until stability (S6, SEQ-3)."""

    def __init__(self, undelivered_bytes_max: int) -> None:
        self.bytes = Level(undelivered_bytes_max)
        #: Bounded by the window above, as `add` asserts.
        self._undelivered: dict[tuple[Scope, int], Batch] = {}
        #: The last of the undelivered batches.
        self._waiting: deque[Batch] = deque()

    def add(self, batch: Batch) -> None:
        size = len(batch.body)
        assert self.bytes.fits(size), "the layer above sends beyond every window (S18)"
        self.bytes.add(size)
        self._undelivered[batch.scope, batch.first] = batch
        self._waiting.append(batch)

    def next_to_forward(self) -> Batch | None:
        return self._waiting.popleft() if self._waiting else None

    def rewind(self) -> None:
        """Forward all undelivered batches again, before new ones (S11)."""
        self._waiting = deque(self._undelivered.values())

    def delivered(self, batch: Batch) -> bool:
        """Note the delivery of an own batch; return False if it was not in the table."""
        entry = self._undelivered.pop((batch.scope, batch.first), None)
        if entry is None:
            return False
        self.bytes.now -= len(entry.body)
        return True

    @property
    def undelivered(self) -> int:
        return len(self._undelivered)
