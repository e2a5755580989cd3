"""The bytes of the bridge: u32 length, then one frame as `[id, field, ...]`.

The length is checked before anything is allocated for it (C11), and the limit is small until the peer has said HELLO. The
parser takes the stream cut anywhere. TCP (TLS) guards the bytes on the way; the epoch of a connection is that of its HELLO.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector, UnicastReply
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch
from sitestack.model.view import ViewId
from sitestack.wire.codec import Codec

#: Both ends must speak the same one.
VERSION = 1
#: What a stranger may make us buffer: a HELLO has a name and a few addresses.
HELLO_BYTES_MAX = 4_096
#: What a DATA or UNICAST frame adds to the body of its batch: generous.
DATA_OVERHEAD_BYTES = 4_096
#: What a ROUTED frame adds to the chunk in it: the sites that it has been to have long names at most.
ROUTED_OVERHEAD_BYTES = 4_096
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Hello(Header):
    """HELLO: the first frame in both directions. `link` numbers the connections that this relay makes or accepts, from 1."""

    version: int
    site: str
    lineage: ViewId
    epoch: ViewId
    relay: Address
    name: str
    link: int
    #: How many bytes may be on their way to this relay without being acknowledged.
    window_bytes: int
    #: The largest frame that it takes.
    frame_bytes_max: int


@dataclass(frozen=True, slots=True)
class State(Header):
    """STATE: what the whole site of the sender has admitted, per site. A site that is absent is unknown to it."""

    vectors: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class Ack(Header):
    """ACK: what has become stable in the site of the sender since its last ACK on this connection, per site."""

    vectors: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class Data(Header):
    """DATA: a batch of scope ALL, and the sites that it has been to."""

    visited: tuple[str, ...]
    batch: Batch


@dataclass(frozen=True, slots=True)
class RemoteUnicast(Header):
    """A batch for one member of the receiver's site."""

    after: int
    attempt: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Routed(Header):
    """ROUTED: a piece of a connection between two sites that have none, handed on from link to link (`routes.py`)."""

    #: The sites at whose ends it enters and leaves.
    source: str
    target: str
    #: The relay that opened the route, and how many it had opened by then.
    opener: Address
    number: int
    #: How many pieces went before it in this direction.
    at: int
    #: The sites that have handed it on (R12).
    visited: tuple[str, ...]
    #: It is the last one.
    ended: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat(Header):
    """HEARTBEAT: this end lives."""


@dataclass(frozen=True, slots=True)
class Bye(Header):
    """BYE: this end closes, and why. It shortens detection and spares nobody the next STATE (R8)."""

    reason: str


FRAMES: dict[int, type[Header]] = {
    0x101: RemoteView,
    0x106: RemoteGap,
    0x107: RemoteBaseline,
    0x112: UnicastReply,
    0x120: Hello,
    0x121: State,
    0x122: Data,
    0x123: Ack,
    0x124: RemoteUnicast,
    0x125: Heartbeat,
    0x126: Bye,
    0x127: Routed,
}

_CODEC = Codec("", FRAMES)


def encode(frame: Header) -> bytes:
    """A frame with its length before it."""
    packed = _CODEC.pack(frame)
    return len(packed).to_bytes(_LENGTH_BYTES, "big") + packed


class FrameParser:
    """Takes a stream of bytes, gives frames. Holds at most one unfinished frame of `bytes_max` and what was fed last."""

    def __init__(self, bytes_max: int) -> None:
        #: May be raised between two frames.
        self.bytes_max = bytes_max
        self._bytes = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def next_frame(self) -> Header | None:
        """The next whole frame, or None. Raises ProtocolError; the stream is unusable after that."""
        start = self._start + _LENGTH_BYTES
        if len(self._bytes) < start:
            return None
        length = int.from_bytes(self._bytes[self._start : start], "big")
        if not 0 < length <= self.bytes_max:
            raise ProtocolError("bridge_length")
        end = start + length
        if len(self._bytes) < end:
            return None
        self._start = end
        return _CODEC.parse(bytes(memoryview(self._bytes)[start:end]))
