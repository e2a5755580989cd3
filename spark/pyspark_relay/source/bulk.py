"""The columnar reader for millions of records in a segment file or a part of it.

Sends and deliveries, nearly all records, are decoded in chunks to columns, and checked by column.
If a check fails, `Decoder` decodes that chunk record by record. All other records become objects.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import msgpack

from relay.journal.encoding import (
    DIGEST_BYTES,
    FRAME,
    KIND_NUMBERS,
    KINDS,
    RECORD_BYTES_MAX,
    VECTOR_KIND,
    Decoder,
    decode_header,
)
from relay.journal.reader import Problem
from sitestack.journal import records
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Scope
from sitestack.wire.plain import require_whole
from sitestack.wire.schema import INT_MAX, TEXT_BYTES_MAX

#: Bytes read before decoding; more only for a larger record.
BLOCK_BYTES = 2 << 20

Kind: TypeAlias = type[records.Record]
#: Fields of a record in class order: addresses as 16 bytes, view ids as (counter, creator).
Row: TypeAlias = "tuple[Any, ...]"


@dataclass(slots=True)
class Table:
    """Sends or deliveries as columns of equal length."""

    #: Position of each record, in bytes from the beginning of the file.
    offsets: list[int] = field(default_factory=list)
    #: Views in the segment before each record.
    views: list[int] = field(default_factory=list)
    #: One column per field of the record class.
    columns: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Chunk:
    tables: dict[Kind, Table] = field(default_factory=dict)
    #: Offset, number of views in the segment up to and including this record, and the record.
    others: list[tuple[int, int, records.Record]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    #: Logical names of the members of the segment's views up to here.
    names: Mapping[Address, str] = field(default_factory=dict)


def read_bulk(
    file: Path,
    kinds: Collection[Kind],
    start: int = 0,
    end: int | None = None,
    payloads: bool = False,
    in_force: bool = False,
) -> Iterator[Chunk]:
    """Yield the records of these kinds that begin in `start..end`, and the problems there.

    Records must begin at `start` and `end`; None is the end of the file. Earlier records only count
    views and define vectors. `in_force` adds records in force at the segment's beginning.
    """
    try:
        with open(file, "rb") as stream:
            segment = _Segment(file, stream, kinds, start, payloads, in_force)
            yield from segment.chunks(os.fstat(stream.fileno()).st_size if end is None else end)
    except OSError as error:
        yield Chunk(problems=[Problem(file, 0, "unreadable", error.strerror or str(error))])


class _Segment:
    def __init__(
        self, file: Path, stream: BinaryIO, kinds: Collection[Kind], start: int, payloads: bool, in_force: bool
    ) -> None:
        self.file = file
        self.stream = stream
        self.start = start
        self.decoder = Decoder(payloads, in_force)
        self.payloads = payloads
        self.views = 0
        self.names: dict[Address, str] = {}
        self.vectors: set[int] = set()
        self.wanted = {KIND_NUMBERS[kind] for kind in kinds}
        self.bulky = {KIND_NUMBERS[kind] for kind in (records.Send, records.Deliver)}

    def chunks(self, size: int) -> Iterator[Chunk]:
        offset, data = 0, b""
        while offset < size or offset == 0:
            wanted = min(BLOCK_BYTES, size - offset - len(data))
            block = self.stream.read(wanted) if wanted > 0 else b""
            data += block
            chunk = Chunk(names=self.names)
            used, bad_length = self._split(chunk, offset, data)
            if bad_length:
                rest = size - offset - used
                what = f"bad length; {rest} bytes to the end are not read"
                self._report(chunk, offset + used, "corrupt", what)
            elif not block:
                rest = len(data) - used
                self._report(chunk, offset + used, "torn", f"the last {rest} bytes are no whole record")
            offset, data = offset + used, data[used:]
            yield chunk
            if bad_length or not block:
                return

    def _split(self, chunk: Chunk, base: int, data: bytes) -> tuple[int, bool]:
        """Decode whole frames. Return their size, and whether a corrupt length ends the segment."""
        crc32, unpack, head = zlib.crc32, FRAME.unpack_from, FRAME.size
        bulk: dict[int, tuple[Table, list[bytes]]] = {number: (Table(), []) for number in self.bulky}
        at, size = 0, len(data)
        is_bad = False
        while at + head <= size:
            length, check, crc = unpack(data, at)
            if check != crc32(data[at : at + 4]) or length > RECORD_BYTES_MAX:
                is_bad = True
                break
            begin = at + head
            if begin + length > size:
                break
            payload = data[begin : begin + length]
            offset, at = base + at, begin + length
            if crc32(payload) != crc:
                self._report(chunk, offset, "corrupt", f"a record of {length} bytes is skipped")
                continue
            # Every record is a msgpack array `[kind, ...]` of at most 15 items.
            kind = payload[1] if length > 1 and payload[0] & 0xF0 == 0x90 else -1
            if kind in bulk and offset:
                if offset >= self.start and kind in self.wanted:
                    table, payloads = bulk[kind]
                    table.offsets.append(offset)
                    table.views.append(self.views)
                    payloads.append(payload)
            else:
                self._other(chunk, offset, kind, payload)
        for number, (table, payloads) in bulk.items():
            if payloads:
                self._fill(chunk, KINDS[number], table, payloads)
        return at, is_bad

    def _other(self, chunk: Chunk, offset: int, kind: int, payload: bytes) -> None:
        try:
            if offset == 0:
                decode_header(payload)
                return
            if kind in KINDS and kind not in self.wanted and KINDS[kind] is not records.View:
                return
            record = self.decoder.decode(payload)
        except ProtocolError as error:
            what = f"no header: {error}" if offset == 0 else f"not a record: {error}"
            self._report(chunk, offset, "corrupt", what)
            return
        if kind == VECTOR_KIND:
            self.vectors.add(msgpack.unpackb(payload)[1])
        if record is None:
            return
        if isinstance(record, records.View):
            self.views += 1
            self.names.update(zip(record.members, record.names, strict=False))
        if offset >= self.start and KIND_NUMBERS[type(record)] in self.wanted:
            chunk.others.append((offset, self.views, record))

    def _fill(self, chunk: Chunk, kind: Kind, table: Table, payloads: list[bytes]) -> None:
        columns = _columns(kind, payloads)
        if columns is None or not _are_sound(kind, columns, self.vectors):
            self._fill_slowly(chunk, kind, table, payloads)
            return
        if not self.payloads:
            columns[-1] = (None,) * len(payloads)
        table.columns = columns
        chunk.tables[kind] = table

    def _fill_slowly(self, chunk: Chunk, kind: Kind, table: Table, payloads: list[bytes]) -> None:
        """Decode one record at a time to find the invalid ones."""
        sound, rows = Table(), []
        for offset, views, payload in zip(table.offsets, table.views, payloads, strict=True):
            try:
                record = self.decoder.decode(payload)
            except ProtocolError as error:
                self._report(chunk, offset, "corrupt", f"not a record: {error}")
                continue
            assert isinstance(record, records.Send | records.Deliver)
            sound.offsets.append(offset)
            sound.views.append(views)
            rows.append(tuple(getattr(record, name) for name in kind.__match_args__))
        if rows:
            sound.columns = list(zip(*rows, strict=True))
            chunk.tables[kind] = sound

    def _report(self, chunk: Chunk, offset: int, kind: Literal["torn", "corrupt"], what: str) -> None:
        if offset >= self.start:
            chunk.problems.append(Problem(self.file, offset, kind, what))


def _columns(kind: Kind, payloads: list[bytes]) -> list[Row] | None:
    """Return the fields as columns; None unless every payload is one list of the right length."""
    data = b"".join(payloads)
    size = len(data)
    unpacker = msgpack.Unpacker(
        raw=False,
        use_list=False,
        strict_map_key=True,
        max_buffer_size=size,
        max_str_len=min(size, 4 * TEXT_BYTES_MAX),
        max_bin_len=size,
        max_array_len=size,
        max_map_len=0,
        max_ext_len=0,
    )
    try:
        require_whole(data, len(payloads))
        unpacker.feed(data)
        rows = list(unpacker)
    except (ValueError, RecursionError, msgpack.OutOfData):  # msgpack's own errors and bad UTF-8 are ValueErrors
        return None
    width = len(kind.__match_args__) + 1
    if len(rows) != len(payloads) or set(map(type, rows)) != {tuple} or set(map(len, rows)) != {width}:
        return None
    return list(zip(*rows, strict=True))[1:]


_TYPES: dict[Kind, tuple[set[Any], ...]] = {
    records.Send: (
        *({int}, {int}, {str}, {bytes}, {int}, {int}, {int}),
        *({bytes, type(None)}, {str}, {bytes}, {bytes}, {bytes, type(None)}),
    ),
    records.Deliver: (
        *({int}, {int}, {str}, {bytes}, {int}, {int}, {int}, {str}),
        *({int, type(None)}, {tuple}, {int}, {bytes}, {bytes}, {bytes, type(None)}),
    ),
}
_SCOPES = {int(scope) for scope in Scope}


def _are_sound(kind: Kind, columns: list[Row], vectors: set[int]) -> bool:
    if not all(set(map(type, column)) <= types for column, types in zip(columns, _TYPES[kind], strict=True)):
        return False
    named = dict(zip(kind.__match_args__, columns, strict=True))
    lengths = [4 * count for count in named["count"]]
    sound = (
        all(_are_small(column) for column, types in zip(columns, _TYPES[kind], strict=True) if int in types)
        and set(map(len, named["origin"])) == {UUID_BYTES}
        and set(named["scope"]) <= _SCOPES
        and min(named["first"]) > 0
        and min(named["count"]) > 0
        and list(map(len, named["sizes"])) == lengths
        and set(map(len, named["digest"])) == {DIGEST_BYTES}
        and max(map(len, set(named["site"]))) <= TEXT_BYTES_MAX
    )
    if not sound:
        return False
    if kind is records.Send:
        targets = {len(target) for target in set(named["target"]) if target is not None}
        return targets <= {UUID_BYTES} and max(map(len, set(named["target_site"]))) <= TEXT_BYTES_MAX
    return set(named["via"]) <= {"local", "relay"} and set(named["gvec"]) <= vectors and all(map(_is_vid, set(named["vid"])))


def _is_vid(value: Row) -> bool:
    return (
        len(value) == 2
        and type(value[0]) is int
        and abs(value[0]) <= INT_MAX
        and type(value[1]) is bytes
        and len(value[1]) == UUID_BYTES
    )


def _are_small(column: Row) -> bool:
    numbers = [value for value in column if value is not None] if None in column else column
    return not numbers or (min(numbers) >= -INT_MAX and max(numbers) <= INT_MAX)
