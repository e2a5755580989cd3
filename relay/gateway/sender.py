"""LinkSender: sends this site's stream to another site's relay.

Replay and live traffic are one: a cursor walks the replicated buffer, and a vector per origin holds
the peer's numbers (R2). The peer receives gaps and entries above its STATE in stream order, then
new entries (R1, R7).
"""

from __future__ import annotations

from collections import deque

from relay.gateway.watermarks import Watermarks
from relay.gateway.window import LinkWindow
from relay.gateway.wire import DATA_OVERHEAD_BYTES, Data, encode
from relay.replica.buffer import Buffer
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntry
from relay.replica.spill import Spill
from relay.replica.state import ReplicatedState
from relay.replica.vectors import bound_to, is_full, raise_to
from sitestack.model.address import Address
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId

#: Maximum spilled records that one call passes over.
RECORDS_MAX = 32


class _Replay:
    """Reader of spilled entries for one link. Bound: one record, of `RECORD_BYTES` or one body."""

    def __init__(self, buffer: Buffer, spill: Spill) -> None:
        self.records = 0
        self._buffer = buffer
        self._spill = spill
        #: Position of the first entry of the last record, and its entries.
        self._first = 0
        self._entries: list[HeldEntry] = []
        #: Segment of that record, and the offset of the next one.
        self._segment = 0
        self._offset = 0

    def start(self, vector: SiteVector) -> int:
        segment = self._spill.lacking(vector.origins, vector.view)
        return self._buffer.first if segment is None else segment.first

    def entry_from(self, position: int) -> tuple[int, HeldEntry | None]:
        """Return the first entry at or after a position that memory has dropped, with its position.

        Without one on the disk, return the position at which memory begins, and None.
        """
        while not self._first <= position < self._first + len(self._entries):
            segment = self._spill.segment_from(position)
            if segment is None:
                self.release()
                return self._buffer.first, None
            if segment.number != self._segment or position < self._first:
                self._segment, self._offset = segment.number, 0
            found = self._spill.read(segment, self._offset)
            if found is None:
                continue  # the segment was removed
            self.records += 1
            self._first, self._entries, self._offset = found
            position = max(position, self._first)
        return position, self._entries[position - self._first]

    def release(self) -> None:
        """Drop the last record: the link has caught up with memory."""
        self._first += len(self._entries)
        self._entries = []


