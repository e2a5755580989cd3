"""Spill: what the budget takes out of the buffer goes to this member's disk, until the other sites have it.

The Trim that takes it is an entry of the stream, so memory holds the same at every member. What is on disk is each member's
own: every member writes the same entries, from its first view on, and whoever relays reads back from its own disk. A disk that
fails, or a member that joined later, makes a gap only where that member relays; what the others have is theirs still.

Segments are written at the end, in records of many entries, and deleted whole, the oldest first. Known in memory is of each
segment which numbers it has, and nothing of single entries. What is lost becomes an exact gap: `budget` beyond the bounds of
the spill, `disk` where a segment could not be written or read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from relay.replica.config import SpillSettings
from relay.replica.gone import Gone, Run
from relay.replica.held_entries import Entry, HeldEntries, HeldEntry
from relay.replica.spill_record import SpillRecord, decode, encode
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.gap import GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId

#: Bytes of bodies in a record, which has one entry at least; so much is read at a time.
RECORD_BYTES = 256 * 1024
#: Bytes at which a segment is closed, or a sixteenth of the bound if that is less.
SEGMENT_BYTES = 64 * 1024 * 1024
#: A segment is also closed once it covers so large a part of the age, so that nothing stays much longer.
SEGMENTS_AN_AGE = 16


class SpillDisk(Protocol):
    """The files of one member, which nobody else has. Segments have numbers, which are not used again."""

    def append(self, segment: int, record: bytes) -> int:
        """Append a record to a segment, which begins with its first one; returns how many bytes that took.

        Raises OSError; then nothing of the record is read later, and nothing more is appended to this segment.
        """
        ...

    def read(self, segment: int, offset: int) -> tuple[bytes, int]:
        """The record that begins there, and where the next one begins. Raises OSError, also for one that is damaged."""
        ...

    def drop(self, segment: int) -> None:
        """Delete a segment, which may not be there."""
        ...


@dataclass(slots=True)
class Segment:
    """What is known of a segment. The entries have positions `first .. end - 1`, with holes where writing has failed."""

    number: int
    first: int
    #: The view in force before its first entry.
    base: View | None
    #: When its first entry was delivered here, and its last one (s).
    oldest: float
    newest: float = 0.0
    end: int = 0
    size: int = 0
    entries: int = 0
    messages: int = 0
    #: The runs of numbers in it, and the last one, per origin; the last view.
    runs: dict[Address, list[list[int]]] = field(default_factory=dict)
    lasts: dict[Address, int] = field(default_factory=dict)
    view: ViewId | None = None

    def is_within(self, origins: Mapping[Address, int], view: ViewId | None) -> bool:
        """Whether whoever has these numbers and this view has all that is in here."""
        if self.view is not None and (view is None or view < self.view):
            return False
        return all(origins.get(origin, 0) >= last for origin, last in self.lasts.items())

    def add(self, batch: Batch) -> None:
        """Note the numbers of a batch."""
        self.messages += batch.count
        self.lasts[batch.origin] = max(batch.last, self.lasts.get(batch.origin, 0))
        runs = self.runs.setdefault(batch.origin, [])
        if runs and runs[-1][1] + 1 == batch.first:
            runs[-1][1] = batch.last
        else:
            runs.append([batch.first, batch.last])


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of the spill a site lacks, in whole segments, and since when (s) the first of it is there."""

    entries: int
    messages: int
    size: int
    since: float


