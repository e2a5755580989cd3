"""LinkSender: sends this site's stream to the relay of another site; the opposite direction is `receiver.py`.

Replay and live traffic are one: a cursor walks the replicated buffer, and a vector per origin says what the peer has (R2). The
peer gets gaps and entries above its STATE in stream order, then new entries as they come (R1, R7).
"""

from __future__ import annotations

from collections import deque

from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import DATA_OVERHEAD_BYTES, Data, encode
from relay.replica.buffer import Buffer
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntry
from relay.replica.spill import Spill
from relay.replica.state import ReplicatedState
from relay.replica.vectors import raise_to
from sitestack.model.address import Address
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId


class _Replay:
    """Reads spilled entries back for one link, a record at a time. Bound: one record, of `RECORD_BYTES` or one body."""

    def __init__(self, buffer: Buffer, spill: Spill) -> None:
        self._buffer = buffer
        self._spill = spill
        #: The record that was read last: the position of its first entry, and its entries.
        self._first = 0
        self._entries: list[HeldEntry] = []
        #: The segment that it is from, and where the next record begins there.
        self._segment = 0
        self._offset = 0

    def start(self, vector: SiteVector) -> int:
        """The position from which on to look for what a peer with this vector lacks."""
        segment = self._spill.lacking(vector.origins, vector.view)
        return self._buffer.first if segment is None else segment.first

    def entry_from(self, position: int) -> tuple[int, HeldEntry | None]:
        """The first entry at or after a position, which memory has no more, with its position.

        None, with the position at which memory begins, when the disk has no such entry.
        """
        while not self._first <= position < self._first + len(self._entries):
            segment = self._spill.segment_from(position)
            if segment is None:
                return self._buffer.first, None
            if segment.number != self._segment or position < self._first:
                self._segment, self._offset = segment.number, 0
            found = self._spill.read(segment, self._offset)
            if found is None:
                continue  # the segment is gone
            self._first, self._entries, self._offset = found
            position = max(position, self._first)
        return position, self._entries[position - self._first]


