"""The border between bytes and frames: only this module encodes and parses datagrams.

Datagram: magic, version, then one msgpack array `[cluster, source, kind, dest, [frame, ...]]`;
frame: `[unreliable, headers, batch | nil]`. With short ids the first array has a sixth element, the
name of their table. All addresses in it may then be integers (`model/short_ids.py`). A slice of a
datagram that was too large for its path ends in `nil, [digest, index, count, bytes]` instead.

Every length is checked before allocation, and trailing bytes are rejected. Every violation raises
`ProtocolError` with a short reason (C11, C12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.message import UNICASTS, Batch, Scope
from sitestack.model.short_ids import ShortIds
from sitestack.seal import envelope
from sitestack.wire.plain import unpack_bounded
from sitestack.wire.schema import INT_MAX, NO_IDS, PRINTABLE, TEXT_BYTES_MAX, Converter, Schema
from sitestack.wire.slices import DIGEST_BYTES, SLICES_MAX, Slice

MAGIC = b"\xb7R"
VERSION = 2
_PREFIX = MAGIC + bytes([VERSION])
#: Maximum headers of one frame: each layer adds at most one, and there are about a dozen layers.
HEADERS_MAX = 24
#: Maximum frames of a datagram: SMALL_FRAMES_MAX, plus one for every BYTES_PER_FRAME bytes, up to
#: FRAMES_MAX. A frame costs a receiver a thousand times as much as a byte: a datagram of the
#: smallest frames would otherwise block a member for longer than a heartbeat may take.
FRAMES_MAX, SMALL_FRAMES_MAX, BYTES_PER_FRAME = 256, 8, 32
#: Overhead of a frame besides its headers' fields and its body (bytes). Generous, for size
#: estimates only.
FRAME_OVERHEAD_BYTES = 128
#: Bytes that the datagram itself adds: prefix, cluster name of this size, addresses.
DATAGRAM_OVERHEAD_BYTES, _NAME_BYTES = 128, 64
#: Maximum tables of short ids for reading; the oldest is evicted. A member that is more views
#: behind retransmits in the view that it catches up with.
TABLES_MAX = 8
DATAGRAM_BYTES_MAX = 65_507

_EVERYBODY, _MEMBER, _WHOEVER, _SLICE = 0, 1, 2, 3
_SCOPES = tuple(Scope)


def long_name_bytes(cluster: str) -> int:
    """Return the bytes that a long name adds to DATAGRAM_OVERHEAD_BYTES."""
    return max(0, len(cluster.encode()) - _NAME_BYTES)


def frames_max(size: int) -> int:
    """Return the maximum number of frames of together `size` bytes in one datagram."""
    return min(FRAMES_MAX, SMALL_FRAMES_MAX + size // BYTES_PER_FRAME)


def bundles(frames: Sequence[bytes], room: int) -> Iterator[Sequence[bytes]]:
    """Yield encoded frames in order, as many as a datagram may have within `room` bytes; a larger one is alone."""
    start, size = 0, 0
    for end, frame in enumerate(frames):
        if end > start and (size + len(frame) > room or end - start == frames_max(size)):
            yield frames[start:end]
            start, size = end, 0
        size += len(frame)
    yield frames[start:]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Datagram:
    """A parsed datagram. `dest` is a member; None for all members, or for any process at the address."""

    source: Address
    dest: Address | None
    multicast: bool
    frames: tuple[Frame, ...]


class Codec:
    """Encodes and decodes for one stack, with the headers of that stack's layers."""

    def __init__(self, cluster: str, headers: Mapping[int, type[Header]]) -> None:
        """`cluster` names the site: datagrams of other sites on the same group are rejected."""
        self.cluster = cluster
        self.schema = Schema(headers, {Batch: Converter(_pack_batch, self._parse_batch), str: PRINTABLE})
        self._parse_address = self.schema.parse_address
        self._scanner = _scanner()
        self._packer = msgpack.Packer()
        #: The tables of short ids for reading, by name, the newest last.
        self._tables: dict[bytes, ShortIds] = {}

    def learn(self, ids: ShortIds) -> None:
        self._tables.pop(ids.name, None)
        if len(self._tables) == TABLES_MAX:
            del self._tables[next(iter(self._tables))]
        self._tables[ids.name] = ids

    def encode_frame(self, frame: Frame, ids: ShortIds | None = None) -> bytes:
        """Return one frame as bytes. Encode it once, even for many addresses.

        With `ids` it is readable only in a datagram that names the same table.
        """
        packers = self.schema.packers
        headers = [packers[type(header)](header) for header in frame.headers]
        batch = None if frame.batch is None else _pack_batch(frame.batch)
        return self._packed([frame.unreliable, headers, batch], ids)

    def encode_datagram(
        self, source: Address, dest: Destination, frames: Iterable[bytes], ids: ShortIds | None = None
    ) -> bytes:
        """Return a datagram of encoded frames that share source, destination, and table of short ids."""
        bodies = list(frames)
        if dest is None:
            kind, target = _EVERYBODY, None
        elif isinstance(dest, Address):
            kind, target = _MEMBER, dest
        else:
            kind, target = _WHOEVER, None
        head = self._packed([self.cluster, source, kind, target], ids)
        # The array of four becomes an array of five whose last element is the encoded array of
        # frames.
        count = len(bodies)
        frames_head = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
        if ids is None:
            return b"".join((_PREFIX, b"\x95", head[1:], frames_head, *bodies))
        return b"".join((_PREFIX, b"\x96", head[1:], frames_head, *bodies, self._packed(ids.name, None)))

    def encode_slice(self, piece: Slice) -> bytes:
        inner = [piece.digest, piece.index, piece.count, piece.data]
        packed: bytes = msgpack.packb([self.cluster, bytes(piece.source), _SLICE, None, inner], use_bin_type=True)
        return _PREFIX + packed

    def _packed(self, value: Any, ids: ShortIds | None) -> bytes:
        if ids is not None:  # the hook receives every value that is not plain, so every address
            by_ids: bytes = msgpack.packb(value, strict_types=True, default=ids.write)
            return by_ids
        packed: bytes = self._packer.pack(value)
        if len(packed) > DATAGRAM_BYTES_MAX:  # a packer keeps a buffer of its largest value
            self._packer = msgpack.Packer()
        return packed

    def decode(self, data: bytes) -> Datagram:
        """Return the datagram in these bytes.

        Raises ProtocolError with reason magic, sealed (its members have keys), version, malformed,
        cluster, header, field, batch, body, unknown_ids, or slice for a slice of a datagram.
        """
        datagram = self.decode_any(data)
        if isinstance(datagram, Slice):
            raise ProtocolError("slice")
        return datagram

    def decode_any(self, data: bytes) -> Datagram | Slice:
        """Return the datagram, or the slice, in these bytes. Raises ProtocolError as `decode` does."""
        if data[:2] != MAGIC:
            raise ProtocolError("sealed" if data[:2] == envelope.MAGIC else "magic")
        if data[2:3] != _PREFIX[2:]:
            raise ProtocolError("version")
        fields = self.unpack(memoryview(data)[3:])
        if type(fields) is list and len(fields) == 6:
            return self._parse_by_ids(fields, len(data))
        return self._parse_datagram(fields, len(data))

    def _parse_by_ids(self, fields: list[Any], size: int) -> Datagram | Slice:
        """Parse a datagram whose addresses may be short ids of the table that its last element names."""
        name = fields.pop()
        table = self._tables.get(name) if type(name) is bytes else None
        if table is None:
            raise ProtocolError("unknown_ids" if fields[0] == self.cluster else "cluster")
        self.schema.short_ids = table.by_id
        try:
            return self._parse_datagram(fields, size)
        finally:
            self.schema.short_ids = NO_IDS

    def _parse_datagram(self, fields: Any, size: int) -> Datagram | Slice:
        if type(fields) is not list or len(fields) != 5:
            raise ProtocolError("malformed")
        cluster, source, kind, dest, frames = fields
        if cluster != self.cluster:
            raise ProtocolError("cluster")
        origin = self._parse_address(source)
        if kind == _SLICE:
            return _slice(origin, dest, frames)
        target = self._parse_address(dest) if kind == _MEMBER else None
        if kind not in (_EVERYBODY, _MEMBER, _WHOEVER) or (kind != _MEMBER and dest is not None):
            raise ProtocolError("malformed")
        if type(frames) is not list or not frames or (len(frames) > SMALL_FRAMES_MAX and len(frames) > frames_max(size)):
            raise ProtocolError("malformed")
        return Datagram(origin, target, kind == _EVERYBODY, tuple([self._frame(each, origin, target) for each in frames]))

    def decode_frame(self, data: bytes, source: Address, dest: Destination) -> Frame:
        """Return the frame that `encode_frame` encoded, for a frame in pieces. Raises ProtocolError."""
        return self._frame(self.unpack(data), source, dest)

    def _frame(self, value: Any, source: Address, dest: Destination) -> Frame:
        if type(value) is not list or len(value) != 3:
            raise ProtocolError("malformed")
        unreliable, headers, batch = value
        if type(unreliable) is not bool or type(headers) is not list or len(headers) > HEADERS_MAX:
            raise ProtocolError("malformed")
        if not headers and batch is None:  # no layer sends such a frame, and thousands fit into a datagram
            raise ProtocolError("malformed")
        parse = self.schema.parse_header
        parsed = tuple([parse(header) for header in headers])
        return Frame(source, dest, parsed, None if batch is None else self._parse_batch(batch), unreliable)

    def pack(self, header: Header) -> bytes:
        """Return one header as bytes, for use outside of datagrams (bridge frames, states)."""
        packed: bytes = msgpack.packb(self.schema.pack_header(header), use_bin_type=True)
        return packed

    def parse(self, data: bytes) -> Header:
        return self.schema.parse_header(self.unpack(data))

    def _parse_batch(self, value: Any) -> Batch:
        if type(value) is not list or len(value) != 8:
            raise ProtocolError("batch")
        site, origin, scope, first, count, body, target, target_site = value
        if type(site) is not str or type(target_site) is not str or max(len(site), len(target_site)) > TEXT_BYTES_MAX:
            raise ProtocolError("batch")
        if not site.isprintable() or not target_site.isprintable():
            raise ProtocolError("batch")
        if type(first) is not int or type(count) is not int or type(body) is not bytes:
            raise ProtocolError("batch")
        # The number after the last one must fit as well: a joiner's table contains it.
        if not 0 < count <= len(body) // 4 or not 0 < first <= INT_MAX - count:
            raise ProtocolError("batch")
        if type(scope) is not int or not 0 <= scope < len(_SCOPES) or (target is None) == (scope in UNICASTS):
            raise ProtocolError("batch")
        destination = None if target is None else self._parse_address(target)
        return Batch(site, self._parse_address(origin), _SCOPES[scope], first, count, body, destination, target_site)

    def unpack(self, data: bytes | memoryview) -> Any:
        """Return plain values from msgpack. Raises ProtocolError("malformed")."""
        try:
            return unpack_bounded(data, self._scanner if len(data) <= DATAGRAM_BYTES_MAX else None)
        except ProtocolError:
            self._scanner = _scanner()
            raise


def _slice(source: Address, dest: Any, value: Any) -> Slice:
    if dest is not None or type(value) is not list or len(value) != 4:
        raise ProtocolError("malformed")
    digest, index, count, data = value
    if type(digest) is not bytes or len(digest) != DIGEST_BYTES or type(data) is not bytes or not data:
        raise ProtocolError("malformed")
    if type(index) is not int or type(count) is not int or not (0 <= index < count and 1 < count <= SLICES_MAX):
        raise ProtocolError("malformed")
    return Slice(source, digest, index, count, data)


def _scanner() -> msgpack.Unpacker:
    return msgpack.Unpacker(read_size=DATAGRAM_BYTES_MAX, max_buffer_size=DATAGRAM_BYTES_MAX)


def _pack_batch(batch: Batch) -> list[Any]:
    return [
        batch.site,
        batch.origin,
        int(batch.scope),
        batch.first,
        batch.count,
        batch.body,
        batch.target,
        batch.target_site,
    ]
