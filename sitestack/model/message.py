"""The batch: the unit that is numbered, ordered, retransmitted, relayed and acknowledged; and the message an application sees.

A batch holds 1..n application messages of one origin for one destination, numbered `first .. first + count - 1` in the origin's
counter of that scope. It is atomic from its origin to every delivery: nothing in between splits, merges or re-cuts it, and its
body is opaque to everything but the two ends.

Body: `count` little-endian u32 sizes, then the payloads back to back. A message with a key is a batch of its own, and its body
ends with the key, so that whoever relays the batch relays the key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

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

#: Bytes of a message's key at most.
KEY_BYTES_MAX = 128

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

    @property
    def key(self) -> bytes:
        """The key that the sender gave to the only message of this batch; empty without one."""
        if self.count != 1 or len(self.body) < 4:
            return b""
        key = self.body[4 + int.from_bytes(self.body[:4], "little") :]
        return key if len(key) <= KEY_BYTES_MAX else b""

    def payloads(self) -> Iterator[bytes]:
        """The payloads in order. Raises ProtocolError("body") when the body does not hold exactly `count` messages."""
        return unpack_body(self.body, self.count)


def copy_buffer(what: str, data: Buffer) -> bytes:
    """A copy of the buffer's bytes. Raises TypeError for anything else, also an `int`, of which `bytes` would make zeros."""
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise TypeError(f"{what} must be bytes, not {type(data).__name__}") from None


def pack_body(payloads: Sequence[bytes], key: bytes = b"") -> bytes:
    """The body that holds these payloads, or one payload and its key."""
    return struct.pack(f"<{len(payloads)}I", *map(len, payloads)) + b"".join(payloads) + key


def unpack_body(body: bytes, count: int) -> Iterator[bytes]:
    """The payloads of a body. Raises ProtocolError("body") when sizes and length disagree."""
    if 4 * count > len(body):
        raise ProtocolError("body")
    sizes = struct.unpack_from(f"<{count}I", body)
    rest = len(body) - 4 * count - sum(sizes)
    if rest and not (count == 1 and 0 < rest <= KEY_BYTES_MAX):
        raise ProtocolError("body")
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
