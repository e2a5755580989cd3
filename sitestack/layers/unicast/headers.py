"""What the two ends of a unicast connection say to each other, and the limits of one.

A sender numbers what it sends to one peer twice. The **seqno** counts 1, 2, 3 ... within a connection. A connection is named by
a **conn-id** that only grows while the sending process lives; it is a counter, never the clock (U2), and needs no nonce because
the address of the process is fresh. The **mid** counts the messages to that peer above all connections and never starts again.
When a connection is closed, what was not acknowledged travels in the next one with a new seqno and its old mid; a receiver
remembers the last mid it delivered, so a message is delivered once however often connections are reset (U4, U5).

Within one connection `mid - seqno` is constant. From one connection to the next mids may leap (over what was given up) but
never fall, and a connection starts at the lowest mid that is not settled, that is, neither acknowledged nor given up. So a
receiver may take the first message of a newer connection whatever its mid, and what is not above its last mid is a duplicate.

An out-of-band message has its numbers in the same stream and is acknowledged in its place, but it is delivered when it arrives:
the receiver remembers its mid until the stream has come there, and passes over it then (U2-18).
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header

#: What a frame costs in a window besides its payload.
FRAME_COST_BYTES = 256
#: Ranges of missing numbers in one acknowledgement; what does not fit is asked for the next time.
RANGES_MAX = 32


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastData(Header):
    """On every reliable unicast. The conn-id is on all of them, not only on the first (U1)."""

    conn_id: int
    seqno: int
    mid: int
    #: All lower numbers of this connection are settled: a receiver that has no window for it may open one here.
    first: bool


@dataclass(frozen=True, slots=True)
class UnicastSync(Header):
    """Answers `SendFirst` when nothing is un-acknowledged (U9): the next message will have these numbers."""

    conn_id: int
    seqno: int
    mid: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnicastAck(Header):
    """Everything up to `seqno` was delivered; the `missing` ranges (first, last) are asked for."""

    conn_id: int
    #: Grows each time the receiver opens a window, so that what was said of an earlier one is recognised (U6).
    window: int
    seqno: int
    missing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SendFirst(Header):
    """GET_FIRST_SEQNO: I have no window for this connection; where does it start? (One name for one message, U12.)"""

    conn_id: int


@dataclass(frozen=True, slots=True)
class UnicastConfig:
    """Times and bounds of one process's unicast connections. The defaults suit one local network."""

    #: The highest frame is sent again when nothing was acknowledged for this long; doubles up to the maximum, plus jitter.
    retransmit_interval_s: float = 0.1
    #: The longest such wait.
    retransmit_interval_s_max: float = 2.0
    #: A hole is asked for when it is this old (most are only reordering); doubles up to the maximum, plus jitter.
    ask_interval_s: float = 0.02
    #: The longest wait between two requests for it.
    ask_interval_s_max: float = 1.0
    #: A peer that acknowledged nothing for so long is given up: what waits for it is undeliverable.
    give_up_s: float = 60.0
    #: The same for a member that is no longer in the view: time for the last acknowledgements of a leaver.
    linger_s: float = 5.0
    #: A connection that was silent this long is forgotten by its sender and closed by its receiver; it reopens by itself.
    idle_s: float = 120.0
    #: How long a receiver remembers what it delivered of a closed connection; above give_up_s and idle_s (U4, S7).
    tombstone_s: float = 240.0
    #: Sent and not acknowledged, per peer. Beyond, frames wait in the layer in order.
    window_frames_max: int = 1_024
    #: The same in bytes.
    window_bytes_max: int = 2 * 1024 * 1024
    #: Waiting for room in the window, per peer. A frame beyond is refused, and its sender told. To a member flow control above
    #: lets much less through; to a process that is none this is the bound.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: What one request for missing frames is answered with at most.
    resend_bytes_max: int = 256 * 1024
    #: Received ahead of a hole, per peer; not below the window, or full windows are sent twice. Beyond, it is sent again.
    reorder_frames_max: int = 1_024
    #: The same in bytes.
    reorder_bytes_max: int = 4 * 1024 * 1024
    #: Peers whose connections or tombstones are remembered; beyond, the one that was silent longest is forgotten.
    peers_max: int = 10_000


def frame_bytes(frame: Frame) -> int:
    """What a frame counts in the byte bounds above."""
    return FRAME_COST_BYTES + frame.payload_bytes


def without_header(frame: Frame) -> Frame:
    """The frame as it came from above."""
    return Frame(frame.source, frame.dest, frame.headers[:-1], frame.batch)
