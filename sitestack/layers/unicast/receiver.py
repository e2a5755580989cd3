"""The receiving side of one peer: the window of its current connection, and the state that outlives
connections.

A window opens at a message marked `first`; earlier arrivals wait for it. After a connection closes,
its conn-id, the last delivered mid and the mids delivered out of band are remembered (U4).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sitestack.layers.unicast.headers import (
    FRAME_COST_BYTES,
    RANGES_MAX,
    SendFirst,
    UnicastAck,
    UnicastConfig,
    UnicastData,
    UnicastSync,
    frame_bytes,
    without_header,
)
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.stack.layer import Dropped, Effect, Up
from sitestack.wire.lane import NUMBER_MAX, LaneHead

#: Seconds for which an acknowledgement waits for a frame to the same peer; the sender retransmits
#: after three times as long.
ACK_DELAY_S = 0.03
#: Frames after which an acknowledgement waits no longer.
ACK_FRAMES = 16


class Receiver:
    def __init__(
        self, peer: Address, config: UnicastConfig, rng: random.Random, windows: Iterator[int], now: float, all_bytes: Level
    ) -> None:
        self.peer = peer
        #: Numbers the windows of all peers, which must grow even after a peer was forgotten.
        self._windows = windows
        self._config = config
        self._rng = rng
        #: The highest conn-id seen; lower ones are stale (U3).
        self.conn_id = 0
        #: `mid - seqno`.
        self._offset = 0
        #: Last mid delivered, or declared settled, in any connection.
        self.last_mid = 0
        #: Mids above `last_mid` that were delivered out of band. Bounded like the buffer; beyond,
        #: an out-of-band message waits for its turn.
        self.early: dict[int, None] = {}
        #: None without a window.
        self._next_seqno: int | None = None
        #: Number of this window, or of the last one.
        self._window = 0
        #: The highest seqno received out of order, held or not.
        self._highest = 0
        #: Frames ahead of a hole, or of the first message; frames beyond the bounds are dropped and
        #: retransmitted.
        self.buffer: dict[int, Frame] = {}
        self.buffer_bytes = 0
        #: of all peers together
        self._all_bytes = all_bytes
        self._ask_s = config.ask_interval_s
        #: Earliest time to ask for a hole, or for the start of the connection.
        self._ask_at = now
        self._asked_at = now
        #: Time of the last request, if none was answered for `doubt_s`.
        self.vain_since: float | None = None
        self.heard_at = now
        #: Received since the last answer; whether the peer waits for it.
        self._owed_frames = self._owed_bytes = 0
        self._is_awaited = False
        self._ack_frames = min(ACK_FRAMES, max(1, config.window_frames_max // 4))
        self._ack_bytes = config.window_bytes_max // 4
        self._ack_delay_s = min(ACK_DELAY_S, config.retransmit_interval_s / 3)
        #: When the acknowledgement is due.
        self.answer_at = now

    @property
    def must_answer(self) -> bool:
        return (
            self._is_awaited or self._lacks_some or self._owed_frames >= self._ack_frames or self._owed_bytes >= self._ack_bytes
        )

    @property
    def is_open(self) -> bool:
        """Whether there is a window."""
        return self._next_seqno is not None

    @property
    def _lacks_some(self) -> bool:
        return self._highest >= (self._next_seqno or 1)

    def handle_data(self, frame: Frame, header: UnicastData, now: float) -> list[Effect]:
        """Deliver a frame if it is the next one, with those that waited for it; otherwise hold it."""
        refused = self._enter(header, now)
        if refused is not None:
            self._is_awaited = True
            return [Dropped(refused)]
        self._owe(frame_bytes(frame), now)
        effects = self._settle(header.seqno, now) if header.first else []
        expected = self._next_seqno
        if header.seqno == expected:
            self._next_seqno = expected + 1
            self.last_mid = header.mid
            effects += self._deliver(frame)
            return effects + self._drain(now) if self._lacks_some else effects
        self._is_awaited = True
        return effects + self._keep(frame, header, now)

    def _owe(self, size: int, now: float) -> None:
        if not self._owed_frames:
            self.answer_at = now + self._ack_delay_s
        self._owed_frames += 1
        self._owed_bytes += size

    def _deliver(self, frame: Frame) -> list[Effect]:
        """Deliver the next message, unless it was already delivered out of band."""
        if self.early and self.last_mid in self.early:
            del self.early[self.last_mid]
            return []
        return [Up(without_header(frame))]

    def handle_sync(self, header: UnicastSync, now: float) -> list[Effect]:
        self._is_awaited = True
        refused = self._enter(header, now)
        return [Dropped(refused)] if refused is not None else self._settle(header.seqno, now)

    def _enter(self, header: UnicastData | UnicastSync, now: float) -> str | None:
        """Follow the sender into a newer connection; return the reason for a refusal, or None."""
        if header.conn_id < self.conn_id:
            return "unicast_stale_connection"
        if header.seqno < 1 or header.mid < header.seqno:
            return "unicast_malformed"
        if header.conn_id > self.conn_id:
            # The sender carries over everything that was not acknowledged here.
            self.close()
            self.conn_id = header.conn_id
            self._offset = header.mid - header.seqno
        elif header.mid - header.seqno != self._offset:
            return "unicast_malformed"
        self.heard_at = now
        return None

    def _settle(self, seqno: int, now: float) -> list[Effect]:
        """Open the window at this number, or move it there: the sender has settled all lower ones.

        If more was delivered here than the sender knows of, the window opens behind that.
        """
        start = max(seqno, self.last_mid + 1 - self._offset)
        if self._next_seqno is None:
            self._window = next(self._windows)
            self._is_awaited = True
        elif start <= self._next_seqno:
            return []
        self._next_seqno = start
        self.last_mid = start - 1 + self._offset
        for settled in [each for each in self.buffer if each < start]:
            self._take(settled)
        for mid in [each for each in self.early if each <= self.last_mid]:
            del self.early[mid]
        return self._drain(now) if self.buffer else []

    def _drain(self, now: float) -> list[Effect]:
        """Deliver the held frames whose turn it is; the next hole is requested without delay."""
        self._ask_s = self._config.ask_interval_s
        self._ask_at = min(self._ask_at, now + self._ask_s)
        effects: list[Effect] = []
        while self._next_seqno in self.buffer:
            frame = self._take(self._next_seqno)
            self._next_seqno += 1
            self.last_mid += 1
            effects += self._deliver(frame)
        return effects

    def _keep(self, frame: Frame, header: UnicastData, now: float) -> list[Effect]:
        """Hold a frame, unless it is a duplicate or beyond the bounds; deliver it if out of band."""
        config, seqno = self._config, header.seqno
        expected = self._next_seqno
        if (expected is not None and seqno < expected) or seqno in self.buffer:
            return [Dropped("unicast_duplicate")]
        if expected is not None and not self._lacks_some:
            self._ask_at = max(self._ask_at, now + self._ask_s)
        self._highest = max(self._highest, seqno)
        size = frame_bytes(frame)
        far = expected is not None and seqno >= expected + config.reorder_frames_max
        full = len(self.buffer) >= config.reorder_frames_max or self.buffer_bytes + size > config.reorder_bytes_max
        if far or (full and self.buffer):
            return [Dropped("unicast_window_full")]
        self.buffer[seqno] = frame
        self.buffer_bytes += size
        self._all_bytes.add(size)
        is_new = header.mid > self.last_mid and header.mid not in self.early
        if is_new and frame.is_out_of_band and len(self.early) < config.reorder_frames_max:
            self.early[header.mid] = None
            return [Up(without_header(frame))]
        return []

    def _take(self, seqno: int) -> Frame:
        frame = self.buffer.pop(seqno)
        self.buffer_bytes -= frame_bytes(frame)
        self._all_bytes.now -= frame_bytes(frame)
        return frame

    def shed(self) -> int:
        """Discard the held frames, which come again; return their number."""
        shed = len(self.buffer)
        self.buffer = {}
        self._all_bytes.now -= self.buffer_bytes
        self.buffer_bytes = 0
        return shed

    def close(self) -> None:
        self._next_seqno = None
        self._highest = 0
        self.shed()

    @property
    def fits_lane(self) -> bool:
        """Whether the next acknowledgement fits into the head of a lane."""
        return max(self._next_seqno or 0, self.conn_id, self._window) <= NUMBER_MAX

    def expects(self, head: LaneHead) -> bool:
        """Return whether this is the next frame of the connection, with nothing missing or early."""
        is_next = head.seqno == self._next_seqno and head.conn_id == self.conn_id
        return is_next and head.seqno > self._highest and not self.early

    def accept(self, head: LaneHead, now: float) -> None:
        self.heard_at = now
        self._owe(FRAME_COST_BYTES + head.size, now)
        self._next_seqno = head.seqno + 1
        self.last_mid = head.seqno + self._offset

    def expand(self, head: LaneHead) -> UnicastData | None:
        """Return the header that the head stands for; None: another connection."""
        if head.conn_id != self.conn_id or head.seqno < 1:
            return None
        return UnicastData(head.conn_id, head.seqno, head.seqno + self._offset, False)

    def answer(self, now: float) -> UnicastAck | SendFirst | None:
        """Return the answer due at the end of a turn, or None."""
        self._owed_frames = self._owed_bytes = 0
        self._is_awaited = False
        asking = self._lacks_some and now >= self._ask_at
        self.vain_since = self._asked_at if asking and self._ask_s > self._config.doubt_s else None
        if asking:
            self._asked_at = now
            self._ask_at = now + self._ask_s * (1 + self._rng.random() / 2)
            self._ask_s = min(2 * self._ask_s, self._config.ask_interval_s_max)
        if self._next_seqno is None:
            return SendFirst(self.conn_id) if asking else None
        missing = self._missing(self._next_seqno) if asking else ()
        return UnicastAck(self.conn_id, self._window, self._next_seqno - 1, missing)

    def _missing(self, expected: int) -> tuple[tuple[int, int], ...]:
        """Return the holes within the room of buffer and header."""
        missing: list[tuple[int, int]] = []
        start = expected
        for seqno in sorted(self.buffer):
            if seqno > start:
                missing.append((start, seqno - 1))
            start = seqno + 1
        last = min(self._highest, expected + self._config.reorder_frames_max - 1)
        if start <= last:
            missing.append((start, last))
        return tuple(missing[:RANGES_MAX])

    def wants_to_ask(self, now: float) -> bool:
        """Return whether a hole is old enough to request; the start of a connection only when more of it arrives."""
        return self.is_open and self._lacks_some and now >= self._ask_at

    def is_idle(self, now: float) -> bool:
        return now >= self.heard_at + self._config.idle_s

    def is_past(self, now: float) -> bool:
        """Return whether the tombstone may be forgotten: no sender still retransmits its messages."""
        return now >= self.heard_at + self._config.tombstone_s

    def deadline(self) -> float:
        if not self.is_open and not self.buffer:
            return self.heard_at + self._config.tombstone_s
        idle_at = self.heard_at + self._config.idle_s
        return min(self._ask_at, idle_at) if self.is_open and self._lacks_some else idle_at
