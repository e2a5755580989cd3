"""The batch: the unit that is numbered, ordered, retransmitted, relayed and acknowledged; and an
application's message.

A batch holds 1..n messages of one origin for one destination, numbered `first .. first + count - 1`
in the origin's counter of that scope. It is never split or re-cut on its way, and only the two ends
read its body.

Body: `count` little-endian u32 sizes, then the payloads back to back. The highest bit of the first
size marks a body whose payloads are all in envelopes (`envelope.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache, partial
from itertools import count, groupby, repeat
from typing import Any, NamedTuple, cast

from sitestack.model.address import Address
from sitestack.model.envelope import NO_ENVELOPE, NO_HEADERS, Envelope, Kind, unwrap, unwrap_key
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.roster import NOBODY, Roster

#: The bit of the first size that marks payloads in envelopes.
_ENVELOPES = 1 << 31


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


Buffer = bytes | bytearray | memoryview

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
    target: Address | None = None
    #: Empty for a multicast.
    target_site: str = ""

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def sizes(self) -> bytes:
        """The sizes of the payloads, with their envelopes: `count` little-endian u32."""
        sizes = self.body[: 4 * self.count]
        return sizes[:3] + bytes([sizes[3] & 0x7F]) + sizes[4:] if sizes[3:4] >= b"\x80" else sizes

    @property
    def has_envelopes(self) -> bool:
        return self.body[3:4] >= b"\x80"

    def keyed(self) -> list[tuple[bytes, bytes]]:
        """Return the key and the payload of each message; nothing if the first has no key, or for a malformed batch."""
        if self.target is not None or not self.has_envelopes:
            return []
        try:
            bodies = unpack_body(self.body, self.count)
            if not (first := unwrap_key(next(bodies)))[0]:
                return []
            return [first, *map(unwrap_key, bodies)]
        except ProtocolError:
            return []

    def without(self, numbers: Collection[int]) -> Sequence[Batch]:
        """Return the messages with other numbers: a batch for each run of them."""
        if not numbers:
            return (self,)
        parts: list[Batch] = []
        numbered = enumerate(unpack_body(self.body, self.count), self.first)
        for is_left_out, run in groupby(numbered, lambda each: each[0] in numbers):
            if not is_left_out:
                places, bodies = zip(*run, strict=True)
                body = pack_body(bodies, self.has_envelopes)
                parts.append(replace(self, first=places[0], count=len(bodies), body=body))
        return parts

    def payloads(self) -> Iterator[bytes]:
        """Return the payloads in order, without their envelopes.

        Raise ProtocolError if the body does not hold exactly `count` messages, or for an unreadable
        envelope.
        """
        if self.has_envelopes:
            return (payload for _, payload in self.opened())
        return unpack_body(self.body, self.count)

    def opened(self) -> Iterator[tuple[Envelope, bytes]]:
        """Return the envelopes and payloads in order, of a batch with envelopes.

        Raise ProtocolError.
        """
        return map(unwrap, unpack_body(self.body, self.count))


def copy_buffer(what: str, data: Buffer) -> bytes:
    """Return a copy of the buffer.

    Raise TypeError for other types, also `int`, which `bytes` would turn into zeros.
    """
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise TypeError(f"{what} must be bytes, not {type(data).__name__}") from None


def pack_body(payloads: Sequence[bytes], envelopes: bool = False) -> bytes:
    """Return the body with these payloads; `envelopes` marks them as wrapped."""
    sizes = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
    if envelopes:
        sizes = sizes[:3] + bytes([sizes[3] | 0x80]) + sizes[4:]
    return b"".join((sizes, *payloads))


def unpack_body(body: bytes, number: int) -> Iterator[bytes]:
    """Return the `number` payloads of a body, in their envelopes.

    Raise ProtocolError("body") when sizes and length disagree.
    """
    table = body[: 4 * number]
    first = table[:4]
    if len(table) < 4 * number or first * number != table or first[3:] >= b"\x80":
        return _slices(body, _sizes(body, number))
    size = int.from_bytes(first, "little")
    if number * (4 + size) != len(body):
        raise ProtocolError("body")
    return iter(_cutter(size, number)(body, 4 * number))


@lru_cache(maxsize=32)
def _cutter(size: int, number: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    """Return a cutter for `number` payloads of one size, as in most batches."""
    return struct.Struct(f"{size}s" * number).unpack_from


def _sizes(body: bytes, number: int) -> tuple[int, ...]:
    if 4 * number > len(body):
        raise ProtocolError("body")
    sizes: tuple[int, ...] = struct.unpack_from(f"<{number}I", body)
    if sizes and sizes[0] >= _ENVELOPES:
        sizes = (sizes[0] - _ENVELOPES, *sizes[1:])
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
    """The fields of a message. `stem`: an id of a message of its batch."""

    source: Address
    payload: bytes
    stem: MessageId
    number: int
    roster: Roster


class Message(_MessageFields):
    """A message as the application receives it. `source` is a target for replies: a `ProxyUUID`.

    Two messages are equal when their source, payload and id are, even with different names. A tuple
    is made in half the time of any other object; its order means nothing.
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
        stem = self.stem
        return MessageId(stem.site, stem.origin, stem.scope, self.number)

    @property
    def sender(self) -> str:
        """The logical name of the sender: `B`, or `E@SFO` in another site; the address for an
        unknown one.

        A name is for display, and two members may share one. `source` distinguishes them.
        """
        return self.roster.name_of(self.source)

    @property
    def scope(self) -> Scope:
        """Whether the message went to all sites, to this site, or to this member only."""
        return self.stem.scope

    @property
    def headers(self) -> Mapping[str, bytes]:
        """The headers that the sender set: `send(..., headers=...)`."""
        return NO_HEADERS

    @property
    def call(self) -> int:
        """The sender's number of the call that waits for an answer to this message; 0 for none (`Channel.answer`)."""
        return 0


class EnvelopedMessage(Message):
    """A message with an envelope."""

    __slots__ = ()

    def __new__(
        cls, source: Address, payload: bytes, id: MessageId, roster: Roster = NOBODY, envelope: Envelope = NO_ENVELOPE
    ) -> EnvelopedMessage:
        return tuple.__new__(cls, (source, payload, id, id.n, roster, envelope))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*super().__getnewargs__(), self.envelope)

    @property
    def envelope(self) -> Envelope:
        return cast("Envelope", tuple.__getitem__(self, -1))

    @property
    def headers(self) -> Mapping[str, bytes]:
        return self.envelope.headers

    @property
    def call(self) -> int:
        return self.envelope.call if self.envelope.kind is Kind.REQUEST else 0


_make_message = partial(tuple.__new__, Message)


def make_messages(source: Address, batch: Batch, roster: Roster) -> Iterator[Message]:
    """Return the messages of a batch in order, made by C code.

    Raise ProtocolError("body").
    """
    # an id: the batch would keep the whole body alive
    stem = MessageId(batch.site, batch.origin, batch.scope, batch.first)
    if batch.has_envelopes:
        return _enveloped(source, batch, stem, roster)
    fields = zip(repeat(source), batch.payloads(), repeat(stem), count(batch.first), repeat(roster))
    return map(_make_message, fields)


def _enveloped(source: Address, batch: Batch, stem: MessageId, roster: Roster) -> Iterator[Message]:
    # a batch is accepted whole or not at all
    for n, (envelope, payload) in enumerate(list(batch.opened()), batch.first):
        yield EnvelopedMessage(source, payload, replace(stem, n=n), roster, envelope)
