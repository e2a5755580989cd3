"""The application's state: provided for a joiner, or installed from another member, at the right view.

The inbox has a mark before each view, at which the state is read or installed. A snapshot for
another site has a separate mark (`GiveSnapshot`). One from another site is installed first, and the
inbox keeps what it lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sitestack.channel.receiving.inbox import Inbox, Numbers, StateMark, Stream, above, stream_of
from sitestack.channel.receiving.state_extras import StateExtras, StateNumber, join_extras, split_extras
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.errors import LocalError, ProtocolError, StateTooLarge, StateUnavailable
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, copy_buffer
from sitestack.model.state_events import (
    Baseline,
    Contents,
    GiveSnapshot,
    GiveState,
    SiteStateArrived,
    SnapshotGiven,
    StateArrived,
    StateGiven,
    StateNotGiven,
    StateRefused,
)
from sitestack.model.view import View, ViewId

StateEvent: TypeAlias = Baseline | GiveState | StateArrived | StateRefused | StateNotGiven | GiveSnapshot | SiteStateArrived
#: The mark at which another site's state is installed; tokens of snapshots are higher.
FETCHED = 0
#: Maximum number of gaps, and of numbers, that travel with a state.
GAPS_MAX = NUMBERS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class SharedState:
    """The application's callbacks that return and install its state. Called in the task that receives."""

    get: Callable[[], bytes]
    set: Callable[[bytes], None]


