"""Content checks of a benchmark's members: a rate counts only if the delivered messages are right."""

from __future__ import annotations

from sitestack.model.gap import Gap
from sitestack.model.message import Batch

#: The payloads of a benchmark end with as many of these as fit behind the time stamp.
FILLER = b"\xa5"
_SIZE_BYTES = 4


class Content:
    """Counts batches with a wrong sequence number or wrong bytes. Costs a microsecond a batch."""

    def __init__(self, stamp_bytes: int) -> None:
        self._stamp_bytes = stamp_bytes
        self._next: dict[tuple[bytes, object], int] = {}
        self.wrong = 0
        #: Messages that were declared lost, as when a member was left out on an overloaded machine.
        self.missed = 0

    def take(self, batch: Batch) -> None:
        """Look at a batch; the first one of an origin begins anywhere, since a member may join late."""
        key = (batch.origin, batch.scope)
        size, rest = divmod(len(batch.body), batch.count)
        filled = size - _SIZE_BYTES - self._stamp_bytes
        follows = self._next.get(key, batch.first) == batch.first
        if not follows or rest or filled < 0 or not batch.body.endswith(FILLER * filled):
            self.wrong += 1
        self._next[key] = batch.last + 1

    def skip(self, gap: Gap) -> None:
        key = (gap.origin, gap.scope)
        awaited = self._next.get(key, gap.first)
        self.wrong += gap.first > awaited
        self.missed += gap.last - gap.first + 1
        self._next[key] = max(awaited, gap.last + 1)
