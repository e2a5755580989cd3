"""LinkSender: this site's stream on its way to the relay of another site; the other way is `receiver.py`.

Its cursor is a position in the replicated buffer and its filter a vector per origin (R2), the same for replay and for live
traffic: gaps and entries above the peer's STATE in stream order, then live entries (R1, R7).
"""

from __future__ import annotations

from collections import deque

from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import DATA_OVERHEAD_BYTES, Data, encode
from relay.replica.buffer import Run
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.state import ReplicatedState
from relay.replica.vectors import raise_to
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId


class LinkSender:
    """What one connection has sent of the stream, and what is next. Bound: batches in flight, by the window given.

    Views are small and not counted: one that the peer has by way of another part of this site is never acknowledged, and
    would fill the window for good.
    """

    def __init__(self, site: str, state: ReplicatedState, watermarks: Watermarks) -> None:
        #: Of batches: sent, and not known to be stable at the peer.
        self.in_flight_bytes = 0
        #: Of batches, and what has left the window since this connection was made.
        self.acked_bytes = 0
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
        self._in_flight: deque[tuple[Batch, int]] = deque()

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
        unsettled = [each for each in self._in_flight if not _reaches(self._acked, each[0])]
        kept = [each for each in unsettled if _reaches(self._sent, each[0])]
        self._in_flight = deque(kept)
        self.in_flight_bytes = sum(size for _, size in kept)
        self._ahead.clear()
        self._cursor = self._state.buffer.first
        self._bridge_holes(fresh)

    def acknowledged(self, vector: SiteVector) -> None:
        """The peer's ACK: what is stable there leaves the window."""
        raise_to(self._acked, vector.origins)
        while self._in_flight and _reaches(self._acked, self._in_flight[0][0]):
            size = self._in_flight.popleft()[1]
            self.in_flight_bytes -= size
            self.acked_bytes += size

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
            if entry.view is not None:
                self._send_view(entry.view)
            elif entry.batch is not None and not _reaches(self._sent, entry.batch):
                self._send(entry.batch, frame_bytes_max)
        return self._ahead.popleft()

    def _send_view(self, view: View) -> None:
        if self._sent_view is None or self._sent_view < view.id:
            self._sent_view = view.id
            self._ahead.append(encode(RemoteView(self._site, view)))

    def _send(self, batch: Batch, frame_bytes_max: int) -> None:
        self._skip_to(batch.origin, batch.first)
        if len(batch.body) + DATA_OVERHEAD_BYTES > frame_bytes_max:
            self._tell_gap(batch.origin, Run(batch.first, batch.last), "too_large")
        else:
            self._sent[batch.origin] = batch.last
            data = encode(Data((self._site,), batch))
            self._ahead.append(data)
            self._in_flight.append((batch, len(data)))
            self.in_flight_bytes += len(data)
        self._skip_tail(batch.origin)

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
        if base is not None:
            self._send_view(base)

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


def _reaches(origins: dict[Address, int], batch: Batch) -> bool:
    """True when the batch is not above this vector."""
    return origins.get(batch.origin, 0) >= batch.last
