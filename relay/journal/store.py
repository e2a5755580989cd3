"""The journal's writer: one unbuffered `write` per record, into segment files of bounded size.

Files `NAME-uuidprefix.000001.rlj` are append-only, and deleted whole
(`relay/journal/retention.py`). There is no fsync: records survive the death of the process, but not
of the machine.

A full or read-only disk never blocks messages (B6). Unwritten records are counted, and the journal
retries with a new segment, whose second record counts them. `strict` raises instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from relay.journal.encoding import STANDING, Encoder, Header, encode_header
from relay.journal.retention import SUFFIX, Retention, Segment, file_stem, find_retired, retired_record
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.errors import LocalError, Unwritten

#: `Drop.why` of the record that counts missing records.
WHY_LOST = "journal"


class JournalError(LocalError):
    """An unreadable journal; the text names file and reason."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """The location and limits of a process's journal."""

    directory: Path
    #: Size (bytes) at which a segment is closed.
    segment_bytes: int = 64 << 20
    #: Keep the bodies of batches, besides their digests.
    keep_payloads: bool = False
    #: Raise Unwritten if a record cannot be written, instead of counting it as lost.
    strict: bool = False
    #: Time (s) before the next attempt after a failure, by the records' own clock.
    retry_s: float = 1.0
    #: Limits for the journals of this member, including those of its earlier processes.
    retention: Retention = field(default_factory=Retention)


@dataclass(slots=True)
class JournalStatistics:
    records: int = 0
    written_bytes: int = 0
    segments: int = 0
    #: Segments deleted by retention, also of earlier processes, and the last error of a deletion.
    retired: int = 0
    retention_error: str = ""
    #: Records not written since the start.
    lost_records: int = 0
    #: The error of the last attempt; empty if it succeeded.
    error: str = ""


class SegmentFile(Protocol):
    """The used part of an open file; `write` may write less than given."""

    def write(self, data: bytes, /) -> int | None: ...
    def truncate(self, size: int, /) -> int: ...
    def close(self) -> None: ...


def create_file(path: Path) -> SegmentFile:
    """Create an unbuffered file and its directory. Raises OSError, also if the file exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Truncating a short record does not move the position.
    return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_APPEND, 0o666))


class JournalStore:
    """The journal of one process. Not thread-safe."""

    def __init__(
        self,
        options: JournalOptions,
        site: str,
        uuid: Address,
        name: str,
        create: Callable[[Path], SegmentFile] = create_file,
    ) -> None:
        """The first record opens the file, with `create`, which tests replace."""
        self._options = options
        self._owner = (site, uuid, name)
        self._stem = f"{file_stem(name)}-{uuid.hex()[:8]}"
        self._create = create
        self._file: SegmentFile | None = None
        self._encoder = Encoder(options.keep_payloads)
        self._segment_bytes = 0
        self._segment_ns = options.retention.segment_ns
        #: Wall clock (ns) of the segment's begin, and of the last record of each remaining closed
        #: segment.
        self._began_w = 0
        self._written: dict[Path, int] = {}
        #: Segments deleted to make room, not yet mentioned in a record.
        self._untold: dict[Path, Segment] = {}
        #: The last record of each class that remains in force.
        self._standing: dict[type[records.Record], records.Record] = {}
        self._seen = JournalStatistics()
        self._lost_told = 0
        self._retry_at = 0

    def write(self, record: records.Record) -> None:
        """Append a record. On failure raise Unwritten if strict, else count it as lost."""
        if self._seen.error and record.t < self._retry_at and not self._options.strict:
            self._seen.lost_records += 1
            return
        try:
            self._append(record)
        except (OSError, ValueError) as error:
            self._fail(error, record)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def statistics(self) -> JournalStatistics:
        return replace(self._seen)

    def _append(self, record: records.Record) -> None:
        if self._file is None:
            self._open(record)
        if self._seen.lost_records > self._lost_told:
            lost = self._seen.lost_records - self._lost_told
            self._put(self._encoder.encode(records.Drop(record.t, record.w, WHY_LOST, self._seen.error, lost)))
            self._lost_told += lost
        self._put(self._encoder.encode(record))
        if isinstance(record, STANDING):
            self._standing[type(record)] = record
        self._seen.records += 1
        self._seen.error = ""
        is_old = abs(record.w - self._began_w) >= self._segment_ns
        if self._segment_bytes >= self._options.segment_bytes or is_old:
            self.close()
            if self._options.retention.is_limited:
                self._written[self._path(self._seen.segments)] = record.w

    def _open(self, record: records.Record) -> None:
        self._seen.segments += 1
        path = self._path(self._seen.segments)
        if self._seen.error:
            self._retire(path, record, in_need=True)
        try:
            self._file = self._create(path)
        except OSError:
            self._seen.segments -= 1
            raise
        self._encoder, self._segment_bytes = Encoder(self._options.keep_payloads), 0
        try:
            self._put(encode_header(Header(*self._owner, self._seen.segments)))
            for standing in self._standing.values():
                self._put(self._encoder.repeat(standing))
        except OSError:
            # Reuse the number, unless the file stays.
            path.unlink(missing_ok=True)
            self._seen.segments -= 1
            raise
        self._began_w = record.w
        self._retire(path, record)

    def _path(self, number: int) -> Path:
        return self._options.directory / f"{self._stem}.{number:06d}{SUFFIX}"

    def _retire(self, path: Path, record: records.Record, *, in_need: bool = False) -> None:
        """Record and then delete old segments, so that readers know of the deletion.

        `in_need`: record it later, as a full disk may have no room for the record.
        """
        limits, (site, _, name) = self._options.retention, self._owner
        if not limits.is_limited:
            return
        try:
            retired = find_retired(limits, path, self._options.segment_bytes, (site, name), self._written, record.w)
            told = self._untold | {segment.path: segment for segment in retired}
            if in_need:
                self._untold = told
            elif told:
                self._put(self._encoder.encode(retired_record(record.t, record.w, told.values())))
                self._untold = {}
            for segment in retired:
                segment.path.unlink(missing_ok=True)
                self._written.pop(segment.path, None)
                self._seen.retired += 1
            if not in_need:
                self._seen.retention_error = ""
        except OSError as error:
            self._seen.retention_error = str(error)

    def _put(self, frame: bytes) -> None:
        """Write a whole frame, or nothing and raise OSError."""
        assert self._file is not None
        try:
            written = self._file.write(frame)
            if written != len(frame):
                raise OSError(f"{written} of {len(frame)} bytes written")
        except OSError:
            self._file.truncate(self._segment_bytes)
            raise
        self._segment_bytes += len(frame)
        self._seen.written_bytes += len(frame)

    def _fail(self, error: Exception, record: records.Record) -> None:
        self._seen.lost_records += 1
        self._seen.error = str(error) or type(error).__name__
        self._retry_at = record.t
        if isinstance(error, OSError):
            # Continue in a new segment, since this encoder may have numbered unwritten vectors.
            self._retry_at += int(self._options.retry_s * 1e9)
            with suppress(OSError):  # the descriptor is closed either way
                self.close()
        if self._options.strict:
            raise Unwritten(f"journal in {self._options.directory}: {self._seen.error}") from error
