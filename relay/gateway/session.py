"""LinkSession: one connection to the relay of another site, from HELLO to BYE.

Sending is pulled: `next_chunk` returns a bounded number of bytes, so that a heartbeat waits for one chunk at most.
HELLO, STATE and ACK go first, then some unicasts and pieces of routes, then what the peer lacks of this site's stream
(`sender.py`).

The life of a session: HELLO both ways -> `accept`, when the fence believes the peer -> STATE at once, whatever the peer does
(R27) -> entries, as soon as the peer's STATE has come. A later STATE of the peer means that it has found a hole, and rewinds.
"""

from __future__ import annotations

import math
from collections import deque
from enum import StrEnum

from relay.gateway.config import LinkConfig
from relay.gateway.sender import LinkSender
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import (
    HELLO_BYTES_MAX,
    Ack,
    Bye,
    ForOne,
    FrameParser,
    Heartbeat,
    Hello,
    Routed,
    State,
    encode,
    require_standing,
)
from relay.replica.entries import SiteVector, UnicastRefusal
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later, raise_to
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.view import ViewId

#: Bytes above `routed_bytes_max` reserved for pieces that only end a route: room for hundreds, then they are dropped too.
ROUTE_ENDS_BYTES = 64 * 1024
#: Seconds for which an ACK waits for more to say. Each one becomes an entry of the peer's stream, which all its members apply.
ACK_DELAY_S = 0.02


class Overdue(StrEnum):
    """Why a link is closed: what has not happened in time."""

    #: HELLO has not come, or STATE after it.
    HELLO_TIMEOUT = "hello_timeout"
    #: Nothing at all has come for `timeout_s`.
    SILENT = "silent"
    #: The kernel has not taken a chunk for `write_s`.
    STUCK = "stuck"
    #: A frame that has begun comes in too slowly (`frame_s`).
    SLOW_FRAME = "slow_frame"


