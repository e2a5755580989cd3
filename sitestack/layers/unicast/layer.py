"""UNICAST2: reliable FIFO unicast between two processes, members or not.

A reliable frame to an `Address` is numbered and sent until it is acknowledged (`sender.py`); the
other end restores the order (`receiver.py`); `headers.py` explains the numbers. Either end may
close its side at any time. As long as both processes live, every message is delivered exactly once
and in order.

An acknowledgement leaves with the next frame to the same peer (decision 20), unless the peer needs
it (`Receiver.must_answer`) or the view changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from itertools import count
from math import inf
from operator import attrgetter
from typing import ClassVar

from sitestack.layers.unicast.headers import (
    LANE_WINDOW_MIN,
    SendFirst,
    UnicastAck,
    UnicastConfig,
    UnicastData,
    UnicastSync,
    frame_bytes,
)
from sitestack.layers.unicast.receiver import Receiver
from sitestack.layers.unicast.sender import Sender
from sitestack.model.address import Address
from sitestack.model.events import (
    Blocked,
    CloseConnection,
    Event,
    Left,
    TryNextPhysical,
    Unblocked,
    Undeliverable,
    ViewInstalled,
)
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, ReceivePart, SendPart, Up
from sitestack.wire.lane import LaneHead

__all__ = ["Unicast", "UnicastConfig", "UnicastStatistics"]

#: With more senders and receivers, each walk over all of them for due timers is followed by a pause
#: of REST_S seconds for each excess one.
MANY_PEERS = 512
REST_S = 20e-6
#: A tombstone more overdue stays: this member stood still, and copies may wait in its socket.
STALL_S = 1.0
#: Maximum bytes held ahead of holes for all peers together.
REORDER_ALL_BYTES_MAX = 128 << 20
#: Maximum number of peers that lose their frames ahead of holes at a time.
SHED_PEERS = 64


@dataclass(frozen=True, slots=True)
class UnicastStatistics:
    """Counters since the start, and present numbers of peers."""

    senders: int
    windows_open: int
    tombstones: int
    retransmitted: int
    given_up_frames: int


class Unicast(Layer):
    """UNICAST2 of JGroups, with the conn-id on every message and a message id above connections (traps
    U1 to U13).

    A view only shortens the wait for departed peers. A sender exists for each peer with traffic,
    and ends with `give_up_s` or `idle_s`.
    """

    name: ClassVar[str] = "unicast"
    HEADERS: ClassVar[dict[int, type[Header]]] = {
        0x40: UnicastData,
        0x41: UnicastAck,
        0x42: SendFirst,
        0x43: UnicastSync,
    }
    FRAMES_UP = "own"
    FRAMES_DOWN = "unicasts"
    FLUSH_IF = ("_to_answer",)
    NUMBERS_LANES = True

    def __init__(self, local: Local, config: UnicastConfig) -> None:
        self._local = local
        self._me = local.address
        self._config = config
        self._senders: dict[Address, Sender] = {}
        #: In order of the last activity.
        self._receivers: dict[Address, Receiver] = {}
        #: Receivers that answer at the end of this turn.
        self._to_answer: dict[Address, Receiver] = {}
        #: Receivers whose answer waits for a frame to their peer, in due order.
        self._owing: dict[Address, Receiver] = {}
        self._blocked = False
        self._has_left = False
        self._members: frozenset[Address] = frozenset()
        self._lane_readers: set[Address] = set()
        #: Conn-ids, each higher than all before (U2-16).
        self._conn_ids = count(1)
        self._windows = count(LANE_WINDOW_MIN)
        self._reorder_all_bytes = Level(REORDER_ALL_BYTES_MAX)
        #: The highest mid of any forgotten sender; new ones begin above it.
        self._mids_used = 0
        #: At or before the earliest deadline of all senders and receivers.
        self._due: float | None = None
        #: Earliest time of the next walk: with thousands of peers one is always due.
        self._walk_from = -inf
        self._given_up = self._retransmitted = 0
        self._window_bytes_high = self._queue_bytes_high = self._reorder_bytes_high = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            dest = event.dest
            if not isinstance(dest, Address):
                return [Down(event)]
            if dest == self._me:
                return [Up(event)]
            if dest in self._owing:
                self._to_answer[dest] = self._owing.pop(dest)
            return [Down(event)] if event.unreliable else self._send_to(dest, event, now)
        if isinstance(event, CloseConnection):
            return self._close(event.member, now)
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            if isinstance(header, UnicastData):
                return self._receive(event, header, now)
            if isinstance(header, UnicastAck):
                sender = self._senders.get(event.source)
                return [Dropped("unicast_stale_ack")] if sender is None else self._handle_ack(event.source, sender, header, now)
            if isinstance(header, SendFirst):
                sender = self._senders.get(event.source)
                return [Dropped("unicast_stale_send_first")] if sender is None else sender.handle_send_first(header, now)
            if isinstance(header, UnicastSync):
                return self._receive(event, header, now)
            return [Up(event)]
        if isinstance(event, ViewInstalled):
            self._follow_view(event, now)
            self._blocked = event.blocked
        elif isinstance(event, Unblocked):
            self._blocked = False
        elif isinstance(event, Blocked | Left):
            self._blocked = True
            self._to_answer |= self._owing
            self._owing.clear()
        if isinstance(event, Left):
            # A departed member gets no acknowledgements: report its frames while the layers above
            # listen (X10).
            self._has_left = True
            return [*[each for peer, one in list(self._senders.items()) for each in self._forget_sender(peer, one)], Up(event)]
        return [Up(event)]

    def flush(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for peer, receiver in self._to_answer.items():
            self._receivers[peer] = self._receivers.pop(peer)
            header = receiver.answer(now)
            if receiver.vain_since is not None:
                effects.append(Down(TryNextPhysical(peer, receiver.vain_since)))
            if header is not None:
                effects.append(Down(Frame(self._me, peer, (header,), unreliable=True)))
            self._arm(receiver.deadline())
        self._to_answer.clear()
        return effects

    def expire(self, now: float) -> list[Effect]:
        while (due := self._answer_due()) is not None and due <= now:
            peer = next(iter(self._owing))
            self._to_answer[peer] = self._owing.pop(peer)
        if self._due is None or now < self._due:
            return []
        self._due = None
        self._walk_from = now + REST_S * max(0, len(self._senders) + len(self._receivers) - MANY_PEERS)
        effects: list[Effect] = []
        for peer, sender in list(self._senders.items()):
            if sender.is_hopeless(now) or sender.is_idle(now):
                effects += self._forget_sender(peer, sender)
            else:
                effects += sender.expire(now)
                self._arm(sender.deadline())
        for peer, receiver in list(self._receivers.items()):
            self._expire_receiver(peer, receiver, now)
        return effects

    def deadline(self) -> float | None:
        due = self._answer_due()
        return self._due if due is None or (self._due is not None and self._due < due) else due

    def _answer_due(self) -> float | None:
        for receiver in self._owing.values():
            return receiver.answer_at
        return None

    def _send_to(self, peer: Address, frame: Frame, now: float) -> list[Effect]:
        sender = self._senders.get(peer)
        if sender is None:
            if len(self._senders) >= self._config.peers_max and peer not in self._members:
                return [Dropped("unicast_peers"), Up(Undeliverable(peer, (frame,)))]
            sender = Sender(self._local, peer, next(self._conn_ids), self._mids_used + 1, self._config)
            self._senders[peer] = sender
        effects = sender.send(frame, now)
        self._window_bytes_high = max(self._window_bytes_high, sender.window_bytes)
        self._queue_bytes_high = max(self._queue_bytes_high, sender.queue_bytes)
        self._arm(sender.deadline())
        # Frames held for the last view come after `Left`: sent once and reported (X10).
        return [*effects, *self._forget_sender(peer, sender)] if self._has_left else effects

    def _handle_ack(self, peer: Address, sender: Sender, header: UnicastAck, now: float) -> list[Effect]:
        effects = sender.handle_ack(header, now)
        if sender.reads_lanes and peer in self._members:
            self._lane_readers.add(peer)
        self._arm(sender.deadline())
        return effects

    def _forget_sender(self, peer: Address, sender: Sender) -> list[Effect]:
        """Remove a sender; report its unacknowledged frames as `Undeliverable`."""
        del self._senders[peer]
        self._mids_used = max(self._mids_used, sender.next_mid - 1)
        self._retransmitted += sender.retransmitted
        frames = sender.take_all()
        self._given_up += len(frames)
        return [Up(Undeliverable(peer, frames))] if frames else []

    def _receive(self, frame: Frame, header: UnicastData | UnicastSync, now: float) -> list[Effect]:
        peer = frame.source
        receiver = self._receivers.get(peer)
        if receiver is None:
            receiver = self._remember(peer, now)
        if isinstance(header, UnicastSync):
            effects = receiver.handle_sync(header, now)
        else:
            shed = self._shed(frame_bytes(frame)) if self._reorder_all_bytes.now else []
            effects = [*shed, *receiver.handle_data(frame, header, now)]
            self._reorder_bytes_high = max(self._reorder_bytes_high, receiver.buffer_bytes)
        self._owe(peer, receiver)
        return effects

    def _owe(self, peer: Address, receiver: Receiver) -> None:
        if self._blocked or receiver.must_answer:
            self._owing.pop(peer, None)
            self._to_answer[peer] = receiver
        elif peer not in self._owing and peer not in self._to_answer:
            self._receivers[peer] = self._receivers.pop(peer)
            self._owing[peer] = receiver
            self.stale.add(self)

    def _remember(self, peer: Address, now: float) -> Receiver:
        """Add a receiver for a new peer; at the bound, evict the longest silent one."""
        if len(self._receivers) >= self._config.peers_max:
            silent = next(iter(self._receivers))
            self._forget_receiver(silent)
        new = Receiver(peer, self._config, self._local.rng, self._windows, now, self._reorder_all_bytes)
        self._receivers[peer] = new
        return new

    def _forget_receiver(self, peer: Address) -> None:
        self._receivers.pop(peer).close()
        self._to_answer.pop(peer, None)
        self._owing.pop(peer, None)

    def _shed(self, size: int) -> list[Effect]:
        """Discard held frames of the largest holders when all peers together exceed the bound, with some extra room."""
        shed, waiting = 0, self._reorder_all_bytes
        if not waiting.fits(size):
            for receiver in nlargest(SHED_PEERS, self._receivers.values(), attrgetter("buffer_bytes")):
                if waiting.fits(size + REORDER_ALL_BYTES_MAX // 16):
                    break
                shed += receiver.shed()
        return [Dropped("unicast_shed", shed)] if shed else []

    def _expire_receiver(self, peer: Address, receiver: Receiver, now: float) -> None:
        if receiver.wants_to_ask(now):
            self._owing.pop(peer, None)
            self._to_answer[peer] = receiver
            return
        if receiver.is_past(now - STALL_S):
            receiver.heard_at = now
        elif receiver.is_past(now):
            self._forget_receiver(peer)
            return
        if receiver.is_idle(now):
            receiver.close()
        self._arm(receiver.deadline())

    def reads_lanes(self, member: Address) -> bool:
        return member in self._lane_readers

    def send_lane(self, dest: Address | None) -> SendPart | None:
        if self._blocked or dest is None or dest not in self._senders:
            return None

        def is_usual(size: int) -> bool:
            sender = self._senders.get(dest)
            return sender is not None and sender.is_usual(size)

        def number(frame: Frame, now: float) -> tuple[tuple[int, ...], Effect | None]:
            sender = self._senders[dest]
            seqno = sender.number(frame, now)
            self._window_bytes_high = max(self._window_bytes_high, sender.window_bytes)
            self._arm(sender.deadline())
            if dest in self._owing and self._owing[dest].fits_lane:
                receiver = self._receivers[dest] = self._receivers.pop(dest)
                del self._owing[dest]
                ack = receiver.answer(now)
                self._arm(receiver.deadline())
                if isinstance(ack, UnicastAck):
                    return (sender.conn_id, seqno, ack.conn_id, ack.window, ack.seqno), None
            return (sender.conn_id, seqno, 0, 0, 0), None

        return SendPart(is_usual, number=number)

    def receive_lane(self, source: Address) -> ReceivePart | None:
        if self._blocked:
            return None

        def is_usual(head: LaneHead) -> bool:
            receiver = self._receivers.get(source)
            return receiver is not None and receiver.expects(head) and not self._reorder_all_bytes.now

        def accept(head: LaneHead, frame: Frame, now: float) -> list[Effect]:
            receiver = self._receivers[source]
            receiver.accept(head, now)
            self._owe(source, receiver)
            if not head.acked_conn_id:
                return []
            return self.up(Frame(source, self._me, (_ack_of(head),), None, True), now)

        return ReceivePart(is_usual, accept=accept)

    def expand_lane(self, source: Address, head: LaneHead) -> tuple[Header, ...]:
        receiver = self._receivers.get(source)
        data = None if receiver is None else receiver.expand(head)
        if data is None:
            return ()
        return (data, _ack_of(head)) if head.acked_conn_id else (data,)

    def _close(self, peer: Address, now: float) -> list[Effect]:
        """Scenarios #3 to #5 of UNICAST2: forget both directions, except for exactly-once delivery."""
        receiver = self._receivers.get(peer)
        if receiver is not None:
            receiver.close()
        sender = self._senders.get(peer)
        if sender is None:
            return []
        if not sender.window or sender.is_hopeless(now):  # hopeless after a pause: its timer is due too
            return self._forget_sender(peer, sender)
        return sender.reopen(next(self._conn_ids))

    def _follow_view(self, event: ViewInstalled, now: float) -> None:
        """Shorten the wait for departed members (U2-0)."""
        for member in event.view.members:
            if member in self._senders:
                self._senders[member].be_patient()
        self._members = remaining = frozenset(event.view.members)
        self._lane_readers &= remaining
        for member in event.previous.members if event.previous is not None else ():
            if member not in remaining and member in self._senders:
                self._senders[member].hurry(now)
                self._arm(self._senders[member].deadline())

    def _arm(self, due: float) -> None:
        due = max(due, self._walk_from)
        if self._due is None or due < self._due:
            self._due = due
            self.stale.add(self)

    def statistics(self) -> UnicastStatistics:
        senders, receivers = self._senders.values(), self._receivers.values()
        windows_open = sum(receiver.is_open for receiver in receivers)
        return UnicastStatistics(
            senders=len(senders),
            windows_open=windows_open,
            tombstones=len(receivers) - windows_open,
            retransmitted=self._retransmitted + sum(sender.retransmitted for sender in senders),
            given_up_frames=self._given_up,
        )

    def levels(self) -> dict[str, Level]:
        """For bounds per peer, return the level of the largest holder."""
        senders, receivers, config = self._senders.values(), self._receivers.values(), self._config
        windows = max([len(sender.window) for sender in senders], default=0)
        window_bytes = max([sender.window_bytes for sender in senders], default=0)
        queue_bytes = max([sender.queue_bytes for sender in senders], default=0)
        buffers = max([len(receiver.buffer) for receiver in receivers], default=0)
        buffer_bytes = max([receiver.buffer_bytes for receiver in receivers], default=0)
        early = max([len(receiver.early) for receiver in receivers if receiver.is_open], default=0)
        return {
            "peers": Level.of(len(receivers), config.peers_max, "peers that something came from, in a window or a tombstone"),
            "window_frames": Level.of(windows, config.window_frames_max),
            "window_bytes": Level.of(window_bytes, config.window_bytes_max, high=self._window_bytes_high),
            "queue_bytes": Level.of(queue_bytes, config.queue_bytes_max, high=self._queue_bytes_high),
            "reorder_frames": Level.of(buffers, config.reorder_frames_max),
            "reorder_all_bytes": self._reorder_all_bytes,
            "reorder_bytes": Level.of(buffer_bytes, config.reorder_bytes_max, high=self._reorder_bytes_high),
            # Messages that a tombstone remembers are not counted.
            "early_delivered": Level.of(early, config.reorder_frames_max),
        }


def _ack_of(head: LaneHead) -> UnicastAck:
    return UnicastAck(head.acked_conn_id, head.acked_window, head.acked_seqno, ())
