"""The envelope of a message: the application's headers, and its role in a group call.

All messages of a batch have envelopes or none has, marked by one bit of its body (`message.py`).

Layout: kind (u8), call (u64), count of headers (u8), then each header as length (u8), name (UTF-8),
length (u16), value; then the payload. All numbers are little-endian.
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

#: Maximum headers of a message, and maximum bytes that they take with their names and lengths.
HEADERS_MAX = 16
HEADERS_BYTES_MAX = 1_024
_NAME_BYTES_MAX = 255

#: Of messages with one key each member delivers the first.
KEY = "idempotency-key"
KEY_BYTES_MAX = 128

STRUCTURE = "structure"

NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})


class Kind(IntEnum):
    """The kind of a message with an envelope."""

    MESSAGE = 0
    #: A message that the application has to answer.
    REQUEST = 1
    ANSWER = 2
    #: A message that the channel itself answers, after delivering all messages before it.
    PROBE = 3
    DELIVERED = 4
    STRUCTURE = 5


#: Messages between channels, which are not delivered to an application.
BETWEEN_CHANNELS = (Kind.ANSWER, Kind.PROBE, Kind.DELIVERED, Kind.STRUCTURE)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The parts of a message besides its payload."""

    kind: Kind = Kind.MESSAGE
    #: The caller's number of the call; 0 for none.
    call: int = 0
    headers: Mapping[str, bytes] = field(default_factory=lambda: NO_HEADERS, hash=False)

    @property
    def key(self) -> bytes:
        """The key that identifies the message when it is sent again; empty without one."""
        key = self.headers.get(KEY, b"")
        return key if len(key) <= KEY_BYTES_MAX else b""


NO_ENVELOPE = Envelope()


def wrap_keyed(key: bytes, headers: Mapping[str, bytes] | None, payload: bytes) -> bytes:
    """Return the payload in an envelope with a key of at most `KEY_BYTES_MAX` bytes. Raise as `wrap` does."""
    if not headers:
        return b"".join((_KEY_ALONE, _U16.pack(len(key)), key, payload))
    return wrap(Envelope(headers={**headers, KEY: key}), payload)


def unwrap_key(data: bytes) -> tuple[bytes, bytes]:
    """Return the key, empty without one, and the payload.

    Raise ProtocolError("envelope") for data that `wrap` cannot have made.
    """
    at = len(_KEY_ALONE)
    if data.startswith(_KEY_ALONE) and (size := int.from_bytes(data[at : at + 2], "little")) <= KEY_BYTES_MAX:
        key, end = _text(data, at, size, 2)
        return key, data[end:]
    envelope, payload = unwrap(data)
    return envelope.key, payload


def wrap(envelope: Envelope, payload: bytes) -> bytes:
    """Return the payload in its envelope.

    Raise LocalError for headers that are too many or too large, TypeError for a wrong type.
    """
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
    """Return the envelope and the payload.

    Raise ProtocolError("envelope") for data that `wrap` cannot have made.
    """
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
    except (struct.error, IndexError, ValueError) as error:  # invalid UTF-8 is a ValueError too
        raise ProtocolError("envelope") from error


def _text(data: bytes, at: int, size: int, length_bytes: int) -> tuple[bytes, int]:
    begin = at + length_bytes
    end = begin + size
    if end > len(data):
        raise ProtocolError("envelope")
    return data[begin:end], end


#: Everything before the key's length where the key is the only header.
_KEY_ALONE = wrap(Envelope(headers={KEY: b""}), b"")[:-2]
