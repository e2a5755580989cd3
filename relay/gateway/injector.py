"""Injector: the coordinator's way into its site's stream.

What is cast in a view and not delivered before its end is lost with it (the flush discards what nobody has delivered), so it is
kept until it comes back up, and cast again in order when the next view is installed and this member still coordinates.
"""

from __future__ import annotations

from collections import deque

from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.stack.layer import Down, Effect


class Injector:
    """Queue of stream entries. Bound: those who cast look at `waiting_bytes`; a link that fills it is closed."""

    def __init__(self, address: Address) -> None:
        self.waiting_bytes = self.waiting_bytes_high = 0
        self._address = address
        self._open = False
        #: Cast and not yet come back, then what still has to be cast.
        self._cast: deque[Frame] = deque()
        self._queued: deque[Frame] = deque()

    def __len__(self) -> int:
        return len(self._cast) + len(self._queued)

    def cast(self, header: Header, batch: Batch | None = None) -> None:
        """RELAY's putOnLocalCluster(M): put an entry into the stream, after those that wait already."""
        self._queued.append(Frame(self._address, None, (header,), batch))
        if batch is not None:
            self.waiting_bytes += len(batch.body)
            self.waiting_bytes_high = max(self.waiting_bytes_high, self.waiting_bytes)

    def take(self) -> list[Effect]:
        """Everything that may be cast now."""
        if not self._open or not self._queued:
            return []
        frames = list(self._queued)
        self._queued.clear()
        self._cast.extend(frames)
        return [Down(frame) for frame in frames]

    def delivered(self) -> None:
        """The oldest entry of mine has come back up."""
        if self._cast:
            frame = self._cast.popleft()
            if frame.batch is not None:
                self.waiting_bytes -= len(frame.batch.body)

    def block(self) -> None:
        """A flush has begun: only queue."""
        self._open = False

    def reopen(self, blocked: bool) -> None:
        """A view is installed and this member coordinates it: begin with what the old one swallowed."""
        self._open = not blocked
        self._queued.extendleft(reversed(self._cast))
        self._cast.clear()

    def close(self) -> None:
        """This member does not coordinate: whoever does has its own links, and their peers replay."""
        self._open = False
        self._cast.clear()
        self._queued.clear()
        self.waiting_bytes = 0
