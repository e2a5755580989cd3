"""The journal's reader: segment files back to records, one at a time, so that memory stays flat.

Damage never stops the reader. A tail that a crash has torn, a corrupt record, a missing segment: each is reported as a
`Problem` with file and offset, and reading goes on behind it as far as lengths can be trusted.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, Decoder, Header, decode_header, length_check
from relay.journal.retention import SUFFIX
from relay.journal.store import JournalError
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Problem:
    """Damage of a segment file. `offset` is in bytes."""

    file: Path
    offset: int
    #: `torn`: the file ends inside a record, as after a crash. `corrupt`: bytes changed. `missing`: no such segment.
    #: `unreadable`: the system refuses. `retired`: retention deleted it while somebody followed the journal.
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
    #: The number of the first of them; above 1 where those before are not there any more.
    begins: int = 1


def find_journals(paths: Iterable[Path], problems: list[Problem]) -> list[Journal]:
    """The journals in these files and directories (searched deeply), ordered by site, name and uuid.

    A segment whose header cannot be read is a problem, and so is a hole in the numbers of a journal's segments. Raises
    JournalError when a path does not exist.
    """
    owners: dict[tuple[str, str, Address], list[tuple[int, Path]]] = {}
    for file in segment_files(paths):
        header = read_header(file, problems)
        if header is not None:
            owners.setdefault((header.site, header.name, header.uuid), []).append((header.number, file))
    journals = []
    for (site, name, uuid), segments in sorted(owners.items()):
        segments.sort()
        begins = segments[0][0]
        if begins != 1:
            problems.append(Problem(segments[0][1], 0, "missing", f"segment 1 is not there, this is {begins}"))
        for place, (number, file) in enumerate(segments, begins):
            if number != place:
                problems.append(Problem(file, 0, "missing", f"segment {place} is not there, this is {number}"))
                break
        journals.append(Journal(site, uuid, name, tuple(file for _, file in segments), begins))
    return journals


def read_journal(journal: Journal, problems: list[Problem], payloads: bool = True) -> Iterator[records.Record]:
    """The records of a process, in the order in which they were written. Damage is added to `problems`.

    `payloads` False leaves out the bodies of batches that the journal keeps. Where the first segments are not there, it begins
    with what was in force.
    """
    for place, segment in enumerate(journal.segments):
        yield from read_segment(segment, problems, payloads, in_force=journal.begins > 1 and place == 0)


def read_segment(
    file: Path, problems: list[Problem], payloads: bool = True, in_force: bool = False
) -> Iterator[records.Record]:
    """The records of one segment file, after what was in force at its beginning if that is wanted.

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
    """The segment files under these paths, each once, also when the paths overlap.

    Raises JournalError when a path does not exist.
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
    """The header of a segment file; None when it cannot be read, and the reason is added to `problems`."""
    for _, payload in _payloads(file, problems):
        try:
            return decode_header(payload)
        except ProtocolError as error:
            problems.append(Problem(file, 0, "corrupt", f"no header: {error}"))
        return None
    return None


def _payloads(file: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of every sound frame."""
    try:
        with open(file, "rb") as stream:
            yield from _frames(stream, file, problems)
    except OSError as error:
        problems.append(Problem(file, 0, "unreadable", error.strerror or str(error)))


def _frames(stream: BinaryIO, file: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    size = os.fstat(stream.fileno()).st_size
    offset = 0
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
