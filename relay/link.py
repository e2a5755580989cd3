"""LinkSession: one TCP connection to the relay of another site, from HELLO to BYE (seed 001, "communicates briefly").

Sending is pulled: `take` gives the next bytes, a bounded chunk at a time, so heartbeats wait for a chunk at most. It is one
queue: the answers, then gaps and entries above the peer's STATE in stream order, then live entries (R1, R7). Its cursor is a
position in the replicated buffer and its filter a vector per origin (R2), the same for replay and for live traffic.

The life of a session: HELLO both ways -> `accept` (the gateway has fenced) -> STATE at once, whatever the peer does (R27) ->
once the peer's STATE is here, entries flow. A later STATE of the peer rewinds: it has found a hole.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from relay.buffer import Entry
from relay.headers import RemoteBaseline, RemoteGap, RemoteView, SiteVector, UnicastReply
from relay.horizon import Horizon
from relay.state import ReplicatedState
from relay.vectors import later, raise_to
from relay.wire import (
    DATA_OVERHEAD_BYTES,
    HELLO_BYTES_MAX,
    Ack,
    Bye,
    Data,
    FrameParser,
    Heartbeat,
    Hello,
    Routed,
    State,
    Unicast,
    encode,
)
from sitestack.address import Address
from sitestack.errors import ProtocolError
from sitestack.frame import Header
from sitestack.message import Batch
from sitestack.view import ViewId

#: Above `routed_bytes_max` there is room for ends of routes without data only: hundreds of them, then they are dropped too.
ROUTE_ENDS_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One link. The two ends need not agree, except that heartbeats must be much rarer than the other end's timeout."""

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
    #: The largest frame; a batch that does not fit becomes a gap.
    frame_bytes_max: int = 16 * 1024 * 1024
    #: Unicasts that wait for the link; those above it are dropped, and their origins try again.
    unicast_bytes_max: int = 4 * 1024 * 1024
    #: Pieces of routes that wait for the link; beyond, the route is ended and tried again. More than its window and a frame.
    routed_bytes_max: int = 32 * 1024 * 1024


