"""The journal's writer: one unbuffered `write` for each record, into segment files of bounded size.

Files are named `NAME-uuidprefix.000001.rlj`, are only ever appended to, and deleted whole (`relay/journal/retention.py`).
Written records survive the death of the process, but not of the machine: there is no fsync.

A full or read-only disk never stops the messages (B6): records that cannot be written are counted, `statistics()` tells
the error, and the journal tries again with a new segment, whose second record says how many records are missing.
`strict` raises instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from relay.journal.encoding import STANDING, Encoder, Header, encode_header
from relay.journal.retention import SUFFIX, Retention, Segment, file_stem, find_retired, retired_record, take
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.errors import LocalError

#: `Drop.why` of the record that says how many records are missing.
WHY_LOST = "journal"


class JournalError(LocalError):
    """The journal cannot be written (only `strict` journals raise it) or read; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Where and how a process keeps its journal."""

    directory: Path
    #: A segment that has grown to this many bytes is closed and the next one begun.
    segment_bytes: int = 64 << 20
    #: Keep the bodies of batches, not only their digests.
    keep_payloads: bool = False
    #: Raise JournalError when a record cannot be written, instead of going on without it.
    strict: bool = False
    #: After a failure, seconds by the records' own clock before the next attempt.
    retry_s: float = 1.0
    #: What may stay of the journals of this member, those of its earlier processes included; see `relay/journal/retention.py`.
    retention: Retention = field(default_factory=Retention)


@dataclass(slots=True)
class JournalStatistics:
    """The state of the journal, for health and metrics."""

    records: int = 0
    written_bytes: int = 0
    segments: int = 0
    #: Segments that retention has taken, of this process and of earlier ones of its name, and the last error of doing so.
    retired: int = 0
    retention_error: str = ""
    #: Records that could not be written since the start.
    lost_records: int = 0
    #: Why the last attempt failed; empty when it succeeded.
    error: str = ""


class SegmentFile(Protocol):
    """The part of an open file that the store uses; `write` may write less than it was given."""

    def write(self, data: bytes, /) -> int | None: ...
    def truncate(self, size: int, /) -> int: ...
    def close(self) -> None: ...


def create_file(path: Path) -> SegmentFile:
    """A new, unbuffered file in a directory that is made when needed. Raises OSError, also when the file exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "xb", buffering=0)


class JournalStore:
    """The journal of one process. Not made for several threads."""

    def __init__(
        self,
        options: JournalOptions,
        site: str,
        uuid: Address,
        name: str,
        create: Callable[[Path], SegmentFile] = create_file,
    ) -> None:
        """Nothing is opened before the first record. `create` makes a file, and is there to be replaced in tests."""
        self._options = options
        self._owner = (site, uuid, name)
        self._stem = f"{file_stem(name)}-{uuid.hex()[:8]}"
        self._create = create
        self._file: SegmentFile | None = None
        self._encoder = Encoder(options.keep_payloads)
        self._segment_bytes = 0
        self._segment_ns = options.retention.segment_ns
        #: When the segment was begun, and when closed ones were written last, by the records' wall clock (ns). As many as stay.
        self._began_w = 0
        self._written: dict[Path, int] = {}
        #: Segments that were deleted to make room, of which no record says so yet.
        self._untold: dict[Path, Segment] = {}
        #: The last record of each class that stays in force.
        self._standing: dict[type[records.Record], records.Record] = {}
        self._seen = JournalStatistics()
        self._lost_told = 0
        self._retry_at = 0

    def write(self, record: records.Record) -> None:
        """Append a record. Raises JournalError when it cannot and the journal is strict; otherwise counts it as lost."""
        if self._seen.error and record.t < self._retry_at and not self._options.strict:
            self._seen.lost_records += 1
            return
        try:
            self._append(record)
        except (OSError, ValueError) as error:
            self._fail(error, record)

    def close(self) -> None:
        """Close the segment. A later `write` begins a new one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    @property
    def error(self) -> str:
        """Why the last attempt to write failed; empty when it succeeded."""
        return self._seen.error

    @property
    def retention_error(self) -> str:
        """Why old segments could not be deleted the last time; empty when they could, or need not."""
        return self._seen.retention_error

    def statistics(self) -> JournalStatistics:
        """The state as it is now, for health and metrics."""
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
        is_old = record.w - self._began_w >= self._segment_ns
        if self._segment_bytes >= self._options.segment_bytes or is_old:
            self.close()
            if self._options.retention.is_limited:
                self._written[self._path(self._seen.segments)] = record.w

    def _open(self, record: records.Record) -> None:
        self._seen.segments += 1
        path = self._path(self._seen.segments)
        if self._seen.error:
            self._make_room(path, record)
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
            # The number is used again, unless the file stays.
            path.unlink(missing_ok=True)
            self._seen.segments -= 1
            raise
        self._began_w = record.w
        self._retire(path, record)

    def _path(self, number: int) -> Path:
        return self._options.directory / f"{self._stem}.{number:06d}{SUFFIX}"

    def _make_room(self, path: Path, record: records.Record) -> None:
        """Delete what may not stay before a record says so: on a disk that is full there may be no room for the record."""
        if not self._options.retention.is_limited:
            return
        try:
            retired = self._retirable(path, record)
            self._untold.update({segment.path: segment for segment in retired})
            self._take(retired)
        except OSError as error:
            self._seen.retention_error = str(error)

    def _retire(self, path: Path, record: records.Record) -> None:
        """Delete what may not stay, after a record that says so: who reads the rest must know that it is the rest."""
        if not self._options.retention.is_limited:
            return
        try:
            retired = self._retirable(path, record)
            if told := self._untold | {segment.path: segment for segment in retired}:
                self._put(self._encoder.encode(retired_record(record.t, record.w, told.values())))
                self._untold.clear()
                self._take(retired)
            self._seen.retention_error = ""
        except OSError as error:
            self._seen.retention_error = str(error)

    def _retirable(self, path: Path, record: records.Record) -> list[Segment]:
        site, _, name = self._owner
        limits, reserved = self._options.retention, self._options.segment_bytes
        return find_retired(limits, path, reserved, (site, name), self._written, record.w)

    def _take(self, retired: list[Segment]) -> None:
        self._seen.retired += take(retired)
        for segment in retired:
            self._written.pop(segment.path, None)

    def _put(self, frame: bytes) -> None:
        """Write a frame whole, or leave nothing of it and raise OSError."""
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
        """Count a record as lost and remember the reason."""
        self._seen.lost_records += 1
        self._seen.error = str(error) or type(error).__name__
        self._retry_at = record.t
        if isinstance(error, OSError):
            # Go on in a new segment, later: this one's encoder may have numbered what was never written.
            self._retry_at += int(self._options.retry_s * 1e9)
            with suppress(OSError):  # the descriptor is gone either way
                self.close()
        if self._options.strict:
            raise JournalError(f"journal in {self._options.directory}: {self._seen.error}") from error
