"""The headers of unicast connections, their numbers, and the limits of one connection.

A sender numbers what it sends to one peer twice. The **seqno** counts 1, 2, 3 ... within a connection. A connection is named by
a **conn-id** that only grows while the sending process lives; it is a counter, never the clock (U2), and needs no nonce because
the address of the process is fresh. The **mid** counts the messages to that peer above all connections and never starts again.
When a connection is closed, what was not acknowledged travels in the next one with a new seqno and its old mid; a receiver
remembers the last mid it delivered, so a message is delivered once however often connections are reset (U4, U5).

Within one connection `mid - seqno` is constant. From one connection to the next mids may leap (over frames that were given up)
but never fall, and a connection starts at the lowest mid that is not settled, that is, neither acknowledged nor given up. So a
receiver may take the first message of a newer connection whatever its mid, and what is not above its last mid is a duplicate.

An out-of-band message has its numbers in the same stream and is acknowledged in its place, but it is delivered when it arrives:
the receiver remembers its mid until the stream has come there, and passes over it then (U2-18).
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header

#: Bytes that a frame counts in a window besides its payload.
FRAME_COST_BYTES = 256
#: Ranges of missing numbers in one acknowledgement at most; further ones are asked for the next time.
RANGES_MAX = 32


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastData(Header):
    """On every reliable unicast. Every message names its connection, not only the first one (U1)."""

    conn_id: int
    seqno: int
    mid: int
    #: True: all lower numbers of this connection are settled, so a receiver without a window for it may open one here.
    first: bool


@dataclass(frozen=True, slots=True)
class UnicastSync(Header):
    """Answer to `SendFirst` when nothing is unacknowledged (U9): the next message will have these numbers."""

    conn_id: int
    seqno: int
    mid: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastAck(Header):
    """Receiver to sender: everything up to `seqno` was delivered; send me the `missing` ranges (first, last) again."""

    conn_id: int
    #: Grows each time the receiver opens a window, so that an acknowledgement of an earlier window is recognised (U6).
    window: int
    seqno: int
    missing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SendFirst(Header):
    """Receiver to sender (GET_FIRST_SEQNO): I have no window for this connection; where does it start? (U12)"""

    conn_id: int


@dataclass(frozen=True, slots=True)
class UnicastConfig:
    """Times and bounds of one process's unicast connections. The defaults suit one local network."""

    #: How long nothing may be acknowledged before the highest frame is sent again; doubles up to the maximum, plus jitter.
    retransmit_interval_s: float = 0.1
    #: The longest wait between two repetitions of the highest frame.
    retransmit_interval_s_max: float = 2.0
    #: How long nothing may be acknowledged before the size of what passes is looked into.
    doubt_s: float = 0.3
    #: How old a hole is before it is asked for (most are only reordering); doubles up to the maximum, plus jitter.
    ask_interval_s: float = 0.02
    #: The longest wait between two requests for the same hole.
    ask_interval_s_max: float = 1.0
    #: How long a peer may acknowledge nothing before it is given up, and the frames to it are reported as undeliverable.
    give_up_s: float = 60.0
    #: The same for a peer that has left the view: time for its last acknowledgements.
    linger_s: float = 5.0
    #: How long a connection may be silent before its sender forgets it and its receiver closes it; it reopens by itself.
    idle_s: float = 120.0
    #: How long a receiver remembers the messages it delivered in a closed connection; above `give_up_s` and `idle_s` (U4, S7).
    tombstone_s: float = 240.0
    #: How many frames may be sent and not acknowledged, per peer. Further ones queue in this layer, in order.
    window_frames_max: int = 1_024
    #: How many bytes may be sent and not acknowledged, per peer.
    window_bytes_max: int = 2 * 1024 * 1024
    #: How many bytes may queue for room in the window, per peer; a frame beyond is refused, and its sender told. Flow control,
    #: above, lets much less through to a member; to a process that is no member this is the bound.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: How many bytes answer one request for missing frames at most.
    resend_bytes_max: int = 256 * 1024
    #: How many frames are kept ahead of a hole, per peer; a frame beyond is dropped and sent again. With a value below
    #: `window_frames_max` full windows would be sent twice.
    reorder_frames_max: int = 1_024
    #: How many bytes are kept ahead of a hole, per peer.
    reorder_bytes_max: int = 4 * 1024 * 1024
    #: How many peers are remembered, with a connection or a tombstone; beyond, the one that was silent longest is forgotten.
    peers_max: int = 10_000


def frame_bytes(frame: Frame) -> int:
    """Bytes that a frame counts against the bounds above."""
    return FRAME_COST_BYTES + frame.payload_bytes


def without_header(frame: Frame) -> Frame:
    """The frame without this layer's header, as it came from above."""
    return Frame(frame.source, frame.dest, frame.headers[:-1], frame.batch)
