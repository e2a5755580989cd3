"""Wire format of the bridge: a u32 length, then one frame as `[id, field, ...]`.

The length is checked before allocation (C11), with a small limit before the peer's HELLO. TCP (TLS)
guards the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector, UnicastReply
from relay.replica.site_state import STATE_FRAMES, StateFrame
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import ViewId
from sitestack.wire.codec import Codec

#: Version of the protocol; both ends of a link must use the same one.
VERSION = 1
#: Bytes of the largest first frame: limits what a stranger can make a relay buffer.
HELLO_BYTES_MAX = 4_096
#: Maximum number of sites that a batch or a piece of a route may visit (R12).
HOPS_MAX = 16
#: Maximum bytes that a DATA or UNICAST frame adds to its batch's body.
DATA_OVERHEAD_BYTES = 4_096
#: Maximum bytes that a ROUTED frame adds to its chunk.
ROUTED_OVERHEAD_BYTES = 4_096
_LENGTH_BYTES = 4
_COUNT_BITS = 32


@dataclass(frozen=True, slots=True)
class Hello(Header):
    """HELLO: the first frame in both directions."""

    version: int
    site: str
    lineage: ViewId
    epoch: ViewId
    relay: Address
    name: str
    #: The sender's count of connections, from 1, and above its 32 bits `decompressed_bytes_max`.
    link: int
    window_bytes: int
    frame_bytes_max: int

    @property
    def decompressed_bytes_max(self) -> int:
        """Bytes of the largest COMPRESSED frame that this relay accepts, decompressed; 0: it accepts none."""
        return self.link >> _COUNT_BITS


@dataclass(frozen=True, slots=True)
class Compressed(Header):
    """COMPRESSED: whole frames, compressed with zstd; only between relays that both offered it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class State(Header):
    """STATE: numbers that the sender's whole site has admitted, per other site; absent: unknown site."""

    vectors: dict[str, SiteVector]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Ack(Header):
    """ACK: numbers that became stable in the sender's site since its last ACK here, per other site."""

    vectors: dict[str, SiteVector]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Data(Header):
    """DATA: a batch of scope ALL; `visited` names the sites that it has visited."""

    visited: tuple[str, ...]
    batch: Batch


@dataclass(frozen=True, slots=True)
class RemoteUnicast(Header):
    """UNICAST: a batch for one member; `after` and `attempt` as in `ForwardUnicast`."""

    after: int
    attempt: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Routed(Header):
    """ROUTED: a piece of a route, which connects two sites over links of others (`routes.py`)."""

    #: The sending site, and the site at the other end of the route.
    source: str
    target: str
    #: Id of the route: the relay that opened it, and its counter.
    opener: Address
    number: int
    #: Number of earlier pieces in this direction.
    at: int
    #: The sites that have forwarded this piece (R12).
    visited: tuple[str, ...]
    ended: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat(Header):
    """HEARTBEAT: sent without other traffic, so that the peer knows that this end lives."""


@dataclass(frozen=True, slots=True)
class Bye(Header):
    """BYE: this end closes the connection, with a reason. It only shortens detection (R8)."""

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
    **STATE_FRAMES,
    0x12C: Compressed,
}

#: Frames for one member of the receiver's site.
ForOne: TypeAlias = RemoteUnicast | UnicastReply | StateFrame

_CODEC = Codec("", FRAMES)


def number_link(count: int, decompressed_bytes_max: int) -> int:
    """Return `Hello.link`."""
    return count + (decompressed_bytes_max << _COUNT_BITS)


def encode(frame: Header) -> bytes:
    packed = _CODEC.pack(frame)
    return len(packed).to_bytes(_LENGTH_BYTES, "big") + packed


class FrameParser:
    """Cuts a stream of bytes into frames.

    Holds one unfinished frame of `bytes_max`, plus the last bytes fed.
    """

    def __init__(self, bytes_max: int) -> None:
        #: May be raised between two frames, as after HELLO.
        self.bytes_max = bytes_max
        self._bytes = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def next_frame(self) -> Header | None:
        """Return the next whole frame, or None.

        Raises ProtocolError; then the stream is unusable.
        """
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

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of an incomplete frame, once `next_frame` has returned None."""
        return len(self._bytes) - self._start


def require_standing(peer: str, site: str, frame: Header) -> None:
    """Raise ProtocolError for a frame that a relay of site `peer` must not send to one of `site`.

    A relay speaks for its own site alone, so it can forge only that site's members (C9). Frames for
    a third site travel over a route, and are judged at its far end.
    """
    if not _has_standing(peer, site, frame):
        raise ProtocolError("foreign_site")


def _has_standing(peer: str, site: str, frame: Header) -> bool:
    match frame:
        case Data(visited, batch):
            own = batch.site == peer and batch.scope is Scope.ALL
            return own and visited[:1] == (peer,) and len(visited) <= HOPS_MAX
        case RemoteView(of) | RemoteBaseline(of):
            return of == peer
        case RemoteGap(of, _, first, last):
            return of == peer and 0 < first <= last
        case RemoteUnicast(_, _, batch):
            return batch.site == peer and batch.target_site == site and batch.target is not None
        case StateFrame():
            return (frame.site, frame.dest_site) == (peer, site)
        case UnicastReply():
            return (frame.target_site, frame.site) == (peer, site)
        case State(vectors) | Ack(vectors):
            return set(vectors) <= {site}
        case Routed():
            # A site that forwards a piece appends its name.
            return frame.visited[-1:] == (() if frame.source == peer else (peer,))
        case _:
            return True
