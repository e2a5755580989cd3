"""Injector: queue of the entries that this relay puts into its site's stream.

The flush of a view change discards entries that no member delivered. So the injector keeps each entry until it comes back up,
and casts the rest again in order in the next view, if this member still coordinates.
"""

from __future__ import annotations

from collections import deque

from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.stack.layer import Down, Effect


class Injector:
    """Queue of stream entries. Bound: `Peering` closes a link that brings `waiting_bytes` above `waiting_bytes_max`."""

    def __init__(self, address: Address) -> None:
        self.waiting_bytes = self.waiting_bytes_high = 0
        self._address = address
        self._open = False
        #: Entries that were cast and have not come back through the stream.
        self._cast: deque[Frame] = deque()
        #: Entries to cast.
        self._queued: deque[Frame] = deque()

    def __len__(self) -> int:
        return len(self._cast) + len(self._queued)

    def cast(self, header: Header, batch: Batch | None = None) -> None:
        """RELAY's putOnLocalCluster(M): queue an entry for the stream."""
        self._queued.append(Frame(self._address, None, (header,), batch))
        if batch is not None:
            self.waiting_bytes += len(batch.body)
            self.waiting_bytes_high = max(self.waiting_bytes_high, self.waiting_bytes)

    def release(self) -> list[Effect]:
        """Return effects that cast all queued entries; none while a flush blocks the stream."""
        if not self._open or not self._queued:
            return []
        frames = list(self._queued)
        self._queued.clear()
        self._cast.extend(frames)
        return [Down(frame) for frame in frames]

    def delivered(self) -> None:
        """Drop the oldest cast entry, which has come back up."""
        if self._cast:
            frame = self._cast.popleft()
            if frame.batch is not None:
                self.waiting_bytes -= len(frame.batch.body)

    def block(self) -> None:
        """Only queue entries until the next view or `unblock`: a flush or a quarantine has begun."""
        self._open = False

    def unblock(self) -> None:
        """Continue to cast after a block without a flush. What was cast before is still on its way."""
        self._open = True

    def reopen(self, blocked: bool) -> None:
        """Begin a view that this member coordinates: cast first the entries that the old view did not deliver.

        `blocked`: the flush of the next view has begun already, so only queue.
        """
        self._open = not blocked
        self._queued.extendleft(reversed(self._cast))
        self._cast.clear()

    def close(self) -> None:
        """Drop all entries: this member does not relay. Other sites replay them to the next relay over its links."""
        self._open = False
        self._cast.clear()
        self._queued.clear()
        self.waiting_bytes = 0