class _FrameQueue:
    """Encoded frames that wait for the link. Bound: whoever appends looks at `bytes` first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._frames: deque[bytes] = deque()

    def append(self, frame: bytes) -> None:
        """Queue a frame."""
        self._frames.append(frame)
        self.bytes += len(frame)

    def drain(self, limit: int) -> list[bytes]:
        """Remove frames from the front until `limit` bytes are reached, and return them."""
        frames: list[bytes] = []
        size = 0
        while self._frames and size < limit:
            frames.append(self._frames.popleft())
            size += len(frames[-1])
        self.bytes -= size
        return frames


class LinkSession:
    """One connection. Bounds: those of `LinkConfig`, and one frame being parsed; one unicast may exceed `unicast_bytes_max`."""

    def __init__(self, hello: Hello, state: ReplicatedState, watermarks: Watermarks, config: LinkConfig, now: float) -> None:
        self.local = hello
        self.peer: Hello | None = None
        self.accepted = False
        self._config = config
        self._sender = LinkSender(hello.site, state, watermarks)
        self._parser = FrameParser(HELLO_BYTES_MAX)
        #: Encoded bytes, at most about a chunk and one frame, of which `_at` were taken.
        self._out = b""
        self._at = 0
        #: Whether the last chunk was a full one, so that there may be more.
        self._took_full = False
        self._answers: deque[bytes] = deque([encode(hello)])
        self._unicasts = _FrameQueue()
        self._routed = _FrameQueue()
        #: The smaller limits of the two ends: bytes of the largest frame to send, and bytes that may be under way.
        self._frame_bytes_max = config.frame_bytes_max
        self._window_bytes = config.window_bytes
        #: What became stable since the last ACK, for the next one.
        self._stable: dict[Address, int] = {}
        self._stable_view: ViewId | None = None
        #: When that is told at the latest; None while there is nothing to tell.
        self._ack_due: float | None = None
        #: Bytes that came since the last ACK.
        self._unacked_bytes = 0
        self._hello_due = now + config.hello_s
        self._heard = self._spoke = now
        self._writing_since: float | None = None
        #: Since when a frame that is not complete has been coming in; None when none is.
        self._frame_began: float | None = None
        self._resynced = now - config.resync_s
        self._hole = False

    @property
    def answered(self) -> bool:
        """True once the peer has said STATE, which means that it has accepted this connection as a link."""
        return self._sender.begun

    @property
    def routed_bytes(self) -> int:
        """Bytes of pieces of routes that wait for the link."""
        return self._routed.bytes

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of this site's stream that were sent and are not known to be stable at the peer."""
        return self._sender.in_flight_bytes

    @property
    def acked_bytes(self) -> int:
        """Bytes of this site's stream that have become stable at the peer since this connection was made."""
        return self._sender.acked_bytes

    # -- what comes in -------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Header]:
        """Take bytes from the peer; returns the frames that the gateway must handle. Raises ProtocolError: close the link."""
        self._heard = now
        self._unacked_bytes += len(data)
        self._parser.feed(data)
        frames: list[Header] = []
        began_anew = False
        while (frame := self._parser.next_frame()) is not None:
            began_anew = True
            if self.peer is None:
                self._first(frame)
                frames.append(frame)
                continue
            require_standing(self.peer.site, self.local.site, frame)
            if isinstance(frame, State):
                self._sender.rewind(frame.vectors.get(self.local.site))
            elif isinstance(frame, Hello):
                raise ProtocolError("bridge_hello")
            elif not isinstance(frame, Heartbeat):
                if isinstance(frame, Ack):
                    self._sender.acknowledged(frame.vectors.get(self.local.site, SiteVector()))
                frames.append(frame)
        self._time_frame(began_anew, now)
        return frames

    def _time_frame(self, began_anew: bool, now: float) -> None:
        """Note since when a frame has been coming in that is not complete."""
        if not self._parser.unfinished_bytes:
            self._frame_began = None
        elif began_anew or self._frame_began is None:
            self._frame_began = now

    def _frame_due(self) -> float:
        """When the frame that is coming in must be complete, or have come further."""
        if self._frame_began is None:
            return math.inf
        return self._frame_began + self._config.frame_s * (1 + self._parser.unfinished_bytes // self._config.chunk_bytes)

    def _first(self, frame: Header) -> None:
        if isinstance(frame, Hello):
            self.peer = frame
            self._frame_bytes_max = min(self._frame_bytes_max, frame.frame_bytes_max)
            self._window_bytes = min(self._window_bytes, frame.window_bytes)
            # Now, since STATE may have come in one piece with HELLO, and begins to send.
            self._sender.peer = frame.site
            self._hello_due = self._heard + self._config.timeout_s  # the peer's STATE may take another round trip
            self._parser.bytes_max = self._config.frame_bytes_max
        elif not isinstance(frame, Bye):
            raise ProtocolError("bridge_hello")

    # -- orders of the gateway -----------------------------------------------------------------------------------------

    def accept(self, admitted: SiteVector | None, stable: SiteVector) -> None:
        """RELAY's "highest message relayed": the fence believes the peer, so STATE says what was `admitted` of its site.

        The first ACK says all that is `stable` here, since ACKs of earlier links may have been lost.
        """
        assert self.peer is not None
        self.accepted = True
        self._answers.append(self._state_frame(admitted))
        self.acknowledge(stable)

    def _state_frame(self, admitted: SiteVector | None) -> bytes:
        assert self.peer is not None
        return encode(State({} if admitted is None else {self.peer.site: admitted}))

    def acknowledge(self, vector: SiteVector) -> None:
        """More of the peer's messages are stable here, which the next ACK says: soon, or with a view or much data at once."""
        raise_to(self._stable, vector.origins)
        self._stable_view = later(self._stable_view, vector.view)

    def report_hole(self) -> None:
        """A message of the peer's site is missing: have `resync` ask for a replay."""
        self._hole = True

    def resync(self, admitted: SiteVector | None, now: float) -> None:
        """Say STATE again, which makes the peer replay, if a hole was reported and `resync_s` have passed."""
        if self._hole and now >= self._resynced + self._config.resync_s:
            self._hole, self._resynced = False, now
            self._answers.append(self._state_frame(admitted))

    def send_unicast(self, frame: ForOne) -> UnicastRefusal | None:
        """Queue a frame for one member; returns why not, or None. TOO_LARGE is final for as long as this link lives."""
        data = encode(frame)
        if len(data) > self._frame_bytes_max:
            return UnicastRefusal.TOO_LARGE
        if self._unicasts.bytes >= self._config.unicast_bytes_max:
            return UnicastRefusal.QUEUE_FULL
        self._unicasts.append(data)
        return None

    def send_routed(self, piece: Routed) -> bool:
        """Queue a piece of a route; False when the queue is full, or the piece too large for a frame.

        A piece that only ends a route may use a small reserve, so that the far end hears of it although the queue is full.
        """
        data = encode(piece)
        if len(data) > self._frame_bytes_max:
            return False
        reserve = ROUTE_ENDS_BYTES if piece.ended and not piece.data else 0
        if self._routed.bytes + len(data) > self._config.routed_bytes_max + reserve:
            return False
        self._routed.append(data)
        return True

    def farewell(self, reason: str) -> bytes:
        """Return BYE as the last bytes; empty when `next_chunk` has stopped inside a frame, which BYE would corrupt."""
        return b"" if self._at < len(self._out) else encode(Bye(reason))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def next_chunk(self, now: float) -> bytes:
        """The next chunk to write; empty when there is nothing to say, or the last chunk is still being written."""
        if self._writing_since is not None:
            return b""
        limit = self._config.chunk_bytes
        if len(self._out) - self._at < limit:
            self._fill(now, limit)
        data = self._out[self._at : self._at + limit]
        self._at += len(data)
        self._took_full = len(data) == limit
        if data:
            self._writing_since = self._spoke = now
        return data

    def _fill(self, now: float, limit: int) -> None:
        """Append whole frames to the rest of the last one, until a chunk is full."""
        parts = [self._out[self._at :], *self._urgent(now)]
        if self.accepted:
            # About half a chunk of each, so that neither they nor the stream delay the others much.
            parts += [*self._unicasts.drain(limit // 2), *self._routed.drain(limit // 2)]
        size = sum(map(len, parts))
        while size < limit and (part := self._next_entry()) is not None:
            parts.append(part)
            size += len(part)
        self._out, self._at = b"".join(parts), 0

    def written(self) -> bool:
        """The kernel has taken the last chunk. Returns whether there may be another one: it was full, or something waits."""
        self._writing_since = None
        return self._took_full or bool(self._answers or self._unicasts.bytes or self._routed.bytes)

    def _urgent(self, now: float) -> list[bytes]:
        parts = list(self._answers)
        self._answers.clear()
        if self.accepted and self._must_acknowledge(now):
            assert self.peer is not None
            parts.append(encode(Ack({self.peer.site: SiteVector(self._stable, self._stable_view)})))
            self._stable, self._stable_view = {}, None
            self._ack_due, self._unacked_bytes = None, 0
        if not parts and now >= self._spoke + self._config.heartbeat_s:
            parts.append(encode(Heartbeat()))
        return parts

    def _must_acknowledge(self, now: float) -> bool:
        """Whether the ACK waits no longer; if it does, from now on."""
        if not self._stable and self._stable_view is None:
            return False
        if self._stable_view is not None or self._unacked_bytes >= self._window_bytes // 4:
            return True
        if self._ack_due is None:
            self._ack_due = now + ACK_DELAY_S
        return now >= self._ack_due

    def _next_entry(self) -> bytes | None:
        """The next frame of this site's stream; None when the smaller window of the two ends is full, or there is none."""
        if not self.accepted or self.peer is None:
            return None
        return self._sender.next_frame(self._window_bytes, self._frame_bytes_max)

    # -- time ----------------------------------------------------------------------------------------------------------

    def overdue(self, now: float) -> Overdue | None:
        """Why the link must be closed now, or None."""
        config = self._config
        if not self.answered and now >= self._hello_due:
            return Overdue.HELLO_TIMEOUT
        if now >= self._heard + config.timeout_s:
            return Overdue.SILENT
        if self._writing_since is not None and now >= self._writing_since + config.write_s:
            return Overdue.STUCK
        return Overdue.SLOW_FRAME if now >= self._frame_due() else None

    def deadline(self) -> float:
        """Time (s) at which `overdue`, `next_chunk` or `resync` must be called."""
        config = self._config
        dues = [self._heard + config.timeout_s, self._frame_due()]
        if not self.answered:
            dues.append(self._hello_due)
        if self._writing_since is None:
            dues.append(self._spoke + config.heartbeat_s)
            if self._ack_due is not None:
                dues.append(self._ack_due)
        else:
            dues.append(self._writing_since + config.write_s)
        if self._hole:
            dues.append(self._resynced + config.resync_s)
        return min(dues)
