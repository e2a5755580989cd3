"""Spill: trimmed entries of the buffer go to this member's disk, until the other sites have them.

Every member writes the same entries from its first view on, and a relay reads its own disk. So a
failed disk, or a late joiner, causes gaps only where that member relays. Segments are appended to
in records, and deleted whole, the oldest first. Lost entries become exact gaps: `budget` beyond the
spill's bounds, `disk` where a segment could not be written or read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from relay.replica.config import SpillSettings
from relay.replica.gone import Gone, HeldNumbers, Run
from relay.replica.held_entries import Entry, HeldEntries, HeldEntry
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import Codec

#: Bytes of bodies in a record, the unit of reading; or half of the bound if that is less.
RECORD_BYTES = 256 * 1024
#: Bytes at which a segment is closed, or a sixteenth of the bound if that is less.
SEGMENT_BYTES = 64 * 1024 * 1024
#: Part of the maximum age after which a segment is closed.
SEGMENTS_AN_AGE = 16


@dataclass(frozen=True, slots=True)
class SpillRecord(Header):
    """Consecutive entries of the buffer, in columns; `position` is that of the first."""

    position: int
    entries: HeldEntries


_CODEC = Codec("", {0: SpillRecord})


class SpillDisk(Protocol):
    """The private files of one member. Segment numbers are not reused."""

    def append(self, segment: int, record: bytes) -> int:
        """Append a record to a segment, creating it if new; return the bytes used.

        Raises OSError; then the segment gets no more records.
        """
        ...

    def read(self, segment: int, offset: int) -> tuple[bytes, int]:
        """Return the record at an offset, and the next offset.

        Raises OSError, also for a damaged record, and BlockingIOError if it can be read later.
        """
        ...

    def drop(self, segment: int) -> None: ...


@dataclass(slots=True)
class Segment:
    """Index of a segment, with holes where writing failed."""

    number: int
    first: int
    base: View | None
    #: Delivery times here of its first and its last entry (s).
    oldest: float
    newest: float = 0.0
    end: int = 0
    size: int = 0
    entries: int = 0
    messages: int = 0
    numbers: HeldNumbers = field(default_factory=HeldNumbers)
    lasts: dict[Address, int] = field(default_factory=dict)
    view: ViewId | None = None

    def is_within(self, origins: Mapping[Address, int], view: ViewId | None) -> bool:
        """Return whether a site with these numbers and this view has the whole segment."""
        if self.view is not None and (view is None or view < self.view):
            return False
        return all(origins.get(origin, 0) >= last for origin, last in self.lasts.items())

    def add(self, batch: Batch) -> None:
        self.messages += batch.count
        self.lasts[batch.origin] = max(batch.last, self.lasts.get(batch.origin, 0))
        self.numbers.append(batch)


@dataclass(frozen=True, slots=True)
class Amount:
    """The part of the spill that a site lacks, in whole segments; `since`: time (s) of its first entry."""

    entries: int
    messages: int
    size: int
    since: float


class Spill:
    """The segments of one member, the oldest first.

    Bound: `bytes` on disk; in memory each segment's runs.
    """

    def __init__(self, config: SpillSettings, disk: SpillDisk, gone: Gone) -> None:
        self.config = config
        self.level = Level(config.bytes)
        self.problem = ""
        self.damage = ""
        self.lost = 0
        self._disk = disk
        self._gone = gone
        self._segments: list[Segment] = []
        self._is_open = False
        self._number = 0
        self._segment_bytes = max(1, min(SEGMENT_BYTES, config.bytes // 16))
        self._record_bytes = min(RECORD_BYTES, config.bytes // 2)
        self._segment_s = config.age_s / SEGMENTS_AN_AGE

    def __len__(self) -> int:
        return len(self._segments)

    def append(self, first: int, entries: Sequence[Entry], base: View | None) -> None:
        """Store trimmed entries from this position on; `base`: the view in force before the first one."""
        start = 0
        while start < len(entries):
            end, size = start, 0
            while end < len(entries) and (end == start or size < self._record_bytes):
                size += entries[end].size
                end += 1
            piece = entries[start:end]
            self._write(first + start, piece, base)
            for entry in piece:
                base = base if entry.view is None else entry.view
            start = end

    def _write(self, first: int, entries: Sequence[Entry], base: View | None) -> None:
        record = _CODEC.pack(SpillRecord(first, HeldEntries.of(entries)))
        while self._segments and not self.level.fits(len(record)):
            self._drop(0, GapReason.BUDGET)
        if not self.level.fits(len(record)):
            self._lose(entries, GapReason.BUDGET)
            return
        segment = self._open_segment(first, entries[0].since, base)
        try:
            size = self._disk.append(segment.number, record)
        except OSError as error:
            self.problem = str(error) or type(error).__name__
            self._is_open = False
            if not segment.entries:
                self._discard(len(self._segments) - 1)
            self._lose(entries, GapReason.DISK)
            return
        self.problem = ""
        self.level.add(size)
        segment.size += size
        segment.end, segment.newest = first + len(entries), entries[-1].since
        segment.entries += len(entries)
        for entry in entries:
            if entry.batch is not None:
                segment.add(entry.batch)
            elif entry.view is not None:
                segment.view = entry.view.id

    def _open_segment(self, first: int, since: float, base: View | None) -> Segment:
        if self._segments and self._is_open:
            last = self._segments[-1]
            if last.size < self._segment_bytes and since < last.oldest + self._segment_s:
                return last
        self._number += 1
        self._is_open = True
        self._segments.append(Segment(self._number, first, base, since))
        return self._segments[-1]

    def _lose(self, entries: Sequence[Entry], reason: GapReason) -> None:
        for entry in entries:
            if entry.batch is not None:
                self.lost += entry.batch.count
                self._gone.note(entry.batch.origin, Run(entry.batch.first, entry.batch.last), reason)

    def drop_while(self, covered: Callable[[Segment], bool]) -> None:
        while self._segments and covered(self._segments[0]):
            self._discard(0)

    def clear(self) -> None:
        self.drop_while(lambda _: True)

    def expire(self, now: float) -> None:
        while (due := self.deadline()) is not None and due <= now:
            self._drop(0, GapReason.BUDGET)

    def deadline(self) -> float | None:
        return self._segments[0].newest + self.config.age_s if self._segments else None

    def _drop(self, index: int, reason: GapReason) -> None:
        """Drop a segment that a site may lack, where it becomes a gap."""
        segment = self._segments[index]
        self.lost += segment.messages
        for origin, runs in segment.numbers.runs().items():
            for run in runs:
                self._gone.note(origin, run, reason)
        self._discard(index)

    def _discard(self, index: int) -> None:
        if index == len(self._segments) - 1:
            self._is_open = False
        segment = self._segments.pop(index)
        self.level.now -= segment.size
        self._disk.drop(segment.number)

    def has_room(self, size: int) -> bool:
        """Return whether this many more bytes can probably be spilled without a loss."""
        return not self.problem and self.level.fits(size)

    def segment_from(self, position: int) -> Segment | None:
        """Return the first segment with this position or later ones."""
        index = bisect_right(self._segments, position, key=_end)
        return self._segments[index] if index < len(self._segments) else None

    def lacking(self, origins: Mapping[Address, int], view: ViewId | None) -> Segment | None:
        """Return the first segment that a site with these numbers and this view lacks in part."""
        return next((each for each in self._segments if not each.is_within(origins, view)), None)

    def is_lacking(self, origins: Mapping[Address, int], view: ViewId | None) -> bool:
        return bool(self._segments) and not self._segments[-1].is_within(origins, view)

    def amount(self, origins: Mapping[Address, int], view: ViewId | None) -> Amount | None:
        found = [each for each in self._segments if not each.is_within(origins, view)]
        if not found:
            return None
        entries, messages = sum(each.entries for each in found), sum(each.messages for each in found)
        return Amount(entries, messages, sum(each.size for each in found), found[0].oldest)

    def runs(self) -> dict[Address, list[Run]]:
        """Return the runs of all segments, per origin, in the order of writing."""
        found: dict[Address, list[Run]] = {}
        for segment in self._segments:
            for origin, runs in segment.numbers.runs().items():
                found.setdefault(origin, []).extend(runs)
        return found

    def read(self, segment: Segment, offset: int) -> tuple[int, list[HeldEntry], int] | None:
        """Return a record: its first position, its entries, and the next offset.

        For an unreadable record return None and drop the segment, since its later records cannot be
        found. Raises BlockingIOError if it can be read later.
        """
        try:
            data, end = self._disk.read(segment.number, offset)
            record = _parse(data)
        except BlockingIOError:
            raise
        except (OSError, ProtocolError) as error:
            self.damage = str(error) or type(error).__name__
            self._drop(self._segments.index(segment), GapReason.DISK)
            return None
        return record.position, list(record.entries), end


def _end(segment: Segment) -> int:
    return segment.end


def _parse(data: bytes) -> SpillRecord:
    """Parse a record. Raises ProtocolError."""
    record = _CODEC.parse(data)
    assert isinstance(record, SpillRecord), "no other header has an id here"
    return record
