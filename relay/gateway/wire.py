"""Wire format of the bridge: a u32 length, then one frame as `[id, field, ...]`.

The length is checked before anything is allocated for it (C11), and the limit is small until the peer has said HELLO. The
parser accepts a stream cut at any byte. There is no checksum: TCP (TLS) guards the bytes. The epoch of a connection is the one
in its HELLO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector, UnicastReply
from relay.replica.site_state import STATE_FRAMES, StateFrame
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import ViewId
from sitestack.wire.codec import Codec

#: Version of the protocol; both ends of a link must speak the same one.
VERSION = 1
#: Largest first frame, so that a stranger cannot make a relay buffer more: a HELLO has a name and a few addresses.
HELLO_BYTES_MAX = 4_096
#: Number of sites that one batch, or a piece of a route, may have been to (R12).
HOPS_MAX = 16
#: Bytes that a DATA or UNICAST frame adds to the body of its batch, at most; a generous estimate.
DATA_OVERHEAD_BYTES = 4_096
#: Bytes that a ROUTED frame adds to the chunk in it, at most: mainly the names of the sites that it has been to.
ROUTED_OVERHEAD_BYTES = 4_096
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Hello(Header):
    """HELLO: the first frame in both directions. `link`: number of this connection at the sending relay, counted from 1."""

    version: int
    site: str
    lineage: ViewId
    epoch: ViewId
    relay: Address
    name: str
    link: int
    #: Bytes of batches that may be sent to this relay without being acknowledged.
    window_bytes: int
    #: Bytes of the largest frame that this relay takes.
    frame_bytes_max: int


@dataclass(frozen=True, slots=True)
class State(Header):
    """STATE: what the whole site of the sender has admitted, per other site. An absent site is unknown to it."""

    vectors: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class Ack(Header):
    """ACK: what has become stable in the sender's site since its last ACK on this connection, per other site."""

    vectors: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class Data(Header):
    """DATA: a batch of scope ALL; `visited` names the sites that it has been to."""

    visited: tuple[str, ...]
    batch: Batch


@dataclass(frozen=True, slots=True)
class RemoteUnicast(Header):
    """UNICAST: a batch for one member of the receiver's site; `after` and `attempt` as in `ForwardUnicast`."""

    after: int
    attempt: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Routed(Header):
    """ROUTED: a piece of a route, which connects two sites over the links of others (`routes.py`)."""

    #: The site that sends this piece, and the site at the other end of the route.
    source: str
    target: str
    #: Id of the route: the relay that opened it, and a number that this relay counts up.
    opener: Address
    number: int
    #: Number of pieces sent before this one, in this direction.
    at: int
    #: The sites that have handed this piece on (R12).
    visited: tuple[str, ...]
    #: True for the last piece of the route.
    ended: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat(Header):
    """HEARTBEAT: sent when there is nothing else to say, so that the peer knows that this end lives."""


@dataclass(frozen=True, slots=True)
class Bye(Header):
    """BYE: this end closes the connection, and why. It only shortens detection: the next link begins with STATE (R8)."""

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
}

#: The frames that are for one member of the receiver's site.
ForOne: TypeAlias = RemoteUnicast | UnicastReply | StateFrame

_CODEC = Codec("", FRAMES)


def encode(frame: Header) -> bytes:
    """The bytes of a frame, its length included."""
    packed = _CODEC.pack(frame)
    return len(packed).to_bytes(_LENGTH_BYTES, "big") + packed


class FrameParser:
    """Cuts a stream of bytes into frames. Holds at most one unfinished frame of `bytes_max` and what was fed last."""

    def __init__(self, bytes_max: int) -> None:
        #: Bytes of the largest frame accepted; may be raised between two frames, as after HELLO.
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
        """The next whole frame; None when it is not complete. Raises ProtocolError, after which the stream is unusable."""
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
        """Bytes that have come of a frame that is not complete, once `next_frame` has returned None."""
        return len(self._bytes) - self._start


def require_standing(peer: str, site: str, frame: Header) -> None:
    """Raise ProtocolError for a frame that a relay of site `peer` must not send to one of `site`.

    A relay speaks for its own site alone. What its site wants to say to a third one goes over a route, whose pieces are not
    read here. What comes over a route is said by the site at its far end, and judged as such. So a site can forge what its own
    members say, and nothing else (C9).
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
            # A site that hands a piece on says so, as the last one.
            return frame.visited[-1:] == (() if frame.source == peer else (peer,))
        case _:
            return True
