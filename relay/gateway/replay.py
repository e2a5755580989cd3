"""Replay: reads what was spilled back for one link, a record at a time, in the order of the stream."""

from __future__ import annotations

from relay.replica.buffer import Buffer
from relay.replica.entries import SiteVector
from relay.replica.held_entries import HeldEntry
from relay.replica.spill import Spill


class Replay:
    """A place in the spill. Bound: one record, whose bodies are `RECORD_BYTES`, or one body."""

    def __init__(self, buffer: Buffer, spill: Spill) -> None:
        self._buffer = buffer
        self._spill = spill
        #: The record that was read last: the position of its first entry, and its entries.
        self._first = 0
        self._entries: list[HeldEntry] = []
        #: The segment that it is from, and where the next record begins there.
        self._segment = 0
        self._offset = 0

    def start(self, vector: SiteVector) -> int:
        """The position from which on to look for what a peer with this vector lacks."""
        segment = self._spill.lacking(vector.origins, vector.view)
        return self._buffer.first if segment is None else segment.first

    def entry_from(self, position: int) -> tuple[int, HeldEntry | None]:
        """The first entry at or after a position, which memory has no more, with its position.

        None, with the position at which memory begins, when the disk has no such entry.
        """
        while not self._first <= position < self._first + len(self._entries):
            segment = self._spill.segment_from(position)
            if segment is None:
                return self._buffer.first, None
            if segment.number != self._segment or position < self._first:
                self._segment, self._offset = segment.number, 0
            found = self._spill.read(segment, self._offset)
            if found is None:
                continue  # the segment is gone
            self._first, self._entries, self._offset = found
            position = max(position, self._first)
        return position, self._entries[position - self._first]
