"""The forward-table: what this member multicast and has not seen everywhere yet ("Variables" in JGroups' SEQUENCER).

It is one ordered list in three parts: batches that are delivered here but not stable, batches that are forwarded, and batches
that wait to be forwarded. `take` moves the border between the last two forwards, `rewind` moves it back, and so new batches
can never overtake older ones that must be sent again (S2, S4).
"""

from __future__ import annotations

from collections import deque

from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope

#: More delivered but unstable entries than this are not remembered: the oldest then counts as stable. It costs nothing but
#: the number in the levels, since a flush gives to all what one of them has delivered.
UNSTABLE_MAX = 65_536


class ForwardTable:
    """Entries leave when they are stable, or when a view comes after they were delivered here (S6; SEQ-3 gives way)."""

    def __init__(self, undelivered_bytes_max: int) -> None:
        self.bytes = Level(undelivered_bytes_max)
        #: In order of sending; bounded by the window of the layer that sends, which the assertion in `add` watches.
        self._undelivered: dict[tuple[Scope, int], Batch] = {}
        #: The last of them, which are still (or again) to be forwarded.
        self._waiting: deque[Batch] = deque()
        #: The places in the stream of what is delivered here. NAKACK holds the frames, and a flush takes them from there.
        self._unstable: deque[int] = deque(maxlen=UNSTABLE_MAX)

    def add(self, batch: Batch) -> None:
        """Put a batch of mine at the end."""
        size = len(batch.body)
        assert self.bytes.fits(size), "the layer above sends beyond every window (S18)"
        self.bytes.add(size)
        self._undelivered[batch.scope, batch.first] = batch
        self._waiting.append(batch)

    def take(self) -> Batch | None:
        """The next batch to forward, if any waits."""
        return self._waiting.popleft() if self._waiting else None

    def rewind(self) -> None:
        """Everything that is not delivered is to be forwarded again, in order."""
        self._waiting = deque(self._undelivered.values())

    def delivered(self, batch: Batch, seqno: int) -> bool:
        """A batch of mine was delivered here, at this place of the stream; False when it was not in the table."""
        entry = self._undelivered.pop((batch.scope, batch.first), None)
        if entry is None:
            return False
        self.bytes.now -= len(entry.body)
        self._unstable.append(seqno)
        return True

    def stable(self, seqno: int) -> None:
        """Every member has the stream up to here."""
        while self._unstable and self._unstable[0] <= seqno:
            self._unstable.popleft()

    def view_changed(self) -> None:
        """The flush gave to all what was delivered here. What was not is to be forwarded again before anything new (S11)."""
        self._unstable.clear()
        self.rewind()

    @property
    def undelivered(self) -> int:
        """How many batches of mine have not been delivered here."""
        return len(self._undelivered)

    @property
    def unstable(self) -> int:
        """How many batches of mine were delivered here, but perhaps not everywhere."""
        return len(self._unstable)
