"""The headers of unicast connections, their numbers, and the limits of one connection.

The **seqno** counts 1, 2, 3 ... within a connection. A **conn-id** names the connection and only
grows while the sending process lives; it is never the clock (U2). The **mid** counts the messages
to that peer across connections and never restarts. Unacknowledged messages of a closed connection
travel in the next one with a new seqno and their old mid. A receiver remembers the last mid it
delivered, so it delivers a message once (U4, U5).

Within one connection `mid - seqno` is constant. A connection starts at the lowest mid that is
neither acknowledged nor abandoned; mids may skip abandoned frames. So a receiver accepts the first
message of a newer connection with any mid above its last one.

An out-of-band message is numbered in the same stream, but delivered on arrival. The receiver
remembers its mid until the stream reaches it (U2-18).
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header

FRAME_COST_BYTES = 256
#: Number of the first window of a receiver that reads lanes; earlier versions begin at 1.
LANE_WINDOW_MIN = 1 << 31
#: Maximum ranges of missing numbers in one acknowledgement.
RANGES_MAX = 32


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastData(Header):
    """On every reliable unicast. Names its connection (U1)."""

    conn_id: int
    seqno: int
    mid: int
    #: All lower numbers of this connection are settled, so a window may open here.
    first: bool


@dataclass(frozen=True, slots=True)
class UnicastSync(Header):
    """Answer to `SendFirst` when nothing is unacknowledged (U9): the numbers of the next message."""

    conn_id: int
    seqno: int
    mid: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastAck(Header):
    """Receiver to sender: all up to `seqno` are delivered; retransmit the `missing` ranges."""

    conn_id: int
    #: Grows with each window, which exposes stale acknowledgements (U6). From LANE_WINDOW_MIN on,
    #: the receiver reads lanes.
    window: int
    seqno: int
    missing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SendFirst(Header):
    """Receiver to sender (GET_FIRST_SEQNO): where does this connection start? (U12)"""

    conn_id: int


@dataclass(frozen=True, slots=True)
class UnicastConfig:
    """Times and bounds of one process's unicast connections."""

    #: Time without an acknowledgement after which the highest frame is retransmitted; doubles, with jitter.
    retransmit_interval_s: float = 0.1
    #: Longest wait between two retransmissions of the highest frame.
    retransmit_interval_s_max: float = 2.0
    #: Time without an answer after which the path MTU is checked, or for a request the next address tried.
    doubt_s: float = 0.3
    #: Age of a hole at which it is requested; doubles, with jitter.
    ask_interval_s: float = 0.02
    #: Longest wait between two requests for the same hole.
    ask_interval_s_max: float = 1.0
    #: Time without an acknowledgement after which frames to a peer are undeliverable.
    give_up_s: float = 60.0
    #: The same for a peer that has left the view.
    linger_s: float = 5.0
    #: Silence after which a connection is closed; it reopens by itself.
    idle_s: float = 120.0
    #: Time that a receiver remembers deliveries of a closed connection; above `give_up_s` and `idle_s`
    #: (U4, S7).
    tombstone_s: float = 240.0
    #: Unacknowledged frames per peer. Further ones queue in this layer, in order.
    window_frames_max: int = 1_024
    #: Unacknowledged bytes per peer.
    window_bytes_max: int = 2 * 1024 * 1024
    #: Bytes that queue for room in the window, per peer; frames beyond are undeliverable. Flow control bounds
    #: a member much lower.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: Maximum bytes that answer one request for missing frames.
    resend_bytes_max: int = 256 * 1024
    #: Frames held ahead of a hole, per peer; frames beyond are dropped and retransmitted. At least
    #: `window_frames_max`.
    reorder_frames_max: int = 1_024
    #: Bytes held ahead of a hole, per peer.
    reorder_bytes_max: int = 4 * 1024 * 1024
    #: Remembered peers; beyond, the longest silent one is forgotten.
    peers_max: int = 10_000


def frame_bytes(frame: Frame) -> int:
    """Return the bytes that a frame counts against the bounds above."""
    return FRAME_COST_BYTES + frame.payload_bytes


def without_header(frame: Frame) -> Frame:
    """Return the frame without this layer's header, as it came from above."""
    return Frame(frame.source, frame.dest, frame.headers[:-1], frame.batch)
