"""Injector: queue of the entries that this relay puts into its site's stream.

A view change discards undelivered entries, so each is kept until it is delivered here. In the next
view the rest is cast again in order, if this member still coordinates.
"""

from __future__ import annotations

from collections import deque
from dataclasses import fields, is_dataclass

from relay.replica.entries import Relayed
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.stack.layer import Down, Effect

#: Bytes of a waiting entry besides its contents: its objects and its place in the queue.
ENTRY_BYTES = 256
#: Bytes of an element that is no text.
ELEMENT_BYTES = 32
_text_bytes = str.__sizeof__


def entry_bytes(header: Header, batch: Batch | None) -> int:
    """Return an estimate of an entry's bytes of memory."""
    size = ENTRY_BYTES if batch is None else ENTRY_BYTES + len(batch.body)
    if isinstance(header, Relayed):
        return size + sum(map(_text_bytes, header.visited))
    return size + _bytes(header)


def _bytes(value: object) -> int:
    if isinstance(value, str):
        return _text_bytes(value)
    if isinstance(value, dict):
        return sum(_bytes(each) for each in value.values())
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    if is_dataclass(value):
        return sum(_bytes(getattr(value, field.name)) for field in fields(value))
    return ELEMENT_BYTES


class Injector:
    """Queue of stream entries. Bound: `Peering` closes links above `waiting_bytes_max`."""

    def __init__(self, address: Address) -> None:
        self.waiting_bytes = self.waiting_bytes_high = 0
        self._address = address
        #: False: only queue entries, as in a flush or a quarantine.
        self.is_open = False
        self._cast: deque[Frame] = deque()
        self._queued: deque[Frame] = deque()
        #: Sizes of the entries in `_cast`, then in `_queued`.
        self._sizes: deque[int] = deque()

    def cast(self, header: Header, batch: Batch | None = None) -> None:
        """RELAY's putOnLocalCluster(M): queue an entry for the stream."""
        self._queued.append(Frame(self._address, None, (header,), batch))
        size = entry_bytes(header, batch)
        self._sizes.append(size)
        self.waiting_bytes += size
        self.waiting_bytes_high = max(self.waiting_bytes_high, self.waiting_bytes)

    def release(self) -> list[Effect]:
        if not self.is_open or not self._queued:
            return []
        frames = list(self._queued)
        self._queued.clear()
        self._cast.extend(frames)
        return [Down(frame) for frame in frames]

    def delivered(self) -> None:
        if self._cast:
            self._cast.popleft()
            self.waiting_bytes -= self._sizes.popleft()

    def reopen(self, blocked: bool) -> None:
        """Begin a view that this member coordinates: cast undelivered entries again.

        `blocked`: the flush of the next view has begun already, so only queue.
        """
        self.is_open = not blocked
        self._queued.extendleft(reversed(self._cast))
        self._cast.clear()

    def close(self) -> None:
        """Drop all entries, which other sites replay to the next relay."""
        self.is_open = False
        self._cast.clear()
        self._queued.clear()
        self._sizes.clear()
        self.waiting_bytes = 0
