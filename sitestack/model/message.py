"""The batch: the unit that is numbered, ordered, retransmitted, relayed and acknowledged; and the message an application sees.

A batch holds 1..n application messages of one origin for one destination, numbered `first .. first + count - 1` in the origin's
counter of that scope. It is atomic from its origin to every delivery: nothing in between splits, merges or re-cuts it, and its
body is opaque to everything but the two ends.

Body: `count` little-endian u32 sizes, then the payloads back to back. The highest bit of the first size says that each payload
is in an envelope (`envelope.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from sitestack.model.address import Address
from sitestack.model.envelope import NO_HEADERS, Envelope, Kind, unwrap
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.roster import NOBODY, Roster

#: The bit of the first size by which the payloads of a body are in envelopes. No payload is so large.
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
        """The sizes of the payloads, with their envelopes: `count` little-endian u32."""
        sizes = self.body[: 4 * self.count]
        return sizes[:3] + bytes([sizes[3] & 0x7F]) + sizes[4:] if self.has_envelopes else sizes

    @property
    def has_envelopes(self) -> bool:
        """Whether each payload is in an envelope."""
        return self.body[3:4] >= b"\x80"

    def payloads(self) -> Iterator[bytes]:
        """The payloads in order, without their envelopes.

        Raises ProtocolError when the body does not hold exactly `count` messages, or an envelope cannot be read.
        """
        if self.has_envelopes:
            return (payload for _, payload in self.opened())
        return unpack_body(self.body, self.count)

    def opened(self) -> Iterator[tuple[Envelope, bytes]]:
        """The envelopes and payloads in order; only of a batch that has envelopes. Raises ProtocolError."""
        return map(unwrap, unpack_body(self.body, self.count))


def copy_buffer(what: str, data: Buffer) -> bytes:
    """A copy of the buffer's bytes. Raises TypeError for anything else, also an `int`, of which `bytes` would make zeros."""
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise TypeError(f"{what} must be bytes, not {type(data).__name__}") from None


def pack_body(payloads: Sequence[bytes], envelopes: bool = False) -> bytes:
    """The body that holds these payloads; `envelopes` says that each of them is in one."""
    body = struct.pack(f"<{len(payloads)}I", *map(len, payloads)) + b"".join(payloads)
    return body[:3] + bytes([body[3] | 0x80]) + body[4:] if envelopes else body


def unpack_body(body: bytes, count: int) -> Iterator[bytes]:
    """The payloads of a body, in their envelopes. Raises ProtocolError("body") when sizes and length disagree."""
    if 4 * count > len(body):
        raise ProtocolError("body")
    sizes = struct.unpack_from(f"<{count}I", body)
    if 4 * count + sum(sizes) != len(body):
        if not sizes or sizes[0] < _ENVELOPES or 4 * count + sum(sizes) - _ENVELOPES != len(body):
            raise ProtocolError("body")
        sizes = (sizes[0] - _ENVELOPES, *sizes[1:])
    return _slices(body, sizes)


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


@fast_frozen
@dataclass(frozen=True, slots=True)
class Message:
    """A message as the application receives it. `source` can be replied to; for another site it is a `ProxyUUID`."""

    source: Address
    payload: bytes
    id: MessageId
    #: The logical names at the time of delivery.
    roster: Roster = field(default=NOBODY, repr=False, compare=False)

    @property
    def sender(self) -> str:
        """The logical name of the sender: `B`, or `E@SFO` when it is in another site; the address for an unknown one.

        A name is for display, and two members may have the same one. `source` tells them apart.
        """
        return self.roster.name_of(self.source)

    @property
    def scope(self) -> Scope:
        """Whether the message went to all sites, to this site, or to this member only."""
        return self.id.scope

    @property
    def headers(self) -> Mapping[str, bytes]:
        """What the sender gave along with the payload: `send(..., headers=...)`."""
        return NO_HEADERS

    @property
    def call(self) -> int:
        """The sender's number of the call that waits for an answer to this message; 0 when none does (`Channel.answer`)."""
        return 0


@fast_frozen
@dataclass(frozen=True, slots=True)
class EnvelopedMessage(Message):
    """A message that came in an envelope. A class of its own, so that all others have nothing to carry."""

    envelope: Envelope = field(default=Envelope(), kw_only=True)

    @property
    def headers(self) -> Mapping[str, bytes]:
        return self.envelope.headers

    @property
    def call(self) -> int:
        return self.envelope.call if self.envelope.kind is Kind.REQUEST else 0
