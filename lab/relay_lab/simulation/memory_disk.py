"""A disk for what a member spills that is in memory, and fails when it is told to."""

from __future__ import annotations

import errno


class MemoryDisk:
    """Segments by their numbers, each a list of records. An offset is a place in that list."""

    def __init__(self) -> None:
        self.segments: dict[int, list[bytes]] = {}
        #: Bytes that fit on it; None: any number.
        self.room: int | None = None
        #: Whether it gives nothing back.
        self.is_unreadable = False
        #: How many records were written, and read.
        self.written = self.given_back = 0

    def append(self, segment: int, record: bytes) -> int:
        """As `SpillDisk`."""
        if self.room is not None and self.used + len(record) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.segments.setdefault(segment, []).append(record)
        self.written += 1
        return len(record)

    def read(self, segment: int, offset: int) -> tuple[bytes, int]:
        """As `SpillDisk`."""
        records = self.segments.get(segment, [])
        if self.is_unreadable or offset >= len(records):
            raise OSError(errno.EIO, "Input/output error")
        self.given_back += 1
        return records[offset], offset + 1

    def drop(self, segment: int) -> None:
        """As `SpillDisk`."""
        self.segments.pop(segment, None)

    @property
    def used(self) -> int:
        """Bytes on it."""
        return sum(len(record) for records in self.segments.values() for record in records)
