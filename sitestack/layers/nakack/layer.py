"""NAKACK: reliable FIFO multicast within a view.

A sender numbers its multicasts 1, 2, 3 ... in each view and sends each once. A receiver that
notices a hole requests the missing numbers, first from the sender, then from the other members;
each keeps every frame until all have it. A silent sender announces its highest number until its
whole stream is stable. A member that receives no multicasts at all is sent that number by unicast.

In a flush (`Blocked` to `ViewInstalled`) exactly the frames named by `ReachCut` are delivered (S5,
S6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.layers.nakack.headers import RANGES_MAX, Cast, Highest, Retransmit, wire_frame
from sitestack.layers.nakack.receiver_windows import ReceiverWindows
from sitestack.layers.nakack.retransmission import HEAD_COUNT, Announcer, Answers, Hole, Holes
from sitestack.layers.nakack.window import Window
from sitestack.model.address import Address
from sitestack.model.events import (
    Blocked,
    CutReached,
    DigestAnswer,
    DigestQuery,
    Event,
    PathDoubt,
    ReachCut,
    Stable,
    Unblocked,
    ViewInstalled,
)
from sitestack.model.fair_hold import FairHold
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, ReceivePart, SendPart, Up
from sitestack.wire.lane import NUMBER_MAX, CastHead
from sitestack.wire.size import frame_bytes


@dataclass(frozen=True, slots=True)
class NakAckConfig:
    """Times and bounds of retransmission, for a site on one local network."""

    #: Age of a hole at which it is requested: most are reordering.
    ask_delay_s: float = 0.02
    #: Longest wait between two requests for the same hole.
    ask_interval_s_max: float = 1.0
    #: Wait after which a request reports that earlier ones failed.
    doubt_s: float = 0.3
    #: Maximum numbers in one request, as in JGroups.
    ask_count_max: int = 1_024
    #: Period in which a member sends one requester the same frame at most once.
    answer_period_s: float = 0.01
    #: Maximum bytes retransmitted in one such period. Should fit into a socket's buffer.
    answer_bytes_max: int = 512 * 1024
    #: Pause of a sender after which it announces its highest number, unless its whole stream is stable.
    quiet_interval_s: float = 0.1
    #: Longest wait between two announcements.
    quiet_interval_s_max: float = 1.0
    #: Time without progress in stability after which a sender announces its highest number by unicasts.
    stuck_interval_s: float = 1.0
    #: Unstable frames held of one stream. Flow control should stop a sender long before.
    window_count_max: int = 65_536
    #: Bytes held of one stream ahead of a hole.
    ahead_bytes_max: int = 32 * 1024 * 1024
    #: Frames held for views that are not installed yet.
    later_count_max: int = 4_096
    #: Bytes held for views that are not installed yet.
    later_bytes_max: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NakAckStatistics:
    retransmitted: int


class NakAck(Layer):
    """NAKACK of JGroups (SEQ-17; traps S5, S6, S15, U8). A sender's own multicasts are delivered here at once."""

    name = "nakack"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x30: Cast, 0x31: Retransmit, 0x32: Highest}
    FRAMES_UP = "own"
    FRAMES_DOWN = "multicasts"
    NUMBERS_LANES = True

    def __init__(self, local: Local, config: NakAckConfig) -> None:
        self._me = local.address
        self._config = config
        self._view: View | None = None
        #: Bytes of all windows; flow control bounds the frames under way.
        self._retained = Level(None)
        self._streams = ReceiverWindows((), config.window_count_max, config.ahead_bytes_max, self._retained)
        self._gaps = Holes(local.rng, config.ask_delay_s, config.ask_interval_s_max)
        self._answers = Answers(config.answer_period_s, config.answer_bytes_max, config.ask_count_max)
        self._announcer = Announcer(config.quiet_interval_s, config.quiet_interval_s_max, config.stuck_interval_s)
        why = "a joiner hears views that it never becomes a member of; they go when a later one is installed"
        self._later = FairHold(config.later_count_max, config.later_bytes_max, frame_bytes, why)
        self._retransmitted = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            if event.dest is None and not event.unreliable:
                return self._cast(event, now)
            return [Down(event)]
        if isinstance(event, Stable):
            self._purge(event.vector, now)
            return []
        if isinstance(event, DigestQuery):
            assert self._streams.blocked, "a digest is asked for in a flush only"
            self._block()
            return [Up(DigestAnswer(self._streams.digest()))]
        if isinstance(event, ReachCut):
            return self._reach(event, now)
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            if type(header) is Cast:
                return self._receive(event, header, now)
            if type(header) is Retransmit:
                return self._answer(header, event.source, now)
            if type(header) is Highest:
                return self._learn(header, event.source, now)
            return [Up(event)]
        if isinstance(event, ViewInstalled):
            return self._install(event, now)
        if isinstance(event, Blocked):
            self._block()
            return []
        if isinstance(event, Unblocked):
            return self._unblock(now)
        return [Up(event)]

    def send_lane(self, dest: Address | None) -> SendPart | None:
        """All members must have installed the view, as its first stable frame shows: others know no lane of it."""
        if self._view is None or self._streams.blocked or not self._streams.windows[self._me].stable:
            return None
        return SendPart(lambda size: self._streams.windows[self._me].contiguous < NUMBER_MAX, number=self._number)

    def receive_lane(self, source: Address) -> ReceivePart | None:
        if self._streams.blocked:
            return None
        window = self._streams.windows[source]

        def accept(head: CastHead, frame: Frame, now: float) -> list[Effect]:
            self._streams.keep(frame)
            self._streams.deliver(source)
            return []

        return ReceivePart(lambda head: window.expects(head.seqno), accept=accept)

    def expand_lane(self, source: Address, head: CastHead) -> tuple[Header, ...]:
        return () if self._view is None else (Cast(self._view.id, source, head.seqno),)

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for owner, gap in self._gaps.due(now):
            effects += self._ask(owner, gap, now)
        if self._announcer.due is not None and self._announcer.due <= now:
            effects += self._announce(now)
        return effects

    def deadline(self) -> float | None:
        dues = [due for due in (self._gaps.deadline(), self._announcer.due) if due is not None]
        return min(dues, default=None)

    def statistics(self) -> NakAckStatistics:
        return NakAckStatistics(self._retransmitted)

    def levels(self) -> dict[str, Level]:
        """For bounds per stream, return the level of the largest one."""
        windows, later, config = self._streams.windows.values(), self._later, self._config
        ahead = max([window.ahead_bytes for window in windows], default=0)
        return {
            "streams_with_gaps": Level.of(len(self._gaps), None),
            "retained_bytes": self._retained,
            "window_count": Level.of(max([len(each.frames) for each in windows], default=0), config.window_count_max),
            "ahead_bytes": Level.of(ahead, config.ahead_bytes_max),
            "later_count": later.count,
            "later_bytes": later.bytes,
        }

    def _cast(self, frame: Frame, now: float) -> list[Effect]:
        assert self._view is not None, "a multicast before the first view"
        assert not self._streams.blocked, "a multicast during a flush"
        own = self._append(frame, self._view, now)
        return [Down(wire_frame(own, self._view.id)), Up(own)]

    def _number(self, frame: Frame, now: float) -> tuple[tuple[int, ...], Effect | None]:
        assert self._view is not None
        own = self._append(frame, self._view, now)
        return (own.seqno,), Up(own)

    def _append(self, frame: Frame, view: View, now: float) -> Frame:
        """Return this multicast with its place in the own stream, which keeps it."""
        seqno = self._streams.windows[self._me].contiguous + 1
        own = Frame(self._me, None, frame.headers, frame.batch, False, seqno, self._me)
        self._streams.append(own)
        if len(view.members) > 1 and self._announcer.sent(now):
            self.stale.add(self)
        return own

    def _announce(self, now: float) -> list[Effect]:
        assert self._view is not None
        others = [member for member in self._view.members if member != self._me]
        header = Highest(self._view.id, self._streams.windows[self._me].contiguous)
        dests: list[Address | None] = [*others] if self._announcer.said(now) else [None]
        return [Down(Frame(self._me, dest, (header,), unreliable=True)) for dest in dests]

    def _purge(self, vector: dict[Address, int], now: float) -> None:
        mine = self._streams.windows.get(self._me)
        before = 0 if mine is None else mine.stable
        self._streams.purge(vector)
        if mine is None or mine.stable == before:
            return
        if mine.stable == mine.contiguous:
            self._announcer.stop()
        elif self._announcer.advanced(now):
            self.stale.add(self)

    def _receive(self, frame: Frame, cast: Cast, now: float) -> list[Effect]:
        view, owner, streams = self._view, cast.sender, self._streams
        if view is None or cast.view > view.id:
            evicted = self._later.hold(frame, cast.view)
            return [Dropped("nak_later_view", evicted)] if evicted else []
        if cast.view != view.id:
            return [Dropped("nak_old_view")]
        window = streams.windows.get(owner)
        if window is None:
            return [Dropped("nak_stranger")]
        if owner == self._me:
            return [Dropped("nak_duplicate")]
        refused = streams.keep(Frame(owner, None, frame.headers[:-1], frame.batch, False, cast.seqno, owner))
        if window.contiguous < window.highest or owner in self._gaps:
            self._watch(owner, window, now)
        return [Dropped(refused)] if refused is not None else self._deliver(owner)

    def _watch(self, owner: Address, window: Window, now: float) -> None:
        self._gaps.watch(owner, window.contiguous, self._streams.wanted(owner), now)
        self.stale.add(self)

    def _deliver(self, owner: Address) -> list[Effect]:
        frames = self._streams.deliver(owner)
        effects: list[Effect] = [Up(frame) for frame in frames]
        if frames and self._streams.at_cut:
            effects.append(Up(CutReached()))
        return effects

    def _learn(self, header: Highest, owner: Address, now: float) -> list[Effect]:
        if self._view is None or header.view != self._view.id:
            return [Dropped("nak_other_view")]
        window = self._streams.windows.get(owner)
        if window is None or owner == self._me:
            return [Dropped("nak_stranger")]
        window.expect(header.seqno)
        self._watch(owner, window, now)
        return []

    def _ask(self, owner: Address, gap: Hole, now: float) -> list[Effect]:
        assert self._view is not None
        window, wanted = self._streams.windows[owner], self._streams.wanted(owner)
        ranges = window.missing(min(gap.up_to, wanted), self._config.ask_count_max, RANGES_MAX)
        gap.up_to = wanted
        if not ranges:
            self._gaps.postpone(gap, now)
            return []
        holder, *others = self._gaps.choose_holders(owner, gap, window.contiguous, now)
        in_vain = gap.wait_s >= self._config.doubt_s
        requests = [(holder, Retransmit(self._view.id, owner, ranges, in_vain))]
        requests += [(other, Retransmit(self._view.id, owner, _head(ranges), in_vain)) for other in others]
        doubt: list[Effect] = [Down(PathDoubt(holder, True))] if in_vain else []
        return doubt + [Down(Frame(self._me, member, (request,), unreliable=True)) for member, request in requests]

    def _answer(self, request: Retransmit, requester: Address, now: float) -> list[Effect]:
        if self._view is None or request.view != self._view.id:
            return [Dropped("nak_other_view")]
        window = self._streams.windows.get(request.sender)
        if window is None or requester not in self._streams.windows:
            return [Dropped("nak_stranger")]
        frames = self._answers.choose(window, request.ranges, requester, now)
        self._retransmitted += len(frames)
        effects: list[Effect] = [Down(wire_frame(frame, request.view, self._me, requester)) for frame in frames]
        if self._answers.exhausted:
            effects.append(Dropped("nak_busy"))
        if request.in_vain:
            effects.append(Down(PathDoubt(requester, True)))
        return effects

    def _install(self, event: ViewInstalled, now: float) -> list[Effect]:
        """Restart at number 1 and drop the old view's frames."""
        config, view = self._config, event.view
        self._view = view
        maxima = (config.window_count_max, config.ahead_bytes_max)
        self._streams = ReceiverWindows(view.members, *maxima, self._retained, event.blocked)
        self._announcer.stop()
        rank = view.rank(self._me)
        self._gaps.enter(view.members[rank + 1 :] + view.members[:rank])
        effects: list[Effect] = []
        for frame in self._later.take_all():
            cast = frame.top(Cast)
            assert cast is not None
            effects += self._receive(frame, cast, now)
        return effects

    def _block(self) -> None:
        self._streams.block()
        self._gaps.clear()

    def _unblock(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        self._streams.blocked = False
        for owner, window in self._streams.windows.items():
            self._watch(owner, window, now)
            effects += self._deliver(owner)
        return effects

    def _reach(self, event: ReachCut, now: float) -> list[Effect]:
        self._gaps.clear(event.holders)
        self.stale.add(self)
        behind = self._streams.reach(event.cut)
        if not behind:
            return [Up(CutReached())]
        effects: list[Effect] = []
        for owner in behind:
            effects += self._deliver(owner)
            if owner in (self._streams.cut or {}):
                self._gaps.urge(owner, event.cut[owner], now)
        return [*effects, *self.expire(now)]


def _head(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    first, last = ranges[0]
    return ((first, min(last, first + HEAD_COUNT - 1)),)
