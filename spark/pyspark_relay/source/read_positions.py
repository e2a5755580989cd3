"""Positions in growing journals, and the parts between two positions.

A position only moves over whole records. An incomplete record may still be growing; it counts as
torn, a problem, once the journal has a later segment.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pyspark_relay.source.reading import SegmentPartition
from pyspark_relay.source.retired import Owner, tell_of_retention
from pyspark_relay.source.selection import Selection
from relay.journal import JournalError, Problem
from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, Header
from relay.journal.reader import copy_of, read_header, segment_files, wall_ns_at

#: An offset at which the rest of the segment is unreadable.
BROKEN = -1
#: Bytes of one read, enough for thousands of records.
_BLOCK_BYTES = 1 << 20


class ReadPosition(NamedTuple):
    """The next segment and byte to read."""

    segment: int
    offset: int


#: The position of a reported stray file, or of the mark of a reported journal.
REPORTED = ReadPosition(0, BROKEN)
#: That of the mark of a journal that vanished after it was read.
FINISHED = ReadPosition(0, -2)
#: Ends the key of a vanished journal's mark.
GONE = " gone"


@dataclass(slots=True)
class Journals:
    #: uuid in hex -> number of the segment -> file.
    segments: dict[str, dict[int, Path]] = field(default_factory=dict)
    #: Path of a file without a known journal, or of a duplicate segment -> its problem.
    strays: dict[str, Problem] = field(default_factory=dict)
    #: uuid in hex -> owner of the journal, also of vanished journals.
    owners: Mapping[str, Owner] = field(default_factory=dict)
    #: Whether a journal in the offset has vanished.
    has_lost: bool = False

    def is_restart(self, uuid: str) -> bool:
        if self.has_lost:
            return True
        own = self.owners[uuid][:2]
        begins = {each: _begin(segments) for each, segments in self.segments.items() if self.owners[each][:2] == own}
        return begins[uuid] > min(begins.values())

    def finished(self, places: Mapping[str, ReadPosition]) -> set[str]:
        """Return the completely read journals that have a successor at their node."""
        begins = {uuid: _begin(segments) for uuid, segments in self.segments.items()}
        newest: dict[tuple[str, ...], int] = {}
        for uuid, begin in begins.items():
            newest[self.owners[uuid][:2]] = max(begin, newest.get(self.owners[uuid][:2], 0))
        old = [uuid for uuid, begin in begins.items() if uuid in places and begin < newest[self.owners[uuid][:2]]]
        return {uuid for uuid in old if _is_at_end(self.segments[uuid], places[uuid])}

    def lost_to_retention(self, uuid: str) -> bool:
        """Return whether retention may have deleted the beginning of this journal."""
        owner = self.owners.get(uuid)
        if owner is None:
            return False
        own = [segments for each, segments in self.segments.items() if self.owners[each][:2] == owner[:2]]
        return tell_of_retention(file for segments in own for _, file in sorted(segments.items(), reverse=True))


def _begin(segments: Mapping[int, Path]) -> int:
    """Return the wall clock (ns) at which a journal begins."""
    return wall_ns_at(segments[min(segments)], 0) or 0


class Finder:
    """Finds segment files under paths. Reads every header once."""

    def __init__(self, paths: list[Path], selection: Selection, *, grows: bool = True) -> None:
        """`grows`: the paths need not exist yet, and a file with an incomplete header is ignored for now."""
        self.paths = paths
        self.selection = selection
        self.grows = grows
        self.headers: dict[Path, Header] = {}
        #: Bounded by the number of journals in the offset.
        self.owners: dict[str, Owner] = {}

    def find(self) -> Journals:
        """Return the selected journals. Raises JournalError for a missing path, unless they grow."""
        found = Journals(owners=self.owners)
        files = [file for path in self.paths for file in _files(path)] if self.grows else segment_files(self.paths)
        present = set(files)
        self.headers = {file: header for file, header in self.headers.items() if file in present}
        for file in files:
            problems: list[Problem] = []
            header = self.headers.get(file) or read_header(file, problems)
            if header is None:
                if not self.grows or (problems[-1].kind != "torn" and file.exists()):
                    found.strays[str(file)] = problems[-1]
                continue
            self.headers[file] = header
            uuid = header.uuid.hex()
            if not self.selection.has_journal(header.site, header.name):
                continue
            self.owners.setdefault(uuid, Owner(header.site, header.name, uuid))
            first = found.segments.setdefault(uuid, {}).setdefault(header.number, file)
            if first.resolve() != file.resolve():
                found.strays[str(file)] = copy_of(first, file, header)
        self.selection.require_one_node(self.owners[uuid][:2] for uuid in found.segments)
        return found


def _files(path: Path) -> list[Path]:
    with suppress(JournalError, FileNotFoundError):
        return segment_files([path])
    return []


def step(segments: Mapping[int, Path], place: ReadPosition, bytes_max: int | None) -> ReadPosition:
    """Advance by about `bytes_max` of whole records, or to the next segment."""
    later = min((number for number in segments if number > place.segment), default=None)
    file = segments.get(place.segment)
    if file is not None and place.offset != BROKEN:
        with suppress(OSError):  # `parts` reports a deleted or unreadable file
            offset, is_broken = walk(file, place.offset, bytes_max)
            if offset > place.offset:
                return ReadPosition(place.segment, offset)
            if is_broken and later is None:
                return ReadPosition(place.segment, BROKEN)
    return place if later is None else ReadPosition(later, 0)


def clock_at(segments: Mapping[int, Path], place: ReadPosition) -> int:
    """Return the wall clock (ns) of the next record; 0 if there is none yet."""
    file = segments.get(place.segment)
    return 0 if file is None or place.offset == BROKEN else wall_ns_at(file, place.offset) or 0


def _is_at_end(segments: Mapping[int, Path], place: ReadPosition) -> bool:
    if place.segment != max(segments) or place.offset == BROKEN:
        return place.segment == max(segments)
    with suppress(OSError):
        return walk(segments[place.segment], place.offset, 1).offset == place.offset
    return False


def lost_journal(mark: str, journals: Journals, start: Mapping[str, Mapping[str, int]]) -> Problem:
    uuid = mark.removesuffix(GONE)
    segment, offset = ReadPosition(**start.get(uuid, {"segment": 0, "offset": 0}))
    read = f"segment {segment}" if offset == BROKEN else f"byte {offset} of segment {segment}"
    what = f"this journal is not there any more; it was read up to {read}, and later records are lost"
    return Problem(Path(uuid), 0, "retired" if journals.lost_to_retention(uuid) else "missing", what)


def parts(uuid: str, journals: Journals, since: ReadPosition, until: ReadPosition) -> Iterator[SegmentPartition]:
    """Yield the parts between two positions. A missing segment is a problem unless retired."""
    segments, owner = journals.segments.get(uuid, {}), journals.owners.get(uuid)
    first = min(segments, default=until.segment + 1)
    expected = max(since.segment, 1)

    def missing(before: int, what: str) -> SegmentPartition:
        read = f" (read up to byte {since.offset})" if expected == since.segment and since.offset > 0 else ""
        told = f"segment {expected} of this journal is not there any more{read}; {what}"
        is_retired = before <= first and journals.lost_to_retention(uuid)
        problem = Problem(Path(uuid), 0, "retired" if is_retired else "missing", told)
        return SegmentPartition(problem.file, problems=(problem,), owner=owner, number=before)

    for number in sorted(number for number in segments if since.segment <= number <= until.segment):
        if number > expected:
            yield missing(number, f"the next is {number}")
        expected = number + 1
        begin = since.offset if number == since.segment else 0
        end = until.offset if number == until.segment and until.offset != BROKEN else None
        if begin not in (BROKEN, end):
            is_restart = begin == 0 and number == first and journals.is_restart(uuid)
            yield SegmentPartition(segments[number], begin, end, is_restart=is_restart, owner=owner, number=number)
    if until.segment >= expected:
        yield missing(until.segment + 1, f"it was to be read up to segment {until.segment}")


class Walk(NamedTuple):
    """The extent of whole records: the next record begins at `offset`."""

    offset: int
    #: The length of the next record is corrupt; the rest of the file is unreadable.
    is_broken: bool


def walk(file: Path, start: int, budget_bytes: int | None = None) -> Walk:
    """Step over all whole records from `start`, or over at least `budget_bytes` of them.

    Raises OSError.
    """
    unpack, crc32, head = FRAME.unpack_from, zlib.crc32, FRAME.size
    offset = start
    with open(file, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stop = size if budget_bytes is None else min(size, start + budget_bytes)
        while offset < stop:
            stream.seek(offset)
            data = stream.read(min(_BLOCK_BYTES, size - offset))
            at = 0
            while at + head <= len(data) and offset + at < stop:
                length, check, _ = unpack(data, at)
                if check != crc32(data[at : at + 4]) or length > RECORD_BYTES_MAX:
                    return Walk(offset + at, True)
                if offset + at + head + length > size:
                    return Walk(offset + at, False)
                at += head + length
            if at == 0:
                break
            offset += at
    return Walk(offset, False)
