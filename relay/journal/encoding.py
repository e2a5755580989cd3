"""Encodes records to bytes of a segment file, and decodes them.

A segment is a sequence of frames, all little-endian: u32 payload length, u32 CRC-32 of those four
bytes, u32 CRC-32 of the payload, payload. The check of the length tells a torn tail from
corruption, and allows skipping a corrupt payload.

A payload is one msgpack array `[kind, field, ...]`. Kind 0 opens every segment and names its owner.
Kind 1 numbers a global view vector for later `Deliver` records. Kind 14 repeats, at the beginning
of later segments, a record still in force (start, view, role), for readers without earlier
segments. All other kinds are the classes of `sitestack.journal.records`. So every segment is
readable alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgpack

from sitestack.journal import records
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.wire.plain import unpack_bounded
from sitestack.wire.schema import TEXT_BYTES_MAX, Converter, Schema

FORMAT = "relay-journal"
VERSION = 1
#: Maximum record size, which bounds a reader's memory. The largest message is well below it.
RECORD_BYTES_MAX = 64 << 20
FRAME = struct.Struct("<III")

HEADER_KIND, VECTOR_KIND = 0, 1
KINDS: dict[int, type[records.Record]] = {
    2: records.Start,
    3: records.Stop,
    4: records.Send,
    5: records.Reject,
    6: records.Deliver,
    7: records.View,
    8: records.GlobalView,
    9: records.Role,
    10: records.Gap,
    11: records.Baseline,
    12: records.Unreach,
    13: records.Drop,
}
IN_FORCE_KIND = 14
#: Classes whose last record stays in force.
STANDING = (records.Start, records.View, records.GlobalView, records.Role)
KIND_NUMBERS = {kind: number for number, kind in KINDS.items()}
#: Kinds whose last field is the body of a batch, or nil.
_WITH_PAYLOAD = (KIND_NUMBERS[records.Send], KIND_NUMBERS[records.Deliver])
#: Until 0.2.0 a gap had no scope.
_GAP, _OLDER_GAP_FIELDS = KIND_NUMBERS[records.Gap], 7
#: A baseline without a state has no last field, so that 0.2.0 reads it.
_BASELINE, _PLAIN_BASELINE_FIELDS = KIND_NUMBERS[records.Baseline], 5
DIGEST_BYTES = 32

_Vector = Mapping[str, ViewId]


class Header(NamedTuple):
    """The owner and the number of a segment: its first frame."""

    site: str
    uuid: Address
    name: str
    #: From 1.
    number: int


def encode_header(header: Header) -> bytes:
    site, uuid, name, number = header
    return _frame([HEADER_KIND, FORMAT, VERSION, site[:TEXT_BYTES_MAX], uuid, name[:TEXT_BYTES_MAX], number])


def decode_header(payload: bytes) -> Header:
    """Decode the payload of a segment's first frame. Raises ProtocolError with a short reason."""
    value = unpack_bounded(payload)
    if type(value) is not list or value[:2] != [HEADER_KIND, FORMAT]:
        raise ProtocolError("not a journal")
    if value[2:3] != [VERSION]:
        raise ProtocolError("format version")
    header = _HEADERS.parse(value[3:])
    assert isinstance(header, Header)
    return header


class Encoder:
    def __init__(self, keep_payloads: bool) -> None:
        """`keep_payloads` False omits the bodies of batches, but not their digests."""
        self._keep_payloads = keep_payloads
        self._numbers: dict[tuple[tuple[str, ViewId], ...], int] = {}
        self._last: tuple[_Vector, int] | None = None
        self._new: list[bytes] = []
        schema = Schema({}, {**_SPECIAL, _Vector: Converter(self._refer, _refuse)})
        self._packers = {kind: schema.converter(kind).pack for kind in KIND_NUMBERS}

    def encode(self, record: records.Record) -> bytes:
        """Return the frame of a record, preceded by frames of new vectors.

        Raises ValueError if the record exceeds `RECORD_BYTES_MAX`.
        """
        kind = type(record)
        fields = self._packers[kind](record)
        if not self._keep_payloads and (kind is records.Send or kind is records.Deliver):
            fields[-1] = None
        if isinstance(record, records.Baseline) and not record.in_state:
            fields = fields[:_PLAIN_BASELINE_FIELDS]
        frame = _frame([KIND_NUMBERS[kind], *fields])
        if not self._new:
            return frame
        frame = b"".join((*self._new, frame))
        self._new.clear()
        return frame

    def repeat(self, record: records.Record) -> bytes:
        """Return the frame that repeats a record of an earlier segment that is still in force."""
        kind = type(record)
        fields = self._packers[kind](record)
        frame = _frame([IN_FORCE_KIND, [KIND_NUMBERS[kind], *fields]])
        frame, self._new = b"".join((*self._new, frame)), []
        return frame

    def _refer(self, vector: _Vector) -> int:
        if self._last is not None and vector is self._last[0]:
            return self._last[1]
        key = tuple(vector.items())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new.append(_frame([VECTOR_KIND, number, _VECTORS.pack(dict(vector))]))
        self._last = (vector, number)
        return number


