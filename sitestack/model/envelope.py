"""The envelope of a message: headers of the application's own, and the part that a message has in a group call.

Few messages have one, so a batch is of messages with envelopes or of messages without, and says so by one bit of its body
(`message.py`): whoever uses none of this pays nothing for it. An envelope is part of the body, which nobody between the two
ends reads, so it also crosses the bridges as it is.

Layout: kind (u8), call (u64), count of headers (u8), then each header as length (u8), name (UTF-8), length (u16), value; then
the payload. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from sitestack.model.errors import LocalError, ProtocolError

_FIXED = struct.Struct("<BQB")
_U16 = struct.Struct("<H")

#: The most headers of a message, and the most bytes that they take with their names and lengths.
HEADERS_MAX = 16
HEADERS_BYTES_MAX = 1_024
_NAME_BYTES_MAX = 255

#: The header by which a message is recognised when it is sent again: of messages with one key each member is shown the first.
KEY = "idempotency-key"
KEY_BYTES_MAX = 128

NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})


class Kind(IntEnum):
    """What a message with an envelope is."""

    #: An ordinary one, with headers.
    MESSAGE = 0
    #: One that the application is to answer.
    REQUEST = 1
    #: The answer of an application.
    ANSWER = 2
    #: One that the channel answers by itself, when it has delivered everything before it.
    PROBE = 3
    #: The answer to a probe.
    DELIVERED = 4


#: What the channels deal with among themselves; no application is shown these.
BETWEEN_CHANNELS = (Kind.ANSWER, Kind.PROBE, Kind.DELIVERED)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a message brings besides its payload."""

    kind: Kind = Kind.MESSAGE
    #: The caller's number of the call that this is a request of or an answer to; 0 for none.
    call: int = 0
    headers: Mapping[str, bytes] = field(default_factory=lambda: NO_HEADERS, hash=False)

    @property
    def key(self) -> bytes:
        """By which the message is recognised when it is sent again; empty without one."""
        key = self.headers.get(KEY, b"")
        return key if len(key) <= KEY_BYTES_MAX else b""


NO_ENVELOPE = Envelope()


def wrap(envelope: Envelope, payload: bytes) -> bytes:
    """The payload in its envelope. Raises LocalError for headers that are too many or too large, TypeError for a wrong type."""
    if len(envelope.headers) > HEADERS_MAX:
        raise LocalError(f"{len(envelope.headers)} headers are more than the allowed {HEADERS_MAX}")
    parts = [_FIXED.pack(envelope.kind, envelope.call, len(envelope.headers))]
    size = 0
    for name, value in envelope.headers.items():
        encoded = name.encode()
        if not 0 < len(encoded) <= _NAME_BYTES_MAX:
            raise LocalError(f"the name of a header has 1 to {_NAME_BYTES_MAX} bytes, not {len(encoded)}")
        if type(value) is not bytes:
            raise TypeError(f"a header must be bytes, not {type(value).__name__}")
        size += 3 + len(encoded) + len(value)
        if size > HEADERS_BYTES_MAX:
            raise LocalError(f"the headers take more than the allowed {HEADERS_BYTES_MAX} bytes")
        parts += [bytes([len(encoded)]), encoded, _U16.pack(len(value)), value]
    return b"".join([*parts, payload])


def unwrap(data: bytes) -> tuple[Envelope, bytes]:
    """The envelope and the payload. Raises ProtocolError("envelope") for what `wrap` cannot have made."""
    try:
        kind, call, count = _FIXED.unpack_from(data)
        if count > HEADERS_MAX:
            raise ProtocolError("envelope")
        at = _FIXED.size
        headers: dict[str, bytes] = {}
        for _ in range(count):
            name, at = _text(data, at, data[at], 1)
            value, at = _text(data, at, _U16.unpack_from(data, at)[0], 2)
            headers[name.decode()] = value
        if len(headers) != count or at - _FIXED.size > HEADERS_BYTES_MAX:
            raise ProtocolError("envelope")
        return Envelope(Kind(kind), call, MappingProxyType(headers)), data[at:]
    except (struct.error, IndexError, ValueError) as error:  # a word that is no UTF-8 is a ValueError too
        raise ProtocolError("envelope") from error


def _text(data: bytes, at: int, size: int, length_bytes: int) -> tuple[bytes, int]:
    begin = at + length_bytes
    end = begin + size
    if end > len(data):
        raise ProtocolError("envelope")
    return data[begin:end], end