class StateHandover:
    def __init__(
        self,
        state: SharedState | None,
        inbox: Inbox[Event | View | StateMark],
        keys: MessageKeys,
        note_gap: Callable[[Gap], None],
        bytes_max: int,
        majority: bool = False,
    ) -> None:
        """`note_gap` is called for each gap that comes with a state. `bytes_max`: of a state and its extras.
        `majority`: no member is too old to name the numbers in a state.
        """
        self._state = state
        self._inbox = inbox
        self._keys = keys
        self._bytes_max = bytes_max
        self._note_gap = note_gap
        #: Gaps read since the state began; beyond the bound the oldest is forgotten.
        self._gaps: deque[Gap] = deque(maxlen=GAPS_MAX)
        self.counts = state is not None
        self._majority = majority
        #: The last number read of each stream, of a gap too; beyond the bound the longest silent one is forgotten.
        self._read: dict[Stream, int] = {}
        self._damaged = False
        self.withheld = state is not None
        #: The reached view, that of the state to provide, and the state to install.
        self._reached: ViewId | None = None
        self._give_at: ViewId | None = None
        self._arrived: StateArrived | None = None
        self._refused: StateRefused | StateNotGiven | None = None
        #: Token of the due snapshot for another site; a newer one replaces it.
        self._snapshot_at: int | None = None
        #: Its mark is the first item of the inbox.
        self._fetched: SiteStateArrived | None = None
        self._contains: Contents = {}
        #: Messages that the application never had, from before a baseline.
        self._history: deque[Gap] = deque(maxlen=GAPS_MAX)
        #: The same at the join, unless a state comes.
        self._before_join: list[Gap] = []

    def mark(self, view: ViewId) -> None:
        if self._state is not None:
            self._inbox.put(StateMark(view, self._keys.stored))

    def pass_gap(self, gap: Gap) -> None:
        """Note a gap that the application has read: its state lacks these messages."""
        if self._state is not None and gap.scope in (Scope.ALL, Scope.SITE):
            self._gaps.append(gap)
            if self.counts:
                self.count(stream_of(gap), gap.last)

    def count(self, stream: Stream, last: int) -> None:
        """Note that the application has read this number."""
        # A gap that came with the state may be older.
        self._read[stream] = max(last, self._read.pop(stream, 0))
        if len(self._read) > NUMBERS_MAX:
            del self._read[next(iter(self._read))]

    def _note_baseline(self, event: Baseline) -> None:
        """Note earlier messages, which this state lacks."""
        if self._state is None or event.in_state:
            # The messages after it come again.
            for batch in self._inbox.retract(event.site, event.origins) if event.at_join else ():
                self._keys.forget(batch)
            return
        gaps = [Gap(event.site, origin, 1, n, GapReason.BEFORE_BASELINE, event.scope) for origin, n in event.origins.items()]
        if event.at_join and self.withheld:
            self._before_join += gaps
        else:
            self._history += gaps

    def withhold(self) -> bool:
        """Withhold the inbox until the state is replaced. Return False if it already waits.

        Raises LocalError for an application without state.
        """
        if self._state is None:
            raise LocalError("only an application with get_state and set_state can take a state")
        before, self.withheld = self.withheld, True
        return not before

    def handle(self, event: StateEvent) -> None:
        if isinstance(event, Baseline):
            self._note_baseline(event)
        elif isinstance(event, GiveState):
            self._give_at = event.point
            if event.point == self._reached:  # nothing was delivered since: the view was installed blocked
                self.mark(event.point)
        elif isinstance(event, GiveSnapshot):
            self._snapshot_at = event.token
            self._inbox.put(StateMark(event.token, self._keys.stored))
        elif isinstance(event, SiteStateArrived):
            self._take_site_state(event)
        elif isinstance(event, StateRefused | StateNotGiven):
            self._refused = event
        else:
            self._take_state(event)

    def _take_state(self, event: StateArrived) -> None:
        self._arrived, self._refused = event, None
        if event.data is not None:
            if (parts := self._split(event.data)) is None:
                return
            extras, data = parts
            self._arrived = replace(event, data=data)
            self._inbox.leave_out(event.contains)
            self._read = {(each.site, each.origin, each.scope): each.last for each in extras.numbers}
            numbers = self._read if extras.numbers or self._majority else None
            history, gaps = self._divide(extras.gaps, numbers)
            self._history += history
            self._inbox.restart(StateMark(event.point), gaps, numbers)
            self._adopt(replace(extras, gaps=(*history, *gaps)))
        else:
            self._history += self._before_join
        self._before_join = []
        self.withheld = False

    def _divide(self, gaps: Sequence[Gap], numbers: Numbers | None) -> tuple[list[Gap], list[Gap]]:
        """Return history of this application, and gaps to show."""
        history, shown, lowest = list[Gap](), list[Gap](), self._inbox.lowest()
        for gap in gaps:
            first = lowest.get(stream_of(gap), gap.last + 1)
            # With numbers the inbox keeps higher ones.
            is_kept = numbers is not None and first > numbers.get(stream_of(gap), 0)
            if gap.reason is not GapReason.BEFORE_BASELINE or not (is_kept or first > gap.last):
                shown.append(_as_shown(gap))
            elif first > gap.first:
                history.append(replace(gap, last=min(gap.last, first - 1)))
        return history, shown

    def _take_site_state(self, event: SiteStateArrived) -> None:
        self._refused = None
        if event.data is not None:
            if (parts := self._split(event.data)) is None:
                return
            extras, data = parts
            self._fetched = replace(event, data=data)
            self._inbox.leave_out(event.contains)
            missing = _gaps(event, self._inbox.lowest())
            gaps = [_as_shown(gap) for gap in extras.gaps if gap.scope is Scope.ALL] + missing
            self._inbox.begin_with(StateMark(FETCHED), gaps)
            for site, numbers in event.contains.items() if self.counts else ():
                for origin, last in numbers.items():
                    self.count((site, origin, Scope.ALL), last)
            history = [gap for gap in (*self._history, *self._before_join) if gap.scope is Scope.SITE]
            self._history.clear()
            self._history += history
            self._adopt(replace(extras, gaps=(*extras.gaps, *missing)))
        else:
            self._history += self._before_join
        self._before_join = []
        self.withheld = False

    def _split(self, data: bytes) -> tuple[StateExtras, bytes] | None:
        """Return the extras and the state; None for a damaged one."""
        try:
            return split_extras(data)
        except ProtocolError:
            self._damaged = True
            return None

    def _adopt(self, extras: StateExtras) -> None:
        """Recognise the keys of the state, and drop waiting messages that have one: also those of this site
        that came back with the state of another.
        """
        self._keys.forget_lost(extras.gaps)
        self._keys.adopt(extras.keys)
        known = {each.key for each in extras.keys}

        def rest(batch: Batch) -> Sequence[Batch]:
            return batch.without([n for n, (key, _) in enumerate(batch.keyed(), batch.first) if key in known])

        self._inbox.reduce(rest)
        for gap in extras.gaps:
            self._note_gap(gap)

    @property
    def is_awaited(self) -> bool:
        return self._give_at is not None or self._snapshot_at is not None

    def check(self) -> None:
        """Raise StateTooLarge or StateUnavailable if the awaited state will not come."""
        if self._damaged:
            raise StateUnavailable("the received state is damaged: its gaps and keys cannot be read; join again")
        if isinstance(self._refused, StateNotGiven):
            raise StateUnavailable(
                f"the application of {self._refused.provider} failed to provide its state; see the error or gaps there"
            )
        if self._refused is not None:
            raise StateTooLarge(f"the state has {self._refused.state_bytes} bytes, of {self._refused.state_bytes_max} at most")

    def reach(self, mark: StateMark, hand_in: Callable[[Event], None]) -> None:
        """Install or provide the state if it is due at this mark.

        Raises any error of `get_state`, and TypeError for a state that is no bytes.
        """
        assert self._state is not None
        if isinstance(mark.at, int):
            self._reach_token(mark, mark.at, hand_in)
            return
        self._reached = mark.at
        if self._arrived is not None and self._arrived.data is not None and self._arrived.point == mark.at:
            data, self._contains, self._arrived = self._arrived.data, self._arrived.contains, None
            self._set(data)
        if self._give_at != mark.at:
            return
        self._give_at = None
        mine, extras_bytes = None, 0
        try:
            mine, extras_bytes = self._get(mark)
        finally:
            hand_in(StateGiven(mark.at, mine, self._contains, extras_bytes=extras_bytes))

    def decline(self, hand_in: Callable[[Event], None]) -> None:
        """Refuse a joiner the state that the application does not provide: until it comes, the joiner stops the site."""
        if self._give_at is not None:
            hand_in(StateGiven(self._give_at, None))
            self._give_at = None

    def _set(self, data: bytes) -> None:
        assert self._state is not None
        self._gaps.clear()
        self._state.set(data)

    def _get(self, mark: StateMark) -> tuple[bytes, int]:
        """Return the bytes that travel, and how many of them are extras."""
        assert self._state is not None
        gaps = self._inbox.merge_gaps()
        is_joiner = self.counts and not isinstance(mark.at, int)
        read = {**self._read, **{stream_of(gap): gap.last for gap in gaps}} if is_joiner else {}
        numbers = tuple(StateNumber(*stream, last) for stream, last in read.items())
        history = [gap for each in self._history if (gap := above(each, self._contains)) is not None]
        extras = StateExtras((*history, *self._gaps, *gaps), self._keys.carried(mark.keys), numbers)
        state = copy_buffer("a state", self._state.get())
        joined = join_extras(extras, state, self._bytes_max)
        return joined, len(joined) - len(state)

    def _reach_token(self, mark: StateMark, token: int, hand_in: Callable[[Event], None]) -> None:
        if token == FETCHED:
            fetched, self._fetched = self._fetched, None
            if fetched is not None and fetched.data is not None:
                self._contains = fetched.contains
                self._set(fetched.data)
        elif token == self._snapshot_at:
            self._snapshot_at = None
            mine, extras_bytes = None, 0
            try:
                mine, extras_bytes = self._get(mark)
            finally:
                hand_in(SnapshotGiven(token, mine, extras_bytes))


def _as_shown(gap: Gap) -> Gap:
    """Return a gap as shown here, where its messages may have been delivered."""
    return replace(gap, reason=GapReason.NOT_HELD) if gap.reason is GapReason.BEFORE_BASELINE else gap


def _gaps(event: SiteStateArrived, lowest: Numbers) -> list[Gap]:
    """Return the numbers that are neither in the state nor in the inbox, which begins with the lowest."""
    gaps = [
        Gap(site, origin, event.contains.get(site, {}).get(origin, 0) + 1, last, GapReason.NOT_HELD)
        for site, numbers in event.missing.items()
        for origin, last in numbers.items()
    ]
    lasts = [min(gap.last, lowest.get(stream_of(gap), gap.last + 1) - 1) for gap in gaps]
    return [replace(gap, last=last) for gap, last in zip(gaps, lasts, strict=True) if gap.first <= last]
