"""The batch: the unit that is numbered, ordered, retransmitted, relayed and acknowledged; and the message an application sees.

A batch holds 1..n application messages of one origin for one destination, numbered `first .. first + count - 1` in the origin's
counter of that scope. It is atomic from its origin to every delivery: nothing in between splits, merges or re-cuts it, and its
body is opaque to everything but the two ends.

Body: `count` little-endian u32 sizes, then the payloads back to back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from itertools import count, repeat
from typing import NamedTuple

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.roster import NOBODY, Roster


class Scope(IntEnum):
    """The counter of an origin that numbers a message (R28: one counter per scope, so a hole is always a hole)."""

    #: To every member of the site, and relayed to the other sites.
    ALL = 0
    #: To every member of the site only.
    SITE = 1
    #: To one member, of this or another site; one counter per target.
    UNICAST = 2
    #: Out of band: to one member of this site, delivered once, on arrival; one counter per target.
    OOB = 3


#: The types that an application may pass as bytes.
Buffer = bytes | bytearray | memoryview

#: The scopes of messages to one member: their batches have a target, all others have none.
UNICASTS = (Scope.UNICAST, Scope.OOB)


@fast_frozen
@dataclass(frozen=True, slots=True)
class Batch:
    """The messages `(site, origin, scope, n)` with n in `first .. first + count - 1` (for a unicast also the target)."""

    site: str
    origin: Address
    scope: Scope
    first: int
    count: int
    body: bytes
    #: The member a unicast is for; None for a multicast.
    target: Address | None = None
    #: The site of the target of a unicast; empty for a multicast.
    target_site: str = ""

    @property
    def last(self) -> int:
        """The number of the last message in the batch."""
        return self.first + self.count - 1

    @property
    def sizes(self) -> bytes:
        """The size table of the body: `count` little-endian u32."""
        return self.body[: 4 * self.count]

    def payloads(self) -> Iterator[bytes]:
        """The payloads in order. Raises ProtocolError("body") when the body does not hold exactly `count` messages."""
        return unpack_body(self.body, self.count)


def copy_buffer(what: str, data: Buffer) -> bytes:
    """A copy of the buffer's bytes. Raises TypeError for anything else, also an `int`, of which `bytes` would make zeros."""
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise TypeError(f"{what} must be bytes, not {type(data).__name__}") from None


def pack_body(payloads: Sequence[bytes]) -> bytes:
    """The body that holds these payloads."""
    return b"".join((struct.pack(f"<{len(payloads)}I", *map(len, payloads)), *payloads))


def unpack_body(body: bytes, number: int) -> Iterator[bytes]:
    """The payloads of a body with so many. Raises ProtocolError("body") when sizes and length disagree."""
    table = body[: 4 * number]
    first = table[:4]
    if first * number != table:
        return _slices(body, _sizes(body, number))
    size = int.from_bytes(first, "little")
    if number * (4 + size) != len(body):
        raise ProtocolError("body")
    return iter(_cutter(size, number)(body, 4 * number))


@lru_cache(maxsize=32)
def _cutter(size: int, number: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    """Cuts so many payloads of one size out of a body: most batches are such, and like the one before."""
    return struct.Struct(f"{size}s" * number).unpack_from


def _sizes(body: bytes, number: int) -> tuple[int, ...]:
    if 4 * number > len(body):
        raise ProtocolError("body")
    sizes: tuple[int, ...] = struct.unpack_from(f"<{number}I", body)
    if 4 * number + sum(sizes) != len(body):
        raise ProtocolError("body")
    return sizes


def _slices(body: bytes, sizes: tuple[int, ...]) -> Iterator[bytes]:
    at = 4 * len(sizes)
    for size in sizes:
        yield body[at : at + size]
        at += size


@fast_frozen
@dataclass(frozen=True, slots=True)
class MessageId:
    """The identity of one message from end to end."""

    site: str
    origin: Address
    scope: Scope
    n: int


class _MessageFields(NamedTuple):
    """What a message is made of. `stem` is the id of a message of the same batch: it makes none for each message."""

    source: Address
    payload: bytes
    stem: MessageId
    number: int
    roster: Roster


class Message(_MessageFields):
    """A message as the application receives it. `source` can be replied to; for another site it is a `ProxyUUID`.

    Two messages are equal when their source, payload and id are, whatever the names at the time. It is a tuple, which is made
    in half the time of any other object; that it is one means nothing: its parts have names, and no order.
    """

    __slots__ = ()
    __match_args__ = ("source", "payload", "id", "roster")

    def __new__(cls, source: Address, payload: bytes, id: MessageId, roster: Roster = NOBODY) -> Message:
        return tuple.__new__(cls, (source, payload, id, id.n, roster))

    def __getnewargs__(self) -> tuple[Address, bytes, MessageId, Roster]:
        return (self.source, self.payload, self.id, self.roster)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return False  # also to the tuple that it is
        return self.payload == other.payload and self.source == other.source and self.id == other.id

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.source, self.payload, self.id))

    def __repr__(self) -> str:
        return f"Message(source={self.source!r}, payload={self.payload!r}, id={self.id!r})"

    @property
    def id(self) -> MessageId:
        """Its identity from end to end."""
        stem = self.stem
        return MessageId(stem.site, stem.origin, stem.scope, self.number)

    @property
    def sender(self) -> str:
        """The logical name of the sender: `B`, or `E@SFO` when it is in another site; the address for an unknown one.

        A name is for display, and two members may have the same one. `source` tells them apart.
        """
        return self.roster.name_of(self.source)

    @property
    def scope(self) -> Scope:
        """Whether the message went to all sites, to this site, or to this member only."""
        return self.stem.scope


_make_message = partial(tuple.__new__, Message)


def make_messages(source: Address, batch: Batch, roster: Roster) -> Iterator[Message]:
    """The messages of a batch in order, each made by nothing but C. Raises ProtocolError("body")."""
    # An id and not the batch, of which one message that is kept would keep the whole body.
    stem = MessageId(batch.site, batch.origin, batch.scope, batch.first)
    fields = zip(repeat(source), batch.payloads(), repeat(stem), count(batch.first), repeat(roster))
    return map(_make_message, fields)
