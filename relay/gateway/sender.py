"""LinkSender: this site's stream on its way to the relay of another site; the other way is `receiver.py`.

Its cursor is a position in the replicated buffer and its filter a vector per origin (R2), the same for replay and for live
traffic: gaps and entries above the peer's STATE in stream order, then live entries (R1, R7).
"""

from __future__ import annotations

from collections import deque

from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import DATA_OVERHEAD_BYTES, Data, encode
from relay.replica.buffer import Entry, Run
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later, raise_to
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


class LinkSender:
    """What one connection has sent of the stream, and what is next. Bound: what is in flight, by the window given."""

    def __init__(self, site: str, state: ReplicatedState, watermarks: Watermarks) -> None:
        #: Sent, and not known to be stable at the peer.
        self.in_flight_bytes = 0
        self._site = site
        self._state = state
        self._watermarks = watermarks
        #: Where the peer's knowledge of this site stands as far as this connection goes; the cursor is None before its STATE.
        self._cursor: int | None = None
        self._sent: dict[Address, int] = {}
        self._sent_view: ViewId | None = None
        #: Frames that come before what is at the cursor: those that account for one hole in what is held, or for one entry.
        self._ahead: deque[bytes] = deque()
        #: Holes at the end of what is held of an origin: the number after which they come, and their last one.
        self._tails: dict[Address, tuple[int, int]] = {}
        self._acked: dict[Address, int] = {}
        self._acked_view: ViewId | None = None
        self._in_flight: deque[tuple[Entry, int]] = deque()

    @property
    def begun(self) -> bool:
        """The peer has said what it has."""
        return self._cursor is not None

    # -- what the peer says --------------------------------------------------------------------------------------------

    def rewind(self, vector: SiteVector | None) -> None:
        """RELAY's replay: go on with everything above the peer's STATE, from the oldest entry. None: it knows nothing."""
        fresh = vector is None
        if vector is None:
            vector = SiteVector()
        self._sent, self._sent_view = dict(vector.origins), vector.view
        # What it has acknowledged behind a hole is told by no further ACK: it would fill the window for good.
        unsettled = [each for each in self._in_flight if not _covers(self._acked, self._acked_view, each[0])]
        kept = [each for each in unsettled if _covers(self._sent, self._sent_view, each[0])]
        self._in_flight = deque(kept)
        self.in_flight_bytes = sum(size for _, size in kept)
        self._ahead.clear()
        self._cursor = self._state.buffer.first
        self._bridge_holes(fresh)

    def acknowledged(self, vector: SiteVector) -> None:
        """The peer's ACK: what is stable there leaves the window."""
        raise_to(self._acked, vector.origins)
        self._acked_view = later(self._acked_view, vector.view)
        while self._in_flight and _covers(self._acked, self._acked_view, self._in_flight[0][0]):
            self.in_flight_bytes -= self._in_flight.popleft()[1]

    # -- what the peer lacks -------------------------------------------------------------------------------------------

    def next_frame(self, window_bytes: int, frame_bytes_max: int) -> bytes | None:
        """RELAY's forward(buf): the next frame of the stream that the peer lacks.

        One more member here holds what is in it, and it fits into the window.
        A batch that does not fit into a frame becomes a gap.
        """
        if self._cursor is None:
            return None
        buffer = self._state.buffer
        while not self._ahead:
            if self.in_flight_bytes >= window_bytes:
                return None
            if self._cursor < buffer.first:  # the budget ran out under the cursor
                self._cursor = buffer.first
                self._bridge_holes(fresh=False)
                continue
            if self._cursor > self._watermarks.sendable or self._cursor >= buffer.end:
                return None
            entry = buffer.at(self._cursor)
            self._cursor += 1
            if not _covers(self._sent, self._sent_view, entry):
                self._send(entry, frame_bytes_max)
        return self._ahead.popleft()

    def _send(self, entry: Entry, frame_bytes_max: int) -> None:
        if entry.view is not None:
            self._sent_view = entry.view.id
            frame: Header = RemoteView(self._site, entry.view)
        else:
            assert entry.batch is not None
            batch = entry.batch
            self._skip_to(batch.origin, batch.first)
            if len(batch.body) + DATA_OVERHEAD_BYTES > frame_bytes_max:
                self._tell_gap(batch.origin, Run(batch.first, batch.last), "too_large")
                self._skip_tail(batch.origin)
                return
            self._sent[batch.origin] = batch.last
            frame = Data((self._site,), batch)
        data = encode(frame)
        self._ahead.append(data)
        self._in_flight.append((entry, len(data)))
        self.in_flight_bytes += len(data)
        if entry.batch is not None:
            self._skip_tail(entry.batch.origin)

    def _bridge_holes(self, fresh: bool) -> None:
        """Account for what is no longer held: a gap, or for a site that knows nothing of this one a baseline (R21, R29)."""
        state = self._state
        runs = state.buffer.runs()
        if fresh:
            baseline = {origin: _newest(runs.get(origin), last) - 1 for origin, last in state.produced.items()}
            baseline = {origin: n for origin, n in baseline.items() if n > 0}
            if baseline:
                self._ahead.append(encode(RemoteBaseline(self._site, baseline)))
                self._sent.update(baseline)
        self._tails.clear()
        for origin, produced in state.produced.items():
            held = runs.get(origin)
            self._skip_to(origin, held[0].first if held else produced + 1)
            if held and held[-1].last < produced:
                self._tails[origin] = held[-1].last, produced
                self._skip_tail(origin)
        base = state.buffer.base_view
        if base is not None and (self._sent_view is None or self._sent_view < base.id):
            self._sent_view = base.id
            self._ahead.append(encode(RemoteView(self._site, base)))

    def _skip_tail(self, origin: Address) -> None:
        """Once the peer has the last number that is held: nothing else may ever come that the gap could stand before (X5)."""
        if origin in self._tails:
            last_held, produced = self._tails[origin]
            if self._sent.get(origin, 0) >= last_held:
                self._skip_to(origin, produced + 1)

    def _skip_to(self, origin: Address, start: int) -> None:
        for gone, reason in self._state.buffer.reasons(origin, self._sent.get(origin, 0) + 1, start - 1):
            self._tell_gap(origin, gone, reason)

    def _tell_gap(self, origin: Address, gone: Run, reason: str) -> None:
        self._ahead.append(encode(RemoteGap(self._site, origin, gone.first, gone.last, reason)))
        self._sent[origin] = gone.last


def _newest(runs: list[Run] | None, produced: int) -> int:
    """The first number behind the last hole."""
    return runs[-1].first if runs and runs[-1].last == produced else produced + 1


def _covers(origins: dict[Address, int], view: ViewId | None, entry: Entry) -> bool:
    """True when the entry is not above this vector."""
    if entry.batch is not None:
        return origins.get(entry.batch.origin, 0) >= entry.batch.last
    return entry.view is not None and view is not None and view >= entry.view.id
