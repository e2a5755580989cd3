"""The sending side of the connection to one peer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from sitestack.layers.unicast.headers import (
    FRAME_COST_BYTES,
    LANE_WINDOW_MIN,
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
from sitestack.model.events import PathDoubt, Undeliverable
from sitestack.model.frame import Frame
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up
from sitestack.wire.lane import NUMBER_MAX


class Sender:
    def __init__(self, local: Local, peer: Address, conn_id: int, mid: int, config: UnicastConfig) -> None:
        self._me = local.address
        self._rng = local.rng
        self._peer = peer
        self._config = config
        self.conn_id = conn_id
        self.next_mid = mid
        self._next_seqno = 1
        #: Unacknowledged frames by seqno, complete up to `_next_seqno - 1`.
        self.window: dict[int, Frame] = {}
        self.window_bytes = 0
        self.queue: deque[Frame] = deque()
        self.queue_bytes = 0
        #: Out-of-band frames in front of the queue.
        self._urgent = 0
        #: Whether a frame was refused: until the queue is empty all later ones are, too, as
        #: fragments.
        self._refusing = False
        #: Whether the receiver has a window for this connection.
        self._opened = False
        #: The receiver's window in the latest acknowledgement.
        self._acked_window = 0
        self._retry_s = config.retransmit_interval_s
        self._retry_at = 0.0
        #: When the peer is abandoned; postponed by acknowledgements that move the window.
        self.give_up_at = 0.0
        self._active_at = 0.0
        #: Whether the peer has ever acknowledged a frame.
        self._answers = False
        self.reads_lanes = False
        self._moved_at = 0.0
        #: Retransmitted on request until then.
        self._resent: set[int] = set()
        self._resent_until = 0.0
        self.retransmitted = 0

    def send(self, frame: Frame, now: float) -> list[Effect]:
        """Send a frame, or queue it; a full queue refuses it as `Undeliverable`."""
        self._begin(now)
        size = frame_bytes(frame)
        urgent = frame.is_out_of_band
        if not (self._urgent if urgent else self.queue) and self._has_room(size):
            return [Down(self._number(frame, size))]
        self._refusing = self._refusing or self.queue_bytes + size > self._config.queue_bytes_max
        if self._refusing:
            return [Dropped("unicast_queue_full"), Up(Undeliverable(self._peer, (frame,)))]
        self.queue_bytes += size
        if urgent:
            self.queue.insert(self._urgent, frame)
            self._urgent += 1
        else:
            self.queue.append(frame)
        return []

    def _begin(self, now: float) -> None:
        if not self.window:
            self._restart_timers(now)
        elif self._retry_s > self._config.retransmit_interval_s:
            # A new frame begins with the first wait again.
            self._retry_s = self._config.retransmit_interval_s
            self._retry_at = min(self._retry_at, now + self._jittered())

    def is_usual(self, size: int) -> bool:
        """Return whether a frame with a body of this size can be sent on a lane now."""
        is_open = self._opened and self.reads_lanes and not self.queue
        return is_open and self._next_seqno <= NUMBER_MAX and self._has_room(FRAME_COST_BYTES + size)

    def number(self, frame: Frame, now: float) -> int:
        """Keep a frame as an ordinary one; return its seqno."""
        self._begin(now)
        self._number(frame, frame_bytes(frame))
        return self._next_seqno - 1

    def _has_room(self, size: int) -> bool:
        if not self.window:
            return True
        config = self._config
        return len(self.window) < config.window_frames_max and self.window_bytes + size <= config.window_bytes_max

    def _number(self, frame: Frame, size: int) -> Frame:
        """Return the frame with its header; retransmissions send this very object (S15)."""
        seqno = self._next_seqno
        header = UnicastData(self.conn_id, seqno, self.next_mid, seqno == 1)
        sent = Frame(self._me, self._peer, (*frame.headers, header), frame.batch)
        self._next_seqno = seqno + 1
        self.next_mid += 1
        self.window[seqno] = sent
        self.window_bytes += size
        return sent

    def _send_queued(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.queue and self._has_room(size := frame_bytes(self.queue[0])):
            self.queue_bytes -= size
            self._urgent -= self._urgent > 0
            effects.append(Down(self._number(self.queue.popleft(), size)))
        self._refusing = self._refusing and bool(self.queue)
        return effects

    def reopen(self, conn_id: int) -> list[Effect]:
        """Move all unacknowledged frames into a new connection: seqnos begin at 1, mids stay (U5)."""
        carried = list(self.window.values())
        self.conn_id = conn_id
        self._opened = False
        self.next_mid -= len(carried)
        self._next_seqno = 1
        self.window = {}
        self.window_bytes = 0
        self._resent.clear()
        return [Down(self._number(frame, frame_bytes(frame))) for frame in map(without_header, carried)]

    def handle_ack(self, header: UnicastAck, now: float) -> list[Effect]:
        """Forget acknowledged frames; send queued and missing ones."""
        if header.conn_id != self.conn_id or header.window < self._acked_window:
            return [Dropped("unicast_stale_ack")]
        if header.seqno >= self._next_seqno:
            return [Dropped("unicast_malformed")]
        # After a pause the peer may have forgotten the later frames, so they are given up in this
        # turn.
        is_late = self.is_hopeless(now)
        self._acked_window = header.window
        self._opened = self._answers = True
        self.reads_lanes = header.window >= LANE_WINDOW_MIN
        self._active_at = now
        effects: list[Effect] = []
        if self._forget_to(header.seqno) and not (is_late and self.window):
            self._restart_timers(now)
            effects = self._send_queued()
        if header.missing and not is_late:
            effects = [*self._resend(header.missing, now), *effects]
        return effects

    def _forget_to(self, seqno: int) -> bool:
        lowest = self._next_seqno - len(self.window)
        for acked in range(lowest, seqno + 1):
            self.window_bytes -= frame_bytes(self.window.pop(acked))
        if self._resent:
            self._resent.difference_update(range(lowest, seqno + 1))
        return seqno >= lowest

    def _resend(self, missing: tuple[tuple[int, int], ...], now: float) -> list[Effect]:
        """Answer a request for missing frames, up to `resend_bytes_max`, each once in `ask_interval_s`.

        For a range below the window the marked first frame shows that it is settled.
        """
        lowest = self._next_seqno - len(self.window)
        if missing[0][0] < lowest:
            return [Down(self._first())]
        effects: list[Effect] = []
        room = self._config.resend_bytes_max
        if now >= self._resent_until:
            self._resent.clear()
            self._resent_until = now + self._config.ask_interval_s
        for seqno in _numbers(missing[:RANGES_MAX], lowest, self._next_seqno - 1):
            if seqno in self._resent:
                continue
            frame = self.window[seqno]
            room -= frame_bytes(frame)
            if effects and room < 0:
                break
            self._resent.add(seqno)
            effects.append(Down(frame))
        self.retransmitted += len(effects)
        return effects

    def handle_send_first(self, header: SendFirst, now: float) -> list[Effect]:
        """Send a receiver without a window the place to open one (U12)."""
        if header.conn_id != self.conn_id or self.is_hopeless(now):
            return [Dropped("unicast_stale_send_first")]
        return [Down(self._first())]

    def _first(self) -> Frame:
        """Return the lowest unacknowledged frame, marked as `first`; with an empty window a `UnicastSync` (U9)."""
        if not self.window:
            sync = UnicastSync(self.conn_id, self._next_seqno, self.next_mid)
            return Frame(self._me, self._peer, (sync,), unreliable=True)
        seqno = self._next_seqno - len(self.window)
        frame = self.window[seqno]
        header = frame.headers[-1]
        assert isinstance(header, UnicastData)
        if not header.first:
            header = UnicastData(header.conn_id, seqno, header.mid, True)
            frame = Frame(self._me, self._peer, (*frame.headers[:-1], header), frame.batch)
            self.window[seqno] = frame  # in place, so that the window stays in order
        self.retransmitted += 1
        return frame

    def _restart_timers(self, now: float) -> None:
        self._active_at = self._moved_at = now
        self._retry_s = self._config.retransmit_interval_s
        self._retry_at = now + self._jittered()
        self.give_up_at = now + self._config.give_up_s

    def _jittered(self) -> float:
        return self._retry_s * (1 + self._rng.random() / 2)

    def is_hopeless(self, now: float) -> bool:
        return bool(self.window) and now >= self.give_up_at

    def is_idle(self, now: float) -> bool:
        """Return whether nothing is under way, and nothing was for `idle_s`."""
        return not self.window and now >= self._active_at + self._config.idle_s

    def expire(self, now: float) -> list[Effect]:
        """Retransmit the highest frame: a receiver that misses others asks for them (U8).

        Until the receiver has a window, the first frame is sent along.
        """
        if not self.window or now < self._retry_at:
            return []
        self._retry_s = min(2 * self._retry_s, self._config.retransmit_interval_s_max)
        self._retry_at = now + self._jittered()
        first = [] if self._opened or len(self.window) == 1 else [Down(self._first())]
        self.retransmitted += 1
        # A frame stalled for so long may exceed the path MTU.
        doubt = [Down(PathDoubt(self._peer, self._answers))] if now >= self._moved_at + self._config.doubt_s else []
        return [*doubt, *first, Down(self.window[self._next_seqno - 1])]

    def deadline(self) -> float:
        if self.window:
            return min(self._retry_at, self.give_up_at)
        return self._active_at + self._config.idle_s

    def hurry(self, now: float) -> None:
        """Abandon the peer after `linger_s`: it has left the view."""
        self.give_up_at = min(self.give_up_at, now + self._config.linger_s)

    def be_patient(self) -> None:
        """Abandon the peer `give_up_s` after its last acknowledgement, as if it had never left the
        view.

        The peer forgets after `tombstone_s`, and fragments after `fragment.idle_s`, so views do not
        extend this.
        """
        self.give_up_at = self._moved_at + self._config.give_up_s

    def take_all(self) -> tuple[Frame, ...]:
        """Return all unacknowledged and queued frames, without this layer's header."""
        return (*map(without_header, self.window.values()), *self.queue)


def _numbers(ranges: tuple[tuple[int, int], ...], lowest: int, highest: int) -> Iterator[int]:
    for first, last in ranges:
        yield from range(max(first, lowest), min(last, highest) + 1)
