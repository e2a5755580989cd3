"""What travels with the application's state, before it, after `MARK`: gaps, message keys and numbers.

The receiver is notified of the gaps, recognises repeats of the keys, and drops waiting messages up to the
numbers. A state without any travels unchanged.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.wire.codec import Codec

#: First bytes of a state with extras; random.
MARK = bytes.fromhex("b752e5c08a7d4f19")
_SIZE = struct.Struct(">I")


class StateKey(NamedTuple):
    """A key whose message is in the state: id and digest of the message, and the key's age (s)."""

    key: bytes
    site: str
    origin: Address
    scope: Scope
    n: int
    digest: bytes
    age_s: float


class StateNumber(NamedTuple):
    """The last multicast of a stream in the state or its gaps."""

    site: str
    origin: Address
    scope: Scope
    last: int


@dataclass(frozen=True, slots=True)
class StateExtras(Header):
    """The gaps of a state, oldest first, and its keys in the order of delivery.

    Members that merge may deliver a message in different views, so the numbers say what a state contains.
    """

    #: Maximum number of gaps, of keys and of numbers.
    items_max: ClassVar[int] = 65_536

    gaps: tuple[Gap, ...] = ()
    keys: tuple[StateKey, ...] = ()
    numbers: tuple[StateNumber, ...] = ()


_EXTRAS = Codec("", {1: StateExtras})


def join_extras(extras: StateExtras, state: bytes, bytes_max: int) -> bytes:
    """Return the bytes that travel. Above the bound the oldest keys are left out."""
    if extras == StateExtras() and not state.startswith(MARK):
        return state
    packed = _EXTRAS.pack(extras)
    if extras.keys and len(MARK) + _SIZE.size + len(packed) + len(state) > bytes_max:
        newer = extras.keys[(len(extras.keys) + 1) // 2 :]
        return join_extras(replace(extras, keys=newer), state, bytes_max)
    return b"".join((MARK, _SIZE.pack(len(packed)), packed, state))


def split_extras(data: bytes) -> tuple[StateExtras, bytes]:
    """Return the extras and the state in these bytes. Raises ProtocolError."""
    if not data.startswith(MARK):
        return StateExtras(), data
    start = len(MARK) + _SIZE.size
    if len(data) < start:
        raise ProtocolError("malformed")
    end = start + _SIZE.unpack_from(data, len(MARK))[0]
    if len(data) < end:
        raise ProtocolError("malformed")
    extras = _EXTRAS.parse(data[start:end])
    assert isinstance(extras, StateExtras)
    return extras, data[end:]
