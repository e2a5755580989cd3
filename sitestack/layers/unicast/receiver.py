"""The receiving side of one peer: the window of its current connection, and what outlives connections.

A window opens at a message marked `first`, below which everything is settled; messages that arrive earlier wait for it. After a
connection is closed its conn-id, the last delivered mid and the mids delivered out of band are remembered, so that nothing is
delivered twice when the connection comes back (U4).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sitestack.layers.unicast.headers import (
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

#: Seconds for which an acknowledgement waits for a frame to the same peer. The sender repeats what is not acknowledged after
#: three times as long, or later; a shorter wait would end more often than it spares a datagram.
ACK_DELAY_S = 0.03
#: Frames after which it waits no longer, so that windows of the usual size never fill for want of it.
ACK_FRAMES = 16


class Receiver:
    """Everything that comes from one peer."""

    def __init__(
        self, peer: Address, config: UnicastConfig, rng: random.Random, windows: Iterator[int], now: float, all_bytes: Level
    ) -> None:
        self.peer = peer
        #: Numbers the windows of all peers, so that a new window has a higher number even if its peer was forgotten in between.
        self._windows = windows
        self._config = config
        self._rng = rng
        #: The highest conn-id seen; 0 before the first. Lower ones are history (U3).
        self.conn_id = 0
        #: `mid - seqno`, which is constant in a connection.
        self._offset = 0
        #: The mid of the last message that was delivered or that the sender declared settled; it is above connections.
        self.last_mid = 0
        #: The mids above `last_mid` that were delivered out of band, also in earlier connections. Bounded as the buffer is:
        #: beyond, a message out of band waits for its turn.
        self.early: dict[int, None] = {}
        #: The seqno to be delivered next; None while there is no window.
        self._next_seqno: int | None = None
        #: The number of this window, or of the last one while there is none.
        self._window = 0
        #: The highest seqno seen out of order in this connection, kept or not.
        self._highest = 0
        #: Frames ahead of a hole, or of the first message. Bounded by the configuration; a frame beyond is dropped and sent
        #: again.
        self.buffer: dict[int, Frame] = {}
        self.buffer_bytes = 0
        #: The same of all peers together.
        self._all_bytes = all_bytes
        self._ask_s = config.ask_interval_s
        #: The earliest time to ask for a hole, or for the start of the connection.
        self._ask_at = now
        self.heard_at = now
        #: Frames heard since the last answer, and their bytes; whether the peer waits for it, or repeats what it has not got.
        self._owed_frames = self._owed_bytes = 0
        self._is_awaited = False
        self._ack_frames = min(ACK_FRAMES, max(1, config.window_frames_max // 4))
        self._ack_bytes = config.window_bytes_max // 4
        self._ack_delay_s = min(ACK_DELAY_S, config.retransmit_interval_s / 3)
        #: When what is owed must be answered; set with the first frame after an answer.
        self.answer_at = now

    @property
    def must_answer(self) -> bool:
        """Whether the answer waits for no frame to the peer: something is missing, the peer needs it, or much is owed."""
        return (
            self._is_awaited or self._lacks_some or self._owed_frames >= self._ack_frames or self._owed_bytes >= self._ack_bytes
        )

    @property
    def is_open(self) -> bool:
        """Whether there is a window; otherwise this is a tombstone, or waits for a first message."""
        return self._next_seqno is not None

    @property
    def _lacks_some(self) -> bool:
        """Whether a frame was seen that cannot be delivered yet."""
        return self._highest >= (self._next_seqno or 1)

    # -- input -----------------------------------------------------------------------------------------------------

    def handle_data(self, frame: Frame, header: UnicastData, now: float) -> list[Effect]:
        """Deliver a frame if it is the next one, together with those that waited for it; otherwise let it wait."""
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
        """Hand up the message whose turn it is, unless it was already delivered out of band."""
        if self.early and self.last_mid in self.early:
            del self.early[self.last_mid]
            return []
        return [Up(without_header(frame))]

    def handle_sync(self, header: UnicastSync, now: float) -> list[Effect]:
        """Open the window at a message that is still to come."""
        self._is_awaited = True
        refused = self._enter(header, now)
        return [Dropped(refused)] if refused is not None else self._settle(header.seqno, now)

    def _enter(self, header: UnicastData | UnicastSync, now: float) -> str | None:
        """Follow the sender into a newer connection. Returns why the header is refused, or None."""
        if header.conn_id < self.conn_id:
            return "unicast_stale_connection"
        if header.seqno < 1 or header.mid < header.seqno:
            return "unicast_malformed"
        if header.conn_id > self.conn_id:
            # The sender has closed the old connection, and carries over everything that was not acknowledged here.
            self.close()
            self.conn_id = header.conn_id
            self._offset = header.mid - header.seqno
        elif header.mid - header.seqno != self._offset:
            return "unicast_malformed"
        self.heard_at = now
        return None

    def _settle(self, seqno: int, now: float) -> list[Effect]:
        """Open the window at this number, or move it there, as the sender says that all lower ones are settled.

        Settled are the frames that were acknowledged here, perhaps before this receiver was forgotten, and those that the
        sender gave up. When more has been delivered here than the sender knows of, the window opens behind that. A first
        message that is sent again finds the window at or above it, and changes nothing.
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
        """Deliver the waiting frames whose turn it is. After this progress the next hole is asked for without delay."""
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
        """Let a frame wait, unless it is a duplicate or beyond the bounds.

        A message out of band is delivered at once, and waits too.
        """
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
        """Drop the frames that wait, which were not acknowledged and come again; returns how many there were."""
        shed = len(self.buffer)
        self.buffer = {}
        self._all_bytes.now -= self.buffer_bytes
        self.buffer_bytes = 0
        return shed

    def close(self) -> None:
        """Give up the window. Frames that were not delivered were not acknowledged either, so they come again."""
        self._next_seqno = None
        self._highest = 0
        self.shed()

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, now: float) -> UnicastAck | SendFirst | None:
        """The answer to the peer at the end of a turn in which one is due or a hole became old; None when there is none."""
        self._owed_frames = self._owed_bytes = 0
        self._is_awaited = False
        asking = self._lacks_some and now >= self._ask_at
        if asking:
            self._ask_at = now + self._ask_s * (1 + self._rng.random() / 2)
            self._ask_s = min(2 * self._ask_s, self._config.ask_interval_s_max)
        if self._next_seqno is None:
            return SendFirst(self.conn_id) if asking else None
        missing = self._missing(self._next_seqno) if asking else ()
        return UnicastAck(self.conn_id, self._window, self._next_seqno - 1, missing)

    def _missing(self, expected: int) -> tuple[tuple[int, int], ...]:
        """The holes below the highest frame seen, as far as the buffer has room and a header holds them."""
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

    # -- time ------------------------------------------------------------------------------------------------------

    def wants_to_ask(self, now: float) -> bool:
        """Whether a hole is old enough to be asked for. The start of a connection is asked for only when more of it arrives."""
        return self.is_open and self._lacks_some and now >= self._ask_at

    def is_idle(self, now: float) -> bool:
        """Whether nothing was heard of the peer for `idle_s`."""
        return now >= self.heard_at + self._config.idle_s

    def is_past(self, now: float) -> bool:
        """Whether the tombstone can go: no sender still repeats what it remembers."""
        return now >= self.heard_at + self._config.tombstone_s

    def deadline(self) -> float:
        if not self.is_open and not self.buffer:
            return self.heard_at + self._config.tombstone_s
        idle_at = self.heard_at + self._config.idle_s
        return min(self._ask_at, idle_at) if self.is_open and self._lacks_some else idle_at
