"""Steps over the records of a growing segment file without decoding, to follow a journal."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, length_check, read_wall_ns

#: Bytes of one read, enough for thousands of records.
_BLOCK_BYTES = 1 << 20
#: Maximum frames without a clock before one with a clock: the header and vector frames.
_FRAMES_WITHOUT_CLOCK_MAX = 16


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


def wall_ns_at(file: Path, offset: int) -> int | None:
    """Return the wall clock of the first record from `offset`; None if there is none soon.

    Raises OSError.
    """
    with open(file, "rb") as stream:
        stream.seek(offset)
        for _ in range(_FRAMES_WITHOUT_CLOCK_MAX + 1):
            head = stream.read(FRAME.size)
            if len(head) < FRAME.size:
                return None
            length, check, _ = FRAME.unpack(head)
            if check != length_check(length) or length > RECORD_BYTES_MAX:
                return None
            wall_ns = read_wall_ns(stream.read(length))
            if wall_ns is not None:
                return wall_ns
    return None
