"""Sequencer: one order for all multicasts, made by the coordinator (JGroups' SEQUENCER).

member        Forward(batch) ------unicast-----> coordinator
coordinator   Sequenced(batch) ---multicast----> all members, in the order of its NAKACK stream

A batch keeps its origin and numbers, so it may be forwarded repeatedly. Each member keeps its
batches until they come back, and forwards them again after a view change, before new ones. With
`order: fifo` each origin multicasts its batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sitestack.layers.sequencer.forward_table import ForwardTable
from sitestack.layers.sequencer.received_table import Missed, Numbers, Receipt, ReceivedTable, advanced
from sitestack.model.address import Address
from sitestack.model.events import Blocked, Event, Unblocked, ViewInstalled, Waiting
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.gap import Gap, GapReason
from sitestack.model.level import Level
from sitestack.model.message import UNICASTS, Batch
from sitestack.model.state_events import Baseline
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up

#: Multiple of the configured interval up to which it grows while nothing comes back.
RESEND_BACKOFF_MAX = 16


@fast_frozen
@dataclass(frozen=True, slots=True)
class Forward(Header):
    """Member to coordinator: multicast this batch of mine."""


@fast_frozen
@dataclass(frozen=True, slots=True)
class Sequenced(Header):
    """Entry of the ordered stream (DATA of JGroups' SEQUENCER)."""


@dataclass(frozen=True, slots=True)
class ForwardAgain(Header):
    """Coordinator to member: I dropped forwards while blocked (S22)."""


@dataclass(frozen=True, slots=True)
class SequencerState(Header):
    """For a joiner: each origin's next numbers at the cut, in scopes ALL and SITE (S9)."""

    numbers: dict[Address, Numbers]


@dataclass(frozen=True, slots=True)
class LearnedState(SequencerState):
    """SequencerState with origins of which the giver, or their part, delivered less."""

    learned: tuple[Address, ...]
    behind: dict[Address, Numbers]


_FORWARD: tuple[Header, ...] = (Forward(),)
_SEQUENCED: tuple[Header, ...] = (Sequenced(),)


@dataclass(frozen=True, slots=True)
class SequencerConfig:
    """All members of a site must have the same order."""

    #: `total`: one order for all, made by the coordinator. `fifo`: the order of each origin, with
    #: one hop less.
    order: Literal["total", "fifo"] = "total"
    #: Time after which a batch that has not come back is forwarded again (S11).
    resend_interval_s: float = 2.0
    #: Remembered departed members, whose late batches are not new (S7).
    tombstones_max: int = 1024
    #: Own undelivered batches: more than any window above allows (S18).
    undelivered_bytes_max: int = 64 * 1024 * 1024


class Sequencer(Layer):
    """SEQUENCER of JGroups (SEQ-1 to SEQ-23, traps S1 to S18), above NAKACK and UNICAST."""

    name = "sequencer"
    STATE = SequencerState
    HEADERS: ClassVar[dict[int, type[Header]]] = {
        0x90: Forward,
        0x91: Sequenced,
        0x92: SequencerState,
        0x93: ForwardAgain,
        0x94: LearnedState,
    }
    FRAMES_UP = "own"
    FRAMES_DOWN = "multicasts"
    LANE_HEADERS = (_FORWARD, _SEQUENCED)

    def __init__(self, local: Local, config: SequencerConfig) -> None:
        self._me = local.address
        self._site = local.site
        self._config = config
        self._total = config.order == "total"
        self._table = ForwardTable(config.undelivered_bytes_max)
        self._received = ReceivedTable(config.tombstones_max)
        #: Messages that other parts delivered; reported right after the merge view.
        self._missed: list[Missed] = []
        #: Tables of the other parts.
        self._merged: list[dict[Address, Numbers]] = []
        #: The next numbers to multicast in this view, as coordinator.
        self._casts: dict[Address, Numbers] = {}
        self._view: View | None = None
        self._members: frozenset[Address] = frozenset()
        self._blocked = True
        #: Members whose forwards were dropped while blocked.
        self._dropped: dict[Address, None] = {}
        #: Whether own multicasts wait for credit below: late, not lost.
        self._stalled = False
        self._progress_at = 0.0
        self._backoff = 1

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Sequence multicasts; unicasts and unreliable frames pass (SEQ-1)."""
        if not isinstance(event, Frame) or event.dest is not None or event.unreliable:
            return [Down(event)]
        batch = event.batch
        if batch is None or event.headers or batch.origin != self._me:
            return self._cast_entry(event)
        if not self._table.undelivered:
            self._progress_at = now
            self.stale.add(self)
        self._table.add(batch)
        return self._forward()

    def _cast_entry(self, frame: Frame) -> list[Effect]:
        """Multicast an entry of the layer above, as coordinator."""
        if self._view is None or self._view.coordinator != self._me:
            return [Dropped("not_coordinator")]
        if self._blocked:
            return [Dropped("blocked")]
        return [Down(frame.push(_SEQUENCED[0]))]

    def _forward(self) -> list[Effect]:
        """Forward the waiting batches in order, unless blocked; the coordinator's own too (S4)."""
        if self._blocked or self._view is None:
            return []
        coordinator = self._view.coordinator
        cast = not self._total or coordinator == self._me
        effects: list[Effect] = []
        while (batch := self._table.next_to_forward()) is not None:
            effects.append(self._cast(batch) if cast else Down(Frame(self._me, coordinator, _FORWARD, batch)))
        return effects

    def _cast(self, batch: Batch) -> Effect:
        return Down(Frame(self._me, None, _SEQUENCED, batch))

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            kind = type(event.headers[-1]) if event.headers else None
            if kind is Sequenced:
                return self._handle_entry(event, now)
            if kind is Forward:
                return self._handle_forward(event)
            if kind is ForwardAgain:
                return self._handle_again(event.source, now)
            return [Up(event)]
        if isinstance(event, ViewInstalled):
            return self._handle_view(event, now)
        if isinstance(event, Blocked):
            self._blocked = True
        elif isinstance(event, Unblocked):
            self._blocked = False
            self.stale.add(self)
            self._progress_at = now
            return [Up(event), *self._forward(), *self._ask_again()]
        elif isinstance(event, Waiting):
            was_stalled, self._stalled = self._stalled, event.waiting_bytes > sum(event.to.values())
            if was_stalled or self._stalled:
                self.stale.add(self)
                self._progress_at = now
        return [Up(event)]

    def _handle_forward(self, frame: Frame) -> list[Effect]:
        """Multicast a forwarded batch, even repeatedly (SEQ-6, SEQ-18), unless an earlier one is missing: it may be
        the next for some members, which delivered that one before a merge.
        """
        batch = frame.batch
        if frame.dest is None or batch is None or len(frame.headers) != 1 or batch.scope in UNICASTS:
            return [Dropped("bad_forward")]
        if batch.origin != frame.source or batch.site != self._site:
            return [Dropped("bad_forward")]
        if not self._total or self._view is None or self._view.coordinator != self._me:
            return [Dropped("forward_to_non_coordinator")]
        if frame.source not in self._members:
            return [Dropped("forward_from_non_member")]
        if self._blocked:
            self._dropped[frame.source] = None
            return [Dropped("blocked")]
        numbers = self._casts.get(batch.origin) or self._received.lowest(batch.origin)
        if batch.first > numbers[batch.scope]:
            return [Dropped(Receipt.HOLE.value)]
        if batch.first == numbers[batch.scope]:
            self._casts[batch.origin] = advanced(numbers, batch)
        return [self._cast(batch)]

    def _ask_again(self) -> list[Effect]:
        dropped, self._dropped = self._dropped, {}
        return [Down(Frame(self._me, member, (ForwardAgain(),))) for member in dropped]

    def _handle_again(self, source: Address, now: float) -> list[Effect]:
        if not self._total or self._view is None or self._view.coordinator != source or self._blocked:
            return [Dropped("forward_again")]
        self._progress_at = now
        self._table.rewind()
        return self._forward()

    def _handle_entry(self, frame: Frame, now: float) -> list[Effect]:
        headers, batch = frame.headers[:-1], frame.batch
        if frame.dest is not None:
            return [Dropped("sequenced_unicast")]
        coordinator = None if self._view is None else self._view.coordinator
        if headers or batch is None:
            if frame.source != coordinator:
                return [Dropped("not_in_the_stream")]
            return [Up(Frame(frame.source, None, headers, batch, False, frame.seqno, frame.stream))]
        if frame.source != (coordinator if self._total else batch.origin):
            return [Dropped("not_in_the_stream")]
        if batch.site != self._site or batch.scope in UNICASTS or batch.origin not in self._members:
            return [Dropped("bad_entry")]
        verdict = self._received.admit(batch)
        if verdict is not Receipt.ADMITTED:
            return [Dropped(verdict.value)]
        if batch.origin == self._me and self._table.delivered(batch):
            self._progress_at = now
            if self._backoff > 1:
                self._backoff = 1
                self.stale.add(self)
        # On a copy: NAKACK's frame must not change (SEQ-8, S15).
        return [Up(Frame(batch.origin, None, (), batch, False, frame.seqno, frame.stream))]

    def _handle_view(self, event: ViewInstalled, now: float) -> list[Effect]:
        """Begin a view, and forward undelivered batches first (SEQ-12, SEQ-13, S2)."""
        view = self._view = event.view
        self._members = frozenset(view.members)
        self._dropped.clear()
        self._casts.clear()
        self._blocked = event.blocked
        for part in view.subviews:
            if self._me not in part.members:
                self._received.meet(self._merged, part.members)
        self._merged.clear()
        self._missed = self._received.clip(self._missed)
        self._received.retain(view.members)
        self._table.rewind()
        self._progress_at = now
        self._backoff = 1
        return [*self._gaps(), *self._forward()]

    def _gaps(self) -> list[Effect]:
        missed, self._missed = self._missed, []
        return [
            Up(Gap(self._site, origin, first, last, GapReason.OTHER_PART, scope))
            if is_known
            else Up(Baseline(self._site, {origin: last}, at_join=True, scope=scope))
            for origin, scope, first, last, is_known in missed
        ]

    def expire(self, now: float) -> list[Effect]:
        """Forward all undelivered batches again after a long wait (S11)."""
        due = self.deadline()
        if due is None or now < due:
            return []
        self._progress_at = now
        self._backoff = min(2 * self._backoff, RESEND_BACKOFF_MAX)
        self._table.rewind()
        return self._forward()

    def deadline(self) -> float | None:
        if self._blocked or self._stalled or not self._table.undelivered:
            return None
        return self._progress_at + self._backoff * self._config.resend_interval_s

    def give_state(self) -> SequencerState:
        numbers, learned, behind = self._received.snapshot(), self._received.learned, self._received.behind
        return LearnedState(numbers, learned, behind) if learned or behind else SequencerState(numbers)

    def take_state(self, state: Header) -> None:
        assert isinstance(state, SequencerState)
        learned, behind = (state.learned, state.behind) if isinstance(state, LearnedState) else ((), {})
        self._received.restore(state.numbers, learned, behind)

    def merge_state(self, state: Header) -> None:
        assert isinstance(state, SequencerState)
        lowest = state.numbers | state.behind if isinstance(state, LearnedState) else state.numbers
        self._missed += self._received.merge(lowest, self._members)
        self._merged.append(lowest)

    def levels(self) -> dict[str, Level]:
        why = "members of earlier views, remembered so that their late messages do not count as new"
        return {
            "undelivered": Level.of(self._table.undelivered, None),
            "undelivered_bytes": self._table.bytes,
            "tombstones": Level.of(self._received.tombstones, self._config.tombstones_max, why),
        }