class LinkSender:
    """The stream as sent on one connection. Bounds: the batches in flight, by the window; `ORIGINS_MAX`.

    Views do not count in the window: one that the peer has from another part of this site is never
    acknowledged here.
    """

    def __init__(self, site: str, state: ReplicatedState, watermarks: Watermarks, window: LinkWindow) -> None:
        self.in_flight_bytes = 0
        self.acked_bytes = 0
        self.peer = ""
        self.lineage: ViewId | None = None
        self.window = window
        #: Whether the last call ended at `RECORDS_MAX`.
        self.is_seeking = False
        self._site = site
        self._state = state
        self._watermarks = watermarks
        #: Buffer position of the next entry to examine; None before the peer's STATE.
        self._cursor: int | None = None
        #: The STATE of a peer not yet held for.
        self._postponed: list[SiteVector | None] = []
        self._replay = None if state.buffer.spill is None else _Replay(state.buffer, state.buffer.spill)
        #: Per origin, the lowest number skipped on the disk because memory has lower ones.
        self._passed_over: dict[Address, int] = {}
        #: The peer's numbers and last view once all frames sent here arrive.
        self._sent: dict[Address, int] = {}
        self._sent_view: ViewId | None = None
        #: Encoded frames to send before the entry at the cursor.
        self._ahead: deque[bytes] = deque()
        #: Per origin with a hole at its end: the last number held, and the last number of the hole.
        self._tails: dict[Address, tuple[int, int]] = {}
        self._acked: dict[Address, int] = {}
        self._in_flight: deque[tuple[Batch, int]] = deque()

    @property
    def begun(self) -> bool:
        return self._cursor is not None

    def rewind(self, vector: SiteVector | None) -> None:
        """RELAY's replay: resend from the oldest entry all above the peer's STATE; None: an empty peer."""
        self._postponed.clear()
        if self.peer not in self._state.sites:
            self._postponed.append(vector)
            return
        fresh = vector is None
        if vector is None:
            vector = SiteVector()
        elif is_full(vector.origins):
            vector = SiteVector({**self._acked_before(), **vector.origins}, vector.view)
        self._sent, self._sent_view = dict(vector.origins), vector.view
        # Drop batches acknowledged behind an unacknowledged one.
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

    def _acked_before(self) -> dict[Address, int]:
        remote = self._state.remotes.get(self.peer)
        lineage = None if remote is None or self.lineage is None else remote.lineages.get(self.lineage)
        return {} if lineage is None else lineage.acked

    def acknowledged(self, vector: SiteVector, now: float) -> None:
        """Remove batches that are stable at the peer from the window."""
        acked_before = self.acked_bytes
        raise_to(self._acked, vector.origins)
        for origin, last in vector.origins.items():
            if self._sent.get(origin, 0) < last <= self._state.produced.get(origin, 0):
                self._sent[origin] = last
                self._skip_tail(origin)
        bound_to(self._acked, self._state.produced)
        while self._in_flight and _reaches(self._acked, self._in_flight[0][0]):
            size = self._in_flight.popleft()[1]
            self.in_flight_bytes -= size
            self.acked_bytes += size
        if self.acked_bytes > acked_before:
            self.window.acknowledged(self.acked_bytes - acked_before, now)

    def next_frame(self, frame_bytes_max: int, now: float) -> bytes | None:
        """RELAY's forward(buf): return the next frame that the peer lacks; None without one or with a
        full window.

        Only held entries are sent. A batch too large for a frame becomes a gap.
        """
        if self._postponed and self.peer in self._state.sites:
            self.rewind(self._postponed.pop())
        self.is_seeking = False
        if self._cursor is None:
            return None
        buffer, replay = self._state.buffer, self._replay
        records_max = 0 if replay is None else replay.records + RECORDS_MAX
        while not self._ahead:
            if self.in_flight_bytes >= self.window.bytes:
                return None
            if replay is not None and replay.records >= records_max:
                self.is_seeking = True
                return None
            spilled = None
            if self._cursor < buffer.first:
                try:
                    at, spilled = (buffer.first, None) if replay is None else replay.entry_from(self._cursor)
                except BlockingIOError:
                    return None  # again with the next heartbeat
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
            if replay is not None and spilled is not None and self._cursor >= buffer.first:
                replay.release()
            if entry.view is not None:
                self._send_view(entry.view)
            elif batch is not None and spilled is not None and self._has_lower(batch):
                self._passed_over.setdefault(batch.origin, batch.first)
            elif batch is not None:
                self._send(batch, frame_bytes_max, now)
        return self._ahead.popleft()

    def _has_lower(self, batch: Batch) -> bool:
        """Return whether memory has lower numbers that the peer lacks, as after a merge."""
        before = self._sent.get(batch.origin, 0)
        return before + 1 < batch.first and self._state.buffer.numbers.has_between(batch.origin, before, batch.first)

    def _turn_back(self) -> bool:
        """Return at the end whether the cursor is back on the disk, for skipped batches that are now next."""
        if self._replay is None or not self._passed_over:
            return False
        state, sent = self._state, self._sent
        waiting = [
            origin
            for origin, first in self._passed_over.items()
            if not state.buffer.numbers.has_between(origin, sent.get(origin, 0), first)
        ]
        if not waiting:
            return False
        for origin in waiting:
            del self._passed_over[origin]
        self._cursor = self._replay.start(SiteVector(dict(sent), self._sent_view))
        return self._cursor < state.buffer.first

    def _send_view(self, view: View) -> None:
        if self._sent_view is None or self._sent_view < view.id:
            self._sent_view = view.id
            bound_to(self._sent, self._state.produced)
            self._ahead.append(encode(RemoteView(self._site, view)))

    def _send(self, batch: Batch, frame_bytes_max: int, now: float) -> None:
        self._skip_to(batch.origin, batch.first)
        if len(batch.body) + DATA_OVERHEAD_BYTES > frame_bytes_max:
            self._tell_gap(batch.origin, Run(batch.first, batch.last), GapReason.TOO_LARGE)
        else:
            self._sent[batch.origin] = batch.last
            data = encode(Data((self._site,), batch))
            self._ahead.append(data)
            self._in_flight.append((batch, len(data)))
            self.in_flight_bytes += len(data)
            self.window.sent(self.in_flight_bytes, now)
        self._skip_tail(batch.origin)

    def _bridge_holes(self, fresh: bool) -> None:
        """Account for dropped entries: by gaps, and by a baseline for a `fresh` peer (R21, R29)."""
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
        """Report an origin's hole at the end: its next batch may never come (X5)."""
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
    """Return the first number held after the last hole, or the next to come if the end is a hole."""
    return runs[-1].first if runs and runs[-1].last == produced else produced + 1


def _reaches(origins: dict[Address, int], batch: Batch) -> bool:
    return origins.get(batch.origin, 0) >= batch.last