class Decoder:
    def __init__(self, payloads: bool = True, in_force: bool = False) -> None:
        """`payloads` False omits the bodies of batches; `in_force` includes repeated records."""
        self._payloads = payloads
        self._in_force = in_force
        self._vectors: dict[int, _Vector] = {}
        self._addresses: dict[bytes, Address] = {}
        self._vids: dict[tuple[int, bytes], ViewId] = {}
        special = {
            **_SPECIAL,
            Address: Converter(_same, self._address),
            ViewId: Converter(list, self._vid),
            _Vector: Converter(_refuse, self._resolve),
        }
        schema = Schema({}, special)
        self._parse_vector = schema.converter(dict[str, ViewId]).parse
        self._parsers = {number: schema.converter(kind).parse for number, kind in KINDS.items()}

    def decode(self, payload: bytes) -> records.Record | None:
        """Return the record in a payload; None for a vector, or a repetition without `in_force`.

        Raises ProtocolError for any other payload.
        """
        value = unpack_bounded(payload)
        if type(value) is not list or not value or type(value[0]) is not int:
            raise ProtocolError("record")
        kind = value.pop(0)
        if kind == VECTOR_KIND and len(value) == 2 and type(value[0]) is int:
            self._vectors[value[0]] = self._parse_vector(value[1])
            return None
        repeated: Any = value.pop() if kind == IN_FORCE_KIND and len(value) == 1 else None
        if type(repeated) is list and repeated:
            if not self._in_force:
                return None
            kind, *value = repeated
        parse = self._parsers.get(kind) if type(kind) is int else None
        if parse is None:
            raise ProtocolError("kind")
        if not self._payloads and kind in _WITH_PAYLOAD and len(value) > 0:
            value[-1] = None
        if kind == _GAP and len(value) == _OLDER_GAP_FIELDS:
            value.append(Scope.ALL.value)
        if kind == _BASELINE and len(value) == _PLAIN_BASELINE_FIELDS:
            value.append(False)
        record: records.Record = parse(value)
        if isinstance(record, records.Send | records.Deliver):
            sound = record.first > 0 and record.count > 0 and len(record.sizes) == 4 * record.count
            if not sound or len(record.digest) != DIGEST_BYTES:
                raise ProtocolError("batch")
        return record

    def _resolve(self, number: Any) -> _Vector:
        vector = self._vectors.get(number) if type(number) is int else None
        if vector is None:
            raise ProtocolError("vector")
        return vector

    def _address(self, value: Any) -> Address:
        if type(value) is not bytes or len(value) != UUID_BYTES:
            raise ProtocolError("field")
        found = self._addresses.get(value)
        if found is None:
            found = self._addresses[value] = Address(value)
        return found

    def _vid(self, value: Any) -> ViewId:
        if type(value) is not list or len(value) != 2 or type(value[0]) is not int:
            raise ProtocolError("field")
        counter, creator = value[0], self._address(value[1])
        found = self._vids.get((counter, creator))
        if found is None:
            found = self._vids[counter, creator] = ViewId(counter, creator)
        return found


def _same(value: Any) -> Any:
    return value


def _refuse(value: Any) -> Any:
    raise AssertionError("vectors travel by number")


def _word(*words: str) -> Converter:

    def parse(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise ProtocolError("field")
        return value

    return Converter(_same, parse)


def _text(value: str) -> str:
    return value if len(value) <= TEXT_BYTES_MAX else value[:TEXT_BYTES_MAX]


#: Converters that the wire schema lacks: literal types, and texts, which are truncated.
_SPECIAL: dict[Any, Converter] = {
    str: Converter(_text, Schema({}, {}).converter(str).parse),
    Literal["local", "relay"]: _word("local", "relay"),
    Literal["view", "merge"]: _word("view", "merge"),
    Literal["member", "coord", "relay", "share"]: _word("member", "coord", "relay", "share"),
    Literal["not_delivered", "unknown"]: _word("not_delivered", "unknown"),
}
_HEADERS = Schema({}, {}).converter(Header)
_VECTORS = Schema({}, {}).converter(dict[str, ViewId])


def _frame(value: list[Any]) -> bytes:
    payload: bytes = msgpack.packb(value, use_bin_type=True, unicode_errors="replace")
    if len(payload) > RECORD_BYTES_MAX:
        raise ValueError(f"a record of {len(payload)} bytes is larger than {RECORD_BYTES_MAX}")
    return framed(payload)


def framed(payload: bytes) -> bytes:
    return FRAME.pack(len(payload), length_check(len(payload)), zlib.crc32(payload)) + payload


def length_check(length: int) -> int:
    """Return the check of a frame's length field."""
    return zlib.crc32(length.to_bytes(4, "little"))


def read_wall_ns(payload: bytes) -> int | None:
    """Return the wall clock of the record in a payload; None if it has none."""
    try:
        value = unpack_bounded(payload)
    except ProtocolError:
        return None
    has_clock = type(value) is list and len(value) > 2 and type(value[0]) is int and value[0] in KINDS
    return value[2] if has_clock and type(value[2]) is int else None