class LinkSender:
    """What one connection has sent of the stream, and what is next. Bound: the batches in flight, by the window given.

    Views are small and do not count in the window: a view that the peer already has from another part of this site is never
    acknowledged on this connection, and would take up window for ever.
    """

    def __init__(self, site: str, state: ReplicatedState, watermarks: Watermarks) -> None:
        #: Bytes of batches sent, and not known to be stable at the peer.
        self.in_flight_bytes = 0
        #: Bytes of batches acknowledged since this connection was made.
        self.acked_bytes = 0
        #: The site at the other end; empty before its HELLO.
        self.peer = ""
        self._site = site
        self._state = state
        self._watermarks = watermarks
        #: Position in the buffer of the next entry to look at; None before the peer's STATE.
        self._cursor: int | None = None
        self._replay = None if state.buffer.spill is None else _Replay(state.buffer, state.buffer.spill)
        #: Per origin the lowest number on the disk that was passed over for lower ones in memory, which come behind the disk.
        self._passed_over: dict[Address, int] = {}
        #: What the peer has once all that was sent here arrives: the last number per origin, and the last view.
        self._sent: dict[Address, int] = {}
        self._sent_view: ViewId | None = None
        #: Encoded frames to send before the entry at the cursor: the last entry, and what accounts for holes beside it.
        self._ahead: deque[bytes] = deque()
        #: Per origin a hole at the end of what is held: the last number held, and the last number of the hole.
        self._tails: dict[Address, tuple[int, int]] = {}
        self._acked: dict[Address, int] = {}
        self._in_flight: deque[tuple[Batch, int]] = deque()

    @property
    def begun(self) -> bool:
        """True once the peer's STATE has come: before, nothing of the stream is sent."""
        return self._cursor is not None

    # -- STATE and ACK of the peer -------------------------------------------------------------------------------------

    def rewind(self, vector: SiteVector | None) -> None:
        """RELAY's replay: go on from the oldest entry with everything above the peer's STATE; None: the peer knows nothing."""
        fresh = vector is None
        if vector is None:
            vector = SiteVector()
        self._sent, self._sent_view = dict(vector.origins), vector.view
        # Batches acknowledged behind one that is not leave here: no further ACK names them, and they would stay in the window.
        unsettled = [each for each in self._in_flight if not _reaches(self._acked, each[0])]
        kept = [each for each in unsettled if _reaches(self._sent, each[0])]
        self._in_flight = deque(kept)
        self.in_flight_bytes = sum(size for _, size in kept)
        self._ahead.clear()
        self._passed_over.clear()
        self._cursor = self._state.buffer.first
        if self._replay is not None:
            self._cursor = self._replay.start(vector)
        self._bridge_holes(fresh)

    def acknowledged(self, vector: SiteVector) -> None:
        """The peer's ACK: batches that are stable there leave the window."""
        raise_to(self._acked, vector.origins)
        while self._in_flight and _reaches(self._acked, self._in_flight[0][0]):
            size = self._in_flight.popleft()[1]
            self.in_flight_bytes -= size
            self.acked_bytes += size

    # -- what the peer lacks -------------------------------------------------------------------------------------------

    def next_frame(self, window_bytes: int, frame_bytes_max: int) -> bytes | None:
        """RELAY's forward(buf): the next frame of the stream that the peer lacks; None without one, or with a full window.

        Only entries that another member of this site holds are sent. A batch that does not fit into a frame becomes a gap.
        """
        if self._cursor is None:
            return None
        buffer = self._state.buffer
        while not self._ahead:
            if self.in_flight_bytes >= window_bytes:
                return None
            spilled = None
            if self._cursor < buffer.first:  # the entry at the cursor was dropped, or is on the disk
                at, spilled = (buffer.first, None) if self._replay is None else self._replay.entry_from(self._cursor)
                if at > self._cursor:
                    self._cursor = at
                    self._bridge_holes(fresh=False)
                    continue
            if self._cursor >= buffer.end and self._turn_back():
                continue
            if self._cursor > self._watermarks.sendable or self._cursor >= buffer.end:
                return None
            entry = buffer.at(self._cursor) if spilled is None else spilled
            batch = None if entry.batch is None or _reaches(self._sent, entry.batch) else entry.batch
            self._cursor += 1
            if entry.view is not None:
                self._send_view(entry.view)
            elif batch is not None and spilled is not None and self._has_lower(batch):
                self._passed_over.setdefault(batch.origin, batch.first)
            elif batch is not None:
                self._send(batch, frame_bytes_max)
        return self._ahead.popleft()

    def _has_lower(self, batch: Batch) -> bool:
        """Whether memory has what the peer lacks before a batch on the disk, as a merge may have it: then that goes first."""
        before = self._sent.get(batch.origin, 0)
        return before + 1 < batch.first and self._state.buffer.numbers.has_between(batch.origin, before, batch.first)

    def _turn_back(self) -> bool:
        """At the end: whether the cursor is on the disk again, for what was passed over there and is next now.

        The next number of the origin would show the hole, but none may ever come.
        """
        state, sent = self._state, self._sent
        waiting = [
            origin
            for origin, first in self._passed_over.items()
            if not state.buffer.numbers.has_between(origin, sent.get(origin, 0), first)
        ]
        if self._replay is None or not waiting:
            return False
        for origin in waiting:
            del self._passed_over[origin]
        self._cursor = self._replay.start(SiteVector(dict(sent), self._sent_view))
        return self._cursor < state.buffer.first

    def _send_view(self, view: View) -> None:
        if self._sent_view is None or self._sent_view < view.id:
            self._sent_view = view.id
            self._ahead.append(encode(RemoteView(self._site, view)))

    def _send(self, batch: Batch, frame_bytes_max: int) -> None:
        self._skip_to(batch.origin, batch.first)
        if len(batch.body) + DATA_OVERHEAD_BYTES > frame_bytes_max:
            self._tell_gap(batch.origin, Run(batch.first, batch.last), GapReason.TOO_LARGE)
        else:
            self._sent[batch.origin] = batch.last
            data = encode(Data((self._site,), batch))
            self._ahead.append(data)
            self._in_flight.append((batch, len(data)))
            self.in_flight_bytes += len(data)
        self._skip_tail(batch.origin)

    def _bridge_holes(self, fresh: bool) -> None:
        """Account for what is no longer held: by gaps, and by a baseline for a `fresh` peer, which knows nothing (R21, R29)."""
        state = self._state
        runs = state.buffer.all_runs()
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
        assert self._cursor is not None
        base = state.buffer.base_before(self._cursor)
        if base is not None:
            self._send_view(base)

    def _skip_tail(self, origin: Address) -> None:
        """Tell an origin's hole at the end once the peer has its last held number.

        The gap cannot wait for the origin's next batch, since none may ever come (X5).
        """
        if origin in self._tails:
            last_held, produced = self._tails[origin]
            if self._sent.get(origin, 0) >= last_held:
                self._skip_to(origin, produced + 1)

    def _skip_to(self, origin: Address, start: int) -> None:
        for gone, reason in self._state.buffer.reasons(origin, self._sent.get(origin, 0) + 1, start - 1):
            for part, why in self._state.switches.explain(self.peer, origin, gone, reason):
                self._tell_gap(origin, part, why)

    def _tell_gap(self, origin: Address, gone: Run, reason: GapReason) -> None:
        self._ahead.append(encode(RemoteGap(self._site, origin, gone.first, gone.last, reason)))
        self._sent[origin] = gone.last


def _newest(runs: list[Run] | None, produced: int) -> int:
    """The first number held after the last hole; the next number to come when the end itself is a hole."""
    return runs[-1].first if runs and runs[-1].last == produced else produced + 1


def _reaches(origins: dict[Address, int], batch: Batch) -> bool:
    """True when this vector covers the batch."""
    return origins.get(batch.origin, 0) >= batch.last
