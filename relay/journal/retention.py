"""What stays of a member's journals: segments are deleted whole, the oldest first, by bytes and by age.

A journal is a record, not a log that anything is sent again from, so deleting it harms no message. But whoever reads what
is left must not take the missing beginning for a loss: before segments are deleted, a record says so and until when (wall
clock) they reached, in the segment that was begun last, which goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, decode_header
from sitestack.journal import records
from sitestack.model.errors import ProtocolError

SUFFIX = ".rlj"
#: `Drop.why` of the record that says that segments were deleted. Its `source` is until when they reached, in ns.
WHY_RETIRED = "retention"
#: The longest member name in a file name: file systems allow 255 bytes, of which uuid, number and suffix take 21.
_NAME_BYTES_MAX = 200
#: With a limit to the age a segment is closed after this part of it, so that nothing stays much longer.
_SEGMENTS_AN_AGE = 8
#: Longer than a process lives, in ns.
_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits; None: there is none."""

    bytes_max: int | None = None
    age_s_max: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether anything is ever deleted."""
        return self.bytes_max is not None or self.age_s_max is not None

    @property
    def segment_ns(self) -> int:
        """How long a segment may be written, in ns."""
        return _NEVER_NS if self.age_s_max is None else int(self.age_s_max * 1e9) // _SEGMENTS_AN_AGE


class Segment(NamedTuple):
    """A closed segment file. Segments order by when they were written last (ns)."""

    written_ns: int
    path: Path
    size: int


def file_stem(name: str) -> str:
    """How the names of a member's segment files begin."""
    return quote(name, safe="", errors="replace")[:_NAME_BYTES_MAX]


def find_retired(
    limits: Retention, current: Path, reserved: int, owner: tuple[str, str], written: Mapping[Path, int], now_ns: int
) -> list[Segment]:
    """The segments of a member that may not stay, the oldest first. Raises OSError.

    Looked for are those of all its processes in the directory of the `current` segment, which stays and may grow to `reserved`
    bytes. `owner`: the site and the name; members of other sites may be called so too. `written`: when the last record was
    written of segments that this process has closed itself; of others the file system knows.
    """
    closed = []
    for path in current.parent.glob(f"{_literal(file_stem(owner[1]))}-*{SUFFIX}"):
        if path != current and _is_of(path, owner):
            stat = path.stat()
            closed.append(Segment(written.get(path, stat.st_mtime_ns), path, stat.st_size))
    total = reserved + sum(each.size for each in closed)
    retired = []
    for segment in sorted(closed):
        is_old = limits.age_s_max is not None and now_ns - segment.written_ns > limits.age_s_max * 1e9
        if not is_old and (limits.bytes_max is None or total <= limits.bytes_max):
            break
        total -= segment.size
        retired.append(segment)
    return retired


def retired_record(t: int, w: int, retired: Iterable[Segment]) -> records.Record:
    """What is written before these segments are deleted."""
    times = [each.written_ns for each in retired]
    return records.Drop(t, w, WHY_RETIRED, str(max(times)), len(times))


def retired_until(record: records.Record) -> int | None:
    """Until when the segments reached that were deleted, if the record says that some were; wall clock, ns."""
    if isinstance(record, records.Drop) and record.why == WHY_RETIRED and record.source.isascii() and record.source.isdecimal():
        return int(record.source)
    return None


def take(retired: Iterable[Segment]) -> int:
    """Delete segments; returns how many. Raises OSError."""
    count = 0
    for segment in retired:
        segment.path.unlink(missing_ok=True)
        count += 1
    return count


def _literal(stem: str) -> str:
    """A name as a pattern that matches nothing else: of the characters of patterns a quoted name may have none but these."""
    return "".join([f"[{each}]" if each in "*?[" else each for each in stem])


def _is_of(path: Path, owner: tuple[str, str]) -> bool:
    with open(path, "rb") as stream:
        head = stream.read(FRAME.size)
        length = FRAME.unpack(head)[0] if len(head) == FRAME.size else 0
        payload = stream.read(min(length, RECORD_BYTES_MAX))
    try:
        header = decode_header(payload)
    except ProtocolError:
        return False
    return (header.site, header.name) == owner
