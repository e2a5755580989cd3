"""LinkSession: one TCP connection to the relay of another site, from HELLO to BYE.

Sending is pulled: `take` gives the next bytes, a bounded chunk at a time, so heartbeats wait for a chunk at most. The answers
go first, then some unicasts and pieces of routes, then what the peer lacks of this site's stream (`sender.py`).

The life of a session: HELLO both ways -> `accept` (the gateway has fenced) -> STATE at once, whatever the peer does (R27) ->
once the peer's STATE is here, entries flow. A later STATE of the peer rewinds: it has found a hole.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from relay.gateway.sender import LinkSender
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import (
    HELLO_BYTES_MAX,
    Ack,
    Bye,
    FrameParser,
    Heartbeat,
    Hello,
    RemoteUnicast,
    Routed,
    State,
    encode,
)
from relay.replica.entries import SiteVector, UnicastRefusal, UnicastReply
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later, raise_to
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.view import ViewId

#: Above `routed_bytes_max` there is room for ends of routes without data only: hundreds of them, then they are dropped too.
ROUTE_ENDS_BYTES = 64 * 1024


class Overdue(StrEnum):
    """Why a link is closed for what has not happened in time."""

    #: HELLO, or STATE after it.
    HELLO_TIMEOUT = "hello_timeout"
    #: Nothing at all has come.
    SILENT = "silent"
    #: The kernel does not take what is to be sent.
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One link. The two ends need not agree: each says in HELLO what it takes, and the smaller window and frame count for both.

    Only heartbeats must be much rarer than the other end's timeout.
    """

    #: The peer must have said HELLO this long after the connection was made (C17), and STATE `timeout_s` later. The end that
    #: has called hears HELLO a whole round trip after the connection, so this is the longest round trip that links.
    hello_s: float = 3.0
    #: Something is sent at least this often.
    heartbeat_s: float = 1.0
    #: Silence for this long closes the link (F24).
    timeout_s: float = 3.0
    #: A chunk that the kernel does not take for this long closes the link.
    write_s: float = 10.0
    #: A STATE is repeated at most this often after a hole.
    resync_s: float = 0.2
    #: Bytes that may be on their way without being stable at the peer; it should exceed rate times round trip.
    window_bytes: int = 8 * 1024 * 1024
    #: The most that is handed to the socket at once: what a heartbeat may have to wait for.
    chunk_bytes: int = 64 * 1024
    #: The largest frame that is taken, and sent. A batch that does not fit becomes a gap, a unicast is told to its sender.
    frame_bytes_max: int = 16 * 1024 * 1024
    #: Unicasts that wait for the link. While there are fewer bytes it takes one more of any size that has a frame; what comes
    #: on top is refused, and its origin tries again.
    unicast_bytes_max: int = 4 * 1024 * 1024
    #: Pieces of routes that wait for the link; beyond, the route is ended and tried again. More than its window and a frame.
    routed_bytes_max: int = 32 * 1024 * 1024