class LinkSession:
    """One connection. Bounds: the window, one chunk, one frame being parsed, `unicast_bytes_max`, a handful of answers."""

    def __init__(self, hello: Hello, state: ReplicatedState, horizon: Horizon, config: LinkConfig, now: float) -> None:
        self.local = hello
        self.peer: Hello | None = None
        self.accepted = False
        self.in_flight_bytes = 0
        self.gaps_sent = 0
        self.entries_sent = 0
        self._state = state
        self._horizon = horizon
        self._config = config
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
        #: Where the peer's knowledge of this site stands as far as this connection goes; the cursor is None before its STATE.
        self._cursor: int | None = None
        self._sent: dict[Address, int] = {}
        self._sent_view: ViewId | None = None
        self._ahead: deque[bytes] = deque()
        self._acked: dict[Address, int] = {}
        self._acked_view: ViewId | None = None
        self._in_flight: deque[tuple[Entry, int]] = deque()
        self._hello_due = now + config.hello_s
        self._heard = self._spoke = now
        self._writing_since: float | None = None
        self._resynced = now - config.resync_s
        self._hole = False

    @property
    def answered(self) -> bool:
        """The peer has said STATE, so it takes this connection for a link, too."""
        return self._cursor is not None

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
                self._rewind(frame.vectors.get(self.local.site))
            elif isinstance(frame, Hello):
                raise ProtocolError("bridge_hello")
            elif not isinstance(frame, Heartbeat):
                if isinstance(frame, Ack):
                    self._acknowledged(frame.vectors.get(self.local.site, SiteVector()))
                frames.append(frame)
        return frames

    def _first(self, frame: Header) -> None:
        if isinstance(frame, Hello):
            self.peer = frame
            self._hello_due = self._heard + self._config.timeout_s  # its STATE comes a round trip later
            self._parser.bytes_max = self._config.frame_bytes_max
        elif not isinstance(frame, Bye):
            raise ProtocolError("bridge_hello")

    def _acknowledged(self, vector: SiteVector) -> None:
        raise_to(self._acked, vector.origins)
        self._acked_view = later(self._acked_view, vector.view)
        while self._in_flight and self._covers(self._acked, self._acked_view, self._in_flight[0][0]):
            self.in_flight_bytes -= self._in_flight.popleft()[1]

    @staticmethod
    def _covers(origins: dict[Address, int], view: ViewId | None, entry: Entry) -> bool:
        if entry.batch is not None:
            return origins.get(entry.batch.origin, 0) >= entry.batch.last
        return entry.view is not None and view is not None and view >= entry.view.id

    # -- what the gateway says -----------------------------------------------------------------------------------------

    def accept(self, admitted: SiteVector | None, stable: SiteVector) -> None:
        """The peer is who it should be: answer with STATE at once, and say once more all that is stable."""
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

    def send_unicast(self, frame: Unicast | UnicastReply) -> bool:
        """Queue a unicast or its answer; False when the queue is full."""
        data = encode(frame)
        if self._unicast_bytes + len(data) > self._config.unicast_bytes_max:
            return False
        self._unicasts.append(data)
        self._unicast_bytes += len(data)
        return True

    def send_routed(self, piece: Routed) -> bool:
        """Queue a piece of a route; False when the queue is full. An end without data has a small reserve above that."""
        data = encode(piece)
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
        """The next frame of the stream that the peer lacks, held by one more member here, and that fits into the window."""
        if not self.accepted or self._cursor is None or self.peer is None:
            return None
        buffer = self._state.buffer
        while not self._ahead:
            if self.in_flight_bytes >= min(self._config.window_bytes, self.peer.window_bytes):
                return None
            if self._cursor < buffer.first:  # the budget ran out under the cursor
                self._cursor = buffer.first
                self._bridge_holes(fresh=False)
                continue
            if self._cursor > self._horizon.sendable or self._cursor >= buffer.end:
                return None
            entry = buffer.at(self._cursor)
            self._cursor += 1
            if not self._covers(self._sent, self._sent_view, entry):
                self._send(entry)
        return self._ahead.popleft()

    def _send(self, entry: Entry) -> None:
        site = self.local.site
        if entry.view is not None:
            self._sent_view = entry.view.id
            frame: Header = RemoteView(site, entry.view)
        else:
            assert entry.batch is not None
            batch = entry.batch
            self._skip_to(batch.origin, batch.first, "missing")
            if len(batch.body) + DATA_OVERHEAD_BYTES > self._config.frame_bytes_max:
                self._skip_to(batch.origin, batch.last + 1, "too_large")
                return
            self._sent[batch.origin] = batch.last
            frame = Data((site,), batch)
        data = encode(frame)
        self._ahead.append(data)
        self._in_flight.append((entry, len(data)))
        self.in_flight_bytes += len(data)
        self.entries_sent += 1

    # -- replay --------------------------------------------------------------------------------------------------------

    def _rewind(self, vector: SiteVector | None) -> None:
        """The peer's STATE: go on with everything above it, from the oldest entry."""
        fresh = vector is None
        if vector is None:
            vector = SiteVector()
        self._sent, self._sent_view = dict(vector.origins), vector.view
        kept = [each for each in self._in_flight if self._covers(self._sent, self._sent_view, each[0])]
        self._in_flight = deque(kept)
        self.in_flight_bytes = sum(size for _, size in kept)
        self._ahead.clear()
        self._cursor = self._state.buffer.first
        self._bridge_holes(fresh)

    def _bridge_holes(self, fresh: bool) -> None:
        """Account for what is no longer held: a gap, or for a site that knows nothing of this one a baseline (R21, R29)."""
        state = self._state
        first_numbers = state.buffer.first_numbers()
        starts = {origin: first_numbers.get(origin, last + 1) for origin, last in state.produced.items()}
        if fresh:
            baseline = {origin: start - 1 for origin, start in starts.items() if start > 1}
            if baseline:
                self._ahead.append(encode(RemoteBaseline(self.local.site, baseline)))
                self._sent.update(baseline)
        for origin, start in starts.items():
            self._skip_to(origin, start, "budget")
        base = state.buffer.base_view
        if base is not None and (self._sent_view is None or self._sent_view < base.id):
            self._sent_view = base.id
            self._ahead.append(encode(RemoteView(self.local.site, base)))

    def _skip_to(self, origin: Address, start: int, reason: str) -> None:
        first = self._sent.get(origin, 0) + 1
        if first < start:
            self._ahead.append(encode(RemoteGap(self.local.site, origin, first, start - 1, reason)))
            self._sent[origin] = start - 1
            self.gaps_sent += 1

    # -- time ----------------------------------------------------------------------------------------------------------

    def overdue(self, now: float) -> str | None:
        """Why the link is to be closed by now, or None."""
        config = self._config
        if (self.peer is None or self._cursor is None) and now >= self._hello_due:
            return "hello_timeout"
        if now >= self._heard + config.timeout_s:
            return "silent"
        if self._writing_since is not None and now >= self._writing_since + config.write_s:
            return "stuck"
        return None

    def deadline(self) -> float:
        """When `overdue`, `take` or `resync` wants to be asked."""
        config = self._config
        dues = [self._heard + config.timeout_s]
        if self.peer is None or self._cursor is None:
            dues.append(self._hello_due)
        if self._writing_since is None:
            dues.append(self._spoke + config.heartbeat_s)
        else:
            dues.append(self._writing_since + config.write_s)
        if self._hole:
            dues.append(self._resynced + config.resync_s)
        return min(dues)


def fits(batch: Batch, config: LinkConfig) -> bool:
    """True when a unicast batch fits into a frame of the bridge."""
    return len(batch.body) + DATA_OVERHEAD_BYTES <= config.frame_bytes_max
