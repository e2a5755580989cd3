"""Retention: deletes whole segments of a member, the oldest first, by bytes and by age.

Messages are never retransmitted from a journal, so deletion loses none. A record of the newest
segment, the last one to be deleted, states until when (wall clock) the deleted segments reached.
Otherwise a reader would mistake deletion for loss.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, decode_header
from sitestack.journal import records
from sitestack.model.errors import ProtocolError

SUFFIX = ".rlj"
#: `Drop.why` of a deletion record; its `source` is the end of the deleted segments, in ns.
WHY_RETIRED = "retention"
#: Maximum bytes of a member name in a file name: of the usual limit of 255, 21 are used otherwise.
_NAME_BYTES_MAX = 200
#: Segments per maximum age, so that records are deleted soon after it.
_SEGMENTS_AN_AGE = 8
#: Longer than any process lives, in ns.
_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits; None means unlimited."""

    bytes_max: int | None = None
    age_s_max: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether any limit is set."""
        return self.bytes_max is not None or self.age_s_max is not None

    @property
    def segment_ns(self) -> int:
        """Maximum time (ns) for which a segment is written."""
        return _NEVER_NS if self.age_s_max is None else int(self.age_s_max * 1e9) // _SEGMENTS_AN_AGE


class Segment(NamedTuple):
    """A closed segment file. Segments order by the time of their last record (ns)."""

    written_ns: int
    path: Path
    size: int


def file_stem(name: str) -> str:
    """Return the prefix of a member's segment file names."""
    return quote(name, safe="", errors="replace")[:_NAME_BYTES_MAX]


def find_retired(
    limits: Retention, current: Path, reserved: int, owner: tuple[str, str], written: dict[Path, int], now_ns: int
) -> list[Segment]:
    """Return the segments of a member beyond the limits, the oldest first. Raises OSError.

    Searches all its processes in the directory of `current`, which is kept and may grow to
    `reserved` bytes. `owner` is site and name. `written`: times of the last records of segments
    closed by this process; others use their mtime. A future time becomes `now_ns`.
    """
    closed = []
    for path in current.parent.glob(f"{_literal(file_stem(owner[1]))}-*{SUFFIX}"):
        with suppress(FileNotFoundError):  # others delete theirs meanwhile
            if path != current and _is_of(path, owner):
                stat = path.stat()
                written_ns = written.get(path, stat.st_mtime_ns)
                if written_ns > now_ns:
                    written_ns = written[path] = now_ns
                    os.utime(path, ns=(now_ns, now_ns))
                closed.append(Segment(written_ns, path, stat.st_size))
    reached: dict[str, int] = {}
    closed.sort(key=lambda each: (len(each.path.name), each.path.name))
    for place, each in enumerate(closed):
        process = each.path.stem.rpartition(".")[0]
        reached[process] = max(each.written_ns, reached.get(process, 0))
        closed[place] = each._replace(written_ns=reached[process])
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
    times = [each.written_ns for each in retired]
    return records.Drop(t, w, WHY_RETIRED, str(max(times)), len(times))


def retired_until(record: records.Record) -> int | None:
    until = record.source if isinstance(record, records.Drop) and record.why == WHY_RETIRED else ""
    return int(until) if until.isascii() and until.isdecimal() and len(until) < 20 else None


def _literal(stem: str) -> str:
    """Escape a quoted name for a glob pattern; it contains no other special characters."""
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
