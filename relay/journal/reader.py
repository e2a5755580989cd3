"""The journal's reader: decodes segment files one record at a time, in constant memory.

Damage never stops the reader. Torn tails, corrupt records and missing segments are reported as a
`Problem`. Reading continues after them as long as the lengths are valid.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, Decoder, Header, decode_header, length_check, read_wall_ns
from relay.journal.retention import SUFFIX
from relay.journal.store import JournalError
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError

#: Maximum frames without a clock before one with a clock: the header and vector frames.
_FRAMES_WITHOUT_CLOCK_MAX = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Damage of a segment file. `offset` is in bytes."""

    file: Path
    offset: int
    #: `torn`: the file ends inside a record, as after a crash. `corrupt`: bytes changed. `missing`:
    #: no such segment. `unreadable`: an I/O error. `retired`: deleted by retention during reading.
    kind: Literal["torn", "corrupt", "missing", "unreadable", "retired"]
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}: {self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class Journal:
    """The segment files of one process, in order."""

    site: str
    uuid: Address
    name: str
    segments: tuple[Path, ...]
    #: Number of the first segment; above 1 if earlier ones are missing.
    begins: int = 1


def find_journals(paths: Iterable[Path], problems: list[Problem]) -> list[Journal]:
    """Return the journals in these files and directories (recursively), by site, name and uuid.

    Unreadable headers, missing segments and copies are added to `problems`. Raises JournalError if a
    path does not exist.
    """
    owners: dict[tuple[str, str, Address], dict[int, Path]] = {}
    for file in segment_files(paths):
        header = read_header(file, problems)
        if header is not None:
            owner = header.site, header.name, header.uuid
            first = owners.setdefault(owner, {}).setdefault(header.number, file)
            if first != file:
                problems.append(copy_of(first, file, header))
    journals = []
    for (site, name, uuid), found in sorted(owners.items()):
        segments = sorted(found.items())
        begins = segments[0][0]
        if begins != 1:
            problems.append(Problem(segments[0][1], 0, "missing", f"segment 1 is not there, this is {begins}"))
        for place, (number, file) in enumerate(segments, begins):
            if number != place:
                problems.append(Problem(file, 0, "missing", f"segment {place} is not there, this is {number}"))
                break
        journals.append(Journal(site, uuid, name, tuple(file for _, file in segments), begins))
    return journals


def copy_of(first: Path, file: Path, header: Header) -> Problem:
    """Return the problem of a second file of a segment."""
    what = f"segment {header.number} of journal {header.uuid.hex()} is there twice; {first} is read, this is not"
    return Problem(file, 0, "corrupt", what)


def read_journal(journal: Journal, problems: list[Problem], payloads: bool = True) -> Iterator[records.Record]:
    """Yield the records of a process in the order of writing. Damage is added to `problems`.

    `payloads` False omits the bodies of batches. Without its first segments a journal begins with
    the records then in force.
    """
    for place, segment in enumerate(journal.segments):
        yield from read_segment(segment, problems, payloads, in_force=journal.begins > 1 and place == 0)


def read_segment(
    file: Path, problems: list[Problem], payloads: bool = True, in_force: bool = False
) -> Iterator[records.Record]:
    """Yield the records of one segment file; `in_force` adds those in force at its beginning.

    Damage is added to `problems`.
    """
    decoder = Decoder(payloads, in_force)
    for offset, payload in _payloads(file, problems):
        try:
            record = decode_header(payload) if offset == 0 else decoder.decode(payload)
        except ProtocolError as error:
            problems.append(Problem(file, offset, "corrupt", f"not a record: {error}"))
            continue
        if record is not None and not isinstance(record, Header):
            yield record


def segment_files(paths: Iterable[Path]) -> list[Path]:
    """Return the segment files under these paths, each once.

    Raises JournalError if a path does not exist.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            files = sorted(path.rglob(f"*{SUFFIX}"))
        elif path.is_file():
            files = [path]
        else:
            raise JournalError(f"{path}: no such file or directory")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def read_header(file: Path, problems: list[Problem]) -> Header | None:
    """Return the header of a segment file; if unreadable, None, with the reason in `problems`."""
    for _, payload in _payloads(file, problems):
        try:
            return decode_header(payload)
        except ProtocolError as error:
            problems.append(Problem(file, 0, "corrupt", f"no header: {error}"))
        return None
    return None


def _payloads(file: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    try:
        with open(file, "rb") as stream:
            yield from _frames(stream, file, problems)
    except OSError as error:
        problems.append(Problem(file, 0, "unreadable", error.strerror or str(error)))


def _frames(stream: BinaryIO, file: Path, problems: list[Problem], offset: int = 0) -> Iterator[tuple[int, bytes]]:
    size = os.fstat(stream.fileno()).st_size
    stream.seek(offset)
    while offset < size or offset == 0:
        head = stream.read(FRAME.size)
        if len(head) < FRAME.size:
            problems.append(Problem(file, offset, "torn", f"the last {len(head)} bytes are no whole record"))
            return
        length, check, crc = FRAME.unpack(head)
        if check != length_check(length) or length > RECORD_BYTES_MAX:
            problems.append(Problem(file, offset, "corrupt", f"bad length; {size - offset} bytes to the end are not read"))
            return
        if length > size - offset - FRAME.size:
            problems.append(Problem(file, offset, "torn", f"the last {size - offset} bytes are no whole record"))
            return
        payload = stream.read(length)
        if len(payload) < length:
            problems.append(Problem(file, offset, "torn", "the file became shorter while it was read"))
            return
        if zlib.crc32(payload) == crc:
            yield offset, payload
        else:
            problems.append(Problem(file, offset, "corrupt", f"a record of {length} bytes is skipped"))
        offset += FRAME.size + length


def wall_ns_at(file: Path, offset: int) -> int | None:
    """Return the wall clock of the first record from `offset`; None if there is none soon, or no file."""
    with suppress(OSError), open(file, "rb") as stream:
        for _, payload in islice(_frames(stream, file, [], offset), _FRAMES_WITHOUT_CLOCK_MAX + 1):
            if (wall_ns := read_wall_ns(payload)) is not None:
                return wall_ns
    return None