class LinkSession:
    """One connection. Bounds: the window, one chunk, one frame being parsed, a unicast above `unicast_bytes_max`."""

    def __init__(self, hello: Hello, state: ReplicatedState, watermarks: Watermarks, config: LinkConfig, now: float) -> None:
        self.local = hello
        self.peer: Hello | None = None
        self.accepted = False
        self._config = config
        self._sender = LinkSender(hello.site, state, watermarks)
        self._parser = FrameParser(HELLO_BYTES_MAX)
        #: Encoded and not yet taken: less than a chunk and one frame; and how much of it was taken.
        self._out = b""
        self._at = 0
        self._answers: deque[bytes] = deque([encode(hello)])
        self._unicasts: deque[bytes] = deque()
        self._unicast_bytes = 0
        self._routed: deque[bytes] = deque()
        self.routed_bytes = 0
        #: What to tell the peer with the next ACK.
        self._stable: dict[Address, int] = {}
        self._stable_view: ViewId | None = None
        self._hello_due = now + config.hello_s
        self._heard = self._spoke = now
        self._writing_since: float | None = None
        self._resynced = now - config.resync_s
        self._hole = False

    @property
    def answered(self) -> bool:
        """The peer has said STATE, so it takes this connection for a link, too."""
        return self._sender.begun

    @property
    def _frame_bytes_max(self) -> int:
        """The largest frame to send, as both ends see it."""
        own = self._config.frame_bytes_max
        return own if self.peer is None else min(own, self.peer.frame_bytes_max)

    @property
    def in_flight_bytes(self) -> int:
        """Of this site's stream: sent, and not known to be stable at the peer."""
        return self._sender.in_flight_bytes

    @property
    def acked_bytes(self) -> int:
        """Of this site's stream: what has become stable at the peer since this connection was made."""
        return self._sender.acked_bytes

    # -- what comes in -------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Header]:
        """Take bytes; the frames that are the gateway's business. Raises ProtocolError: the link is to be closed."""
        self._heard = now
        self._parser.feed(data)
        frames: list[Header] = []
        while (frame := self._parser.next_frame()) is not None:
            if self.peer is None:
                self._first(frame)
                frames.append(frame)
            elif isinstance(frame, State):
                self._sender.rewind(frame.vectors.get(self.local.site))
            elif isinstance(frame, Hello):
                raise ProtocolError("bridge_hello")
            elif not isinstance(frame, Heartbeat):
                if isinstance(frame, Ack):
                    self._sender.acknowledged(frame.vectors.get(self.local.site, SiteVector()))
                frames.append(frame)
        return frames

    def _first(self, frame: Header) -> None:
        if isinstance(frame, Hello):
            self.peer = frame
            self._hello_due = self._heard + self._config.timeout_s  # its STATE comes a round trip later
            self._parser.bytes_max = self._config.frame_bytes_max
        elif not isinstance(frame, Bye):
            raise ProtocolError("bridge_hello")

    # -- what the gateway says -----------------------------------------------------------------------------------------

    def accept(self, admitted: SiteVector | None, stable: SiteVector) -> None:
        """RELAY's "highest message relayed": the peer is who it should be, so STATE says at once what has come from its site.

        The first ACK says once more all that is stable.
        """
        self.accepted = True
        self._answers.append(self._state_frame(admitted))
        self.acknowledge(stable)

    def _state_frame(self, admitted: SiteVector | None) -> bytes:
        assert self.peer is not None
        return encode(State({} if admitted is None else {self.peer.site: admitted}))

    def acknowledge(self, vector: SiteVector) -> None:
        """More of the peer's messages are stable here; at most one ACK a turn says so."""
        raise_to(self._stable, vector.origins)
        self._stable_view = later(self._stable_view, vector.view)

    def report_hole(self) -> None:
        """Something is missing: ask for a rewind, as soon as the interval allows."""
        self._hole = True

    def resync(self, admitted: SiteVector | None, now: float) -> None:
        """Say STATE again if there is a hole and it is time."""
        if self._hole and now >= self._resynced + self._config.resync_s:
            self._hole, self._resynced = False, now
            self._answers.append(self._state_frame(admitted))

    def send_unicast(self, frame: RemoteUnicast | UnicastReply) -> UnicastRefusal | None:
        """Queue a unicast or its answer; why not, or None. What is too large for a frame will always be."""
        data = encode(frame)
        if len(data) > self._frame_bytes_max:
            return UnicastRefusal.TOO_LARGE
        if self._unicast_bytes >= self._config.unicast_bytes_max:
            return UnicastRefusal.QUEUE_FULL
        self._unicasts.append(data)
        self._unicast_bytes += len(data)
        return None

    def send_routed(self, piece: Routed) -> bool:
        """Queue a piece of a route; False when it is full, or the piece too large. An end without data has a small reserve."""
        data = encode(piece)
        if len(data) > self._frame_bytes_max:
            return False
        reserve = ROUTE_ENDS_BYTES if piece.ended and not piece.data else 0
        if self.routed_bytes + len(data) > self._config.routed_bytes_max + reserve:
            return False
        self._routed.append(data)
        self.routed_bytes += len(data)
        return True

    def farewell(self, reason: str) -> bytes:
        """The last bytes of this connection. What `take` gave before is whole frames or is cut: then only the end is seen."""
        return b"" if self._at < len(self._out) else encode(Bye(reason))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def take(self, now: float) -> bytes:
        """The next chunk, empty when there is nothing to say or the last one is still being written."""
        if self._writing_since is not None:
            return b""
        limit = self._config.chunk_bytes
        if len(self._out) - self._at < limit:
            self._fill(now, limit)
        data = self._out[self._at : self._at + limit]
        self._at += len(data)
        if data:
            self._writing_since = self._spoke = now
        return data

    def _fill(self, now: float, limit: int) -> None:
        """Add whole frames to what is left of the last one, until a chunk is full."""
        parts = [self._out[self._at :], *self._urgent(now), *self._some_unicasts(limit // 2), *self._some_routed(limit // 2)]
        size = sum(map(len, parts))
        while size < limit and (part := self._next_entry()) is not None:
            parts.append(part)
            size += len(part)
        self._out, self._at = b"".join(parts), 0

    def written(self) -> None:
        """The last chunk is with the kernel."""
        self._writing_since = None

    def _urgent(self, now: float) -> list[bytes]:
        parts = list(self._answers)
        self._answers.clear()
        if self.accepted and (self._stable or self._stable_view is not None):
            assert self.peer is not None
            parts.append(encode(Ack({self.peer.site: SiteVector(self._stable, self._stable_view)})))
            self._stable, self._stable_view = {}, None
        if not parts and now >= self._spoke + self._config.heartbeat_s:
            parts.append(encode(Heartbeat()))
        return parts

    def _some_unicasts(self, limit: int) -> list[bytes]:
        """At most half a chunk of unicasts, so that they delay the stream little and it them."""
        parts: list[bytes] = []
        size = 0
        while self._unicasts and size < limit and self.accepted:
            parts.append(self._unicasts.popleft())
            size += len(parts[-1])
        self._unicast_bytes -= size
        return parts

    def _some_routed(self, limit: int) -> list[bytes]:
        """At most half a chunk of pieces, so that the own stream goes on beside them."""
        parts: list[bytes] = []
        size = 0
        while self._routed and size < limit and self.accepted:
            parts.append(self._routed.popleft())
            size += len(parts[-1])
        self.routed_bytes -= size
        return parts

    def _next_entry(self) -> bytes | None:
        """The next frame of this site's stream, as far as the windows of both ends allow."""
        if not self.accepted or self.peer is None:
            return None
        return self._sender.next_frame(min(self._config.window_bytes, self.peer.window_bytes), self._frame_bytes_max)

    # -- time ----------------------------------------------------------------------------------------------------------

    def overdue(self, now: float) -> Overdue | None:
        """Why the link is to be closed by now, or None."""
        config = self._config
        if not self.answered and now >= self._hello_due:
            return Overdue.HELLO_TIMEOUT
        if now >= self._heard + config.timeout_s:
            return Overdue.SILENT
        if self._writing_since is not None and now >= self._writing_since + config.write_s:
            return Overdue.STUCK
        return None

    def deadline(self) -> float:
        """When `overdue`, `take` or `resync` wants to be asked."""
        config = self._config
        dues = [self._heard + config.timeout_s]
        if not self.answered:
            dues.append(self._hello_due)
        if self._writing_since is None:
            dues.append(self._spoke + config.heartbeat_s)
        else:
            dues.append(self._writing_since + config.write_s)
        if self._hole:
            dues.append(self._resynced + config.resync_s)
        return min(dues)