class Spill:
    """The segments of one member, the oldest first. Bound: `bytes` on disk; in memory the runs of each segment."""

    def __init__(self, config: SpillSettings, disk: SpillDisk, gone: Gone) -> None:
        """`gone` is told what is lost."""
        self.config = config
        self.level = Level(config.bytes)
        #: Why the disk did not take the last record; empty when it did.
        self.problem = ""
        #: Why a segment could not be read, the last one of which that is true; empty while there was none.
        self.damage = ""
        #: Messages that were dropped before all sites had them.
        self.lost = 0
        self._disk = disk
        self._gone = gone
        self._segments: list[Segment] = []
        #: Whether the last segment may be appended to.
        self._is_open = False
        self._number = 0
        self._segment_bytes = max(1, min(SEGMENT_BYTES, config.bytes // 16))
        self._segment_s = config.age_s / SEGMENTS_AN_AGE

    def __len__(self) -> int:
        return len(self._segments)

    # -- what goes in --------------------------------------------------------------------------------------------------

    def append(self, first: int, entries: Sequence[Entry], base: View | None) -> None:
        """Keep what the budget takes: entries from this position on; `base` is the view in force before the first one."""
        start = 0
        while start < len(entries):
            end, size = start, 0
            while end < len(entries) and (end == start or size < RECORD_BYTES):
                size += entries[end].size
                end += 1
            piece = entries[start:end]
            self._write(first + start, piece, base)
            for entry in piece:
                base = base if entry.view is None else entry.view
            start = end

    def _write(self, first: int, entries: Sequence[Entry], base: View | None) -> None:
        record = encode(SpillRecord(first, HeldEntries.of(entries)))
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
                self._gone.note_run(entry.batch.origin, Run(entry.batch.first, entry.batch.last), reason)

    # -- what goes away ------------------------------------------------------------------------------------------------

    def drop_while(self, covered: Callable[[Segment], bool]) -> None:
        """Drop segments from the front as long as they are `covered`: all sites have what is in them."""
        while self._segments and covered(self._segments[0]):
            self._discard(0)

    def clear(self) -> None:
        """Nothing is held for anybody any more."""
        self.drop_while(lambda _: True)

    def expire(self, now: float) -> None:
        """Drop what is too old."""
        while (due := self.deadline()) is not None and due <= now:
            self._drop(0, GapReason.BUDGET)

    def deadline(self) -> float | None:
        """When the oldest segment is too old (s)."""
        return self._segments[0].newest + self.config.age_s if self._segments else None

    def _drop(self, index: int, reason: GapReason) -> None:
        """Drop a segment that may be lacking somewhere, which becomes a gap there."""
        segment = self._segments[index]
        self.lost += segment.messages
        for origin, runs in segment.runs.items():
            for first, last in runs:
                self._gone.note_run(origin, Run(first, last), reason)
        self._discard(index)

    def _discard(self, index: int) -> None:
        if index == len(self._segments) - 1:
            self._is_open = False
        segment = self._segments.pop(index)
        self.level.now -= segment.size
        self._disk.drop(segment.number)

    # -- what is in it -------------------------------------------------------------------------------------------------

    def has_room(self, size: int) -> bool:
        """Whether this much more can be spilled without a loss, so far as one can tell."""
        return not self.problem and self.level.fits(size)

    def segment_from(self, position: int) -> Segment | None:
        """The first segment that has this position, or later ones."""
        index = bisect_right(self._segments, position, key=_end)
        return self._segments[index] if index < len(self._segments) else None

    def lacking(self, origins: Mapping[Address, int], view: ViewId | None) -> Segment | None:
        """The first segment of which something is lacking where there are these numbers and this view."""
        return next((each for each in self._segments if not each.is_within(origins, view)), None)

    def is_lacking(self, origins: Mapping[Address, int], view: ViewId | None) -> bool:
        """Whether something is lacking there: what was spilled last, which also is sent last."""
        return bool(self._segments) and not self._segments[-1].is_within(origins, view)

    def amount(self, origins: Mapping[Address, int], view: ViewId | None) -> Amount | None:
        """How much is lacking there; None when nothing is."""
        found = [each for each in self._segments if not each.is_within(origins, view)]
        if not found:
            return None
        entries, messages = sum(each.entries for each in found), sum(each.messages for each in found)
        return Amount(entries, messages, sum(each.size for each in found), found[0].oldest)

    def runs(self) -> dict[Address, list[Run]]:
        """The runs of numbers in all segments, per origin, in the order of writing."""
        found: dict[Address, list[Run]] = {}
        for segment in self._segments:
            for origin, runs in segment.runs.items():
                known = found.setdefault(origin, [])
                for first, last in runs:
                    if known and known[-1].last + 1 == first:
                        known[-1] = Run(known[-1].first, last)
                    else:
                        known.append(Run(first, last))
        return found

    def read(self, segment: Segment, offset: int) -> tuple[int, list[HeldEntry], int] | None:
        """A record: the position of its first entry, its entries, and where the next record begins.

        None when it cannot be read. Then the segment is dropped, because nothing behind this record can be found.
        """
        try:
            data, end = self._disk.read(segment.number, offset)
            record = decode(data)
        except (OSError, ProtocolError) as error:
            self.damage = str(error) or type(error).__name__
            self._drop(self._segments.index(segment), GapReason.DISK)
            return None
        return record.position, list(record.entries), end


def _end(segment: Segment) -> int:
    return segment.end
