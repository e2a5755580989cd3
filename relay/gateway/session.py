"""LinkSession: one connection to the relay of another site, from HELLO to BYE.

Sending is pulled: `next_chunk` returns a bounded number of bytes, so a heartbeat waits for one
chunk at most. HELLO, STATE and ACK go first, then some unicasts and pieces of routes, then entries
(`sender.py`).

HELLO goes both ways. `accept` sends STATE at once (R27). Entries follow the peer's STATE; a later
one reports a hole, and rewinds.
"""

from __future__ import annotations

import math
from collections import deque
from enum import StrEnum

from relay.gateway.compression import ChunkParser, Zstd
from relay.gateway.config import LinkConfig
from relay.gateway.sender import LinkSender
from relay.gateway.watermarks import Watermarks
from relay.gateway.window import LinkWindow
from relay.gateway.wire import (
    HELLO_BYTES_MAX,
    Ack,
    Bye,
    ForOne,
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

#: Bytes above `routed_bytes_max` for pieces that only end a route.
ROUTE_ENDS_BYTES = 64 * 1024
#: Seconds for which an ACK collects numbers: each is applied by all the peer's members.
ACK_DELAY_S = 0.02
#: Seconds in which a link with a maximum rate sends one chunk.
PACE_S = 0.1
PACED_BYTES_MIN = 1_000


class Overdue(StrEnum):
    #: No HELLO, or no STATE after it.
    HELLO_TIMEOUT = "hello_timeout"
    #: No bytes for `timeout_s`.
    SILENT = "silent"
    #: The kernel has not accepted a chunk for `write_s`.
    STUCK = "stuck"
    #: A frame arrives too slowly (`frame_s`).
    SLOW_FRAME = "slow_frame"


class _FrameQueue:
    """Encoded frames that wait for the link, bounded by the appending code."""

    def __init__(self) -> None:
        self.bytes = 0
        self._frames: deque[bytes] = deque()

    def append(self, frame: bytes) -> None:
        self._frames.append(frame)
        self.bytes += len(frame)

    def drain(self, limit: int) -> list[bytes]:
        """Remove and return frames from the front until `limit` bytes are reached."""
        frames: list[bytes] = []
        size = 0
        while self._frames and size < limit:
            frames.append(self._frames.popleft())
            size += len(frames[-1])
        self.bytes -= size
        return frames


class LinkSession:
    """One connection.

    Bounds: `LinkConfig`, one frame being parsed, one unicast above `unicast_bytes_max`.
    """

    def __init__(self, hello: Hello, state: ReplicatedState, watermarks: Watermarks, config: LinkConfig, now: float) -> None:
        self.local = hello
        self.peer: Hello | None = None
        self.accepted = False
        self._config = config
        window = LinkWindow(min(config.window_bytes, hello.window_bytes), hello.window_bytes)
        self._sender = LinkSender(hello.site, state, watermarks, window)
        self._parser = ChunkParser(HELLO_BYTES_MAX)
        #: Encoded bytes, at most about a chunk and one frame; those before `_at` are sent.
        self._out = b""
        self._at = 0
        #: Whether the last chunk was full, and whether `_out` was filled up.
        self._took_full = self._filled = False
        self._zstd: Zstd | None = None
        rate = config.rate_max_bytes_s
        self._chunk_bytes = config.chunk_bytes
        if rate is not None:
            self._chunk_bytes = min(config.chunk_bytes, max(int(rate * PACE_S), PACED_BYTES_MIN))
        self._fill_bytes = self._chunk_bytes
        #: Time (s) before which no chunk may follow; None without a maximum rate.
        self._paced_until: float | None = None
        self._answers: deque[bytes] = deque([encode(hello)])
        self._unicasts = _FrameQueue()
        self._routed = _FrameQueue()
        #: The smaller limit of both ends: bytes of the largest frame.
        self._frame_bytes_max = config.frame_bytes_max
        self._stable: dict[Address, int] = {}
        self._stable_view: ViewId | None = None
        self._ack_due: float | None = None
        self._unacked_bytes = 0
        #: Time (s) by which HELLO, then STATE, must have arrived; infinite after STATE.
        self._hello_due = now + config.hello_s
        self._heard = self._spoke = now
        self._writing_since: float | None = None
        #: Since when (s) an incomplete frame has been arriving; None without one.
        self._frame_began: float | None = None
        #: Time (s) by which it must be complete, or have progressed.
        self._frame_due = math.inf
        self._resynced = now - config.resync_s
        #: Whether a hole in the peer's stream waits for the next STATE.
        self.has_hole = False

    @property
    def answered(self) -> bool:
        """True once the peer has sent STATE."""
        return self._sender.begun

    @property
    def routed_bytes(self) -> int:
        return self._routed.bytes

    @property
    def in_flight_bytes(self) -> int:
        return self._sender.in_flight_bytes

    @property
    def acked_bytes(self) -> int:
        return self._sender.acked_bytes

    def receive(self, data: bytes, now: float) -> list[Header]:
        """Parse bytes of the peer; return the gateway's frames.

        Raises ProtocolError: close the link.
        """
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
                self._hello_due = math.inf
                self._sender.rewind(frame.vectors.get(self.local.site))
            elif isinstance(frame, Hello):
                raise ProtocolError("bridge_hello")
            elif not isinstance(frame, Heartbeat):
                if isinstance(frame, Ack):
                    self._sender.acknowledged(frame.vectors.get(self.local.site, SiteVector()), now)
                frames.append(frame)
        self._time_frame(began_anew, now)
        return frames

    def _time_frame(self, began_anew: bool, now: float) -> None:
        unfinished_bytes = self._parser.unfinished_bytes
        if not unfinished_bytes:
            self._frame_began, self._frame_due = None, math.inf
            return
        if began_anew or self._frame_began is None:
            self._frame_began = now
        self._frame_due = self._frame_began + self._config.frame_s * (1 + unfinished_bytes // self._config.chunk_bytes)
        if self.peer is not None:
            self._hello_due = max(self._hello_due, self._frame_due)

    def _first(self, frame: Header) -> None:
        if isinstance(frame, Hello):
            self.peer = frame
            self._frame_bytes_max = min(self._frame_bytes_max, frame.frame_bytes_max)
            self._sender.window.limit(frame.window_bytes)
            if self._config.compress is not None and frame.decompressed_bytes_max > 0:
                self._zstd = self._parser.zstd = Zstd(self._config.decompressed_bytes_max, frame.decompressed_bytes_max)
                self._fill_bytes = min(self._fill_bytes, frame.decompressed_bytes_max // 2)
            # STATE may follow in the same bytes as HELLO
            self._sender.peer, self._sender.lineage = frame.site, frame.lineage
            self._hello_due = self._heard + self._config.timeout_s
            self._parser.bytes_max = self._config.frame_bytes_max
        elif not isinstance(frame, Bye):
            raise ProtocolError("bridge_hello")

    def accept(self, admitted: SiteVector | None, stable: SiteVector) -> None:
        """RELAY's "highest message relayed": the fence believes the peer; send the `admitted` numbers
        as STATE.

        The first ACK carries all `stable` numbers: ACKs of earlier links may have been lost.
        """
        assert self.peer is not None
        self.accepted = True
        self._answers.append(self._state_frame(admitted))
        self.acknowledge(stable)

    def _state_frame(self, admitted: SiteVector | None) -> bytes:
        assert self.peer is not None
        return encode(State({} if admitted is None else {self.peer.site: admitted}))

    def acknowledge(self, vector: SiteVector) -> None:
        """Queue stable numbers for the next ACK: soon, or at once for a view or much data."""
        raise_to(self._stable, vector.origins)
        self._stable_view = later(self._stable_view, vector.view)

    def resync(self, admitted: SiteVector | None, now: float) -> None:
        """Send STATE again if a hole was reported and `resync_s` have passed."""
        if self.has_hole and now >= self._resynced + self._config.resync_s:
            self.has_hole, self._resynced = False, now
            self._answers.append(self._state_frame(admitted))

    def send_unicast(self, frame: ForOne) -> UnicastRefusal | None:
        """Queue a frame for one member; return the refusal or None.

        TOO_LARGE is final for this link.
        """
        data = encode(frame)
        if len(data) > self._frame_bytes_max:
            return UnicastRefusal.TOO_LARGE
        if self._unicasts.bytes >= self._config.unicast_bytes_max:
            return UnicastRefusal.QUEUE_FULL
        self._unicasts.append(data)
        return None

    def send_routed(self, piece: Routed) -> bool:
        """Queue a piece of a route; return False for a full queue or a piece too large for a frame.

        A piece that only ends a route may use a small reserve.
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
        """Return BYE as the last bytes; empty inside an unfinished frame."""
        return b"" if self._at < len(self._out) else encode(Bye(reason))

    def next_chunk(self, now: float) -> bytes:
        """Return the next chunk to write; empty without data, or during a write."""
        if self._writing_since is not None or (self._paced_until is not None and now < self._paced_until):
            return b""
        self._paced_until = None
        limit = self._chunk_bytes
        if len(self._out) - self._at < limit:
            self._fill(now, self._fill_bytes)
        data = self._out[self._at : self._at + limit]
        self._at += len(data)
        self._took_full = self._filled or len(data) == limit
        if data:
            self._writing_since = self._spoke = now
            if self._config.rate_max_bytes_s is not None:
                self._paced_until = now + len(data) / self._config.rate_max_bytes_s
        return data

    def _fill(self, now: float, limit: int) -> None:
        head, parts = [self._out[self._at :], *self._urgent(now)], list[bytes]()
        if self.accepted:
            # About half a chunk of each, so that none delays the others much.
            for queue in (self._unicasts, self._routed):
                if queue.bytes:
                    parts += queue.drain(limit // 2)
        size = sum(map(len, head)) + sum(map(len, parts))
        while self.accepted and size < limit and (part := self._sender.next_frame(self._frame_bytes_max, now)) is not None:
            parts.append(part)
            size += len(part)
        self._filled = size >= limit
        if parts and self._zstd is not None:
            parts = self._zstd.compress(parts)
        self._out, self._at = b"".join(head + parts), 0

    def written(self) -> bool:
        self._writing_since = None
        return self._took_full or bool(self._answers or self._unicasts.bytes or self._routed.bytes)

    def _urgent(self, now: float) -> list[bytes]:
        parts = list[bytes]()
        if self._answers:
            parts += self._answers
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
        if not self._stable and self._stable_view is None:
            return False
        if self._stable_view is not None or self._unacked_bytes >= self._sender.window.least // 4:
            return True
        if self._ack_due is None:
            self._ack_due = now + ACK_DELAY_S
        return now >= self._ack_due

    def overdue(self, now: float) -> Overdue | None:
        config = self._config
        if now >= self._hello_due:
            return Overdue.HELLO_TIMEOUT
        if now >= self._heard + config.timeout_s:
            return Overdue.SILENT
        if self._writing_since is not None and now >= self._writing_since + config.write_s:
            return Overdue.STUCK
        return Overdue.SLOW_FRAME if now >= self._frame_due else None

    def deadline(self) -> float:
        """Return the time (s) at which `overdue`, `next_chunk` or `resync` must be called."""
        config = self._config
        if self._writing_since is not None:
            due = self._writing_since + config.write_s
        elif self._paced_until is not None:
            due = self._paced_until
        elif self._sender.is_seeking:
            due = self._spoke
        else:
            due = self._spoke + config.heartbeat_s
            if self._ack_due is not None and self._ack_due < due:
                due = self._ack_due
        if self.has_hole:
            due = min(due, self._resynced + config.resync_s)
        return min(due, self._heard + config.timeout_s, self._frame_due, self._hello_due)
