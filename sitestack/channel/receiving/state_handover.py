"""The application's state: given to a joiner, or taken from another member, when the application comes to the view concerned.

The inbox has a mark before each view. Everything before the mark is in the state, everything after it is not; so the state is
given or taken when the mark is taken out, in the task that receives. For another site the state is given at a mark of its own
(`GiveSnapshot`); one that comes from there is taken first, and the inbox keeps what it does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sitestack.channel.receiving.inbox import Inbox, StateMark
from sitestack.model.errors import LocalError, StateTooLarge, StateUnavailable
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import copy_buffer
from sitestack.model.state_events import (
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

StateEvent: TypeAlias = GiveState | StateArrived | StateRefused | StateNotGiven | GiveSnapshot | SiteStateArrived
#: The mark at which the state of another site is taken; the tokens of snapshots are above it.
FETCHED = 0


@dataclass(frozen=True, slots=True)
class SharedState:
    """The callbacks by which an application gives its state and takes another's. Called in the task that receives."""

    get: Callable[[], bytes]
    set: Callable[[bytes], None]


class StateHandover:
    """Gives and takes the state at the marks of the inbox. For an application without a state it does nothing."""

    def __init__(self, state: SharedState | None, inbox: Inbox[Event | View | StateMark]) -> None:
        self._state = state
        self._inbox = inbox
        #: Whether the inbox is withheld: the application is shown nothing before it has its state.
        self.withheld = state is not None
        #: The view before which the application has to give its state; and the state that it is to be given.
        self._give_at: ViewId | None = None
        self._arrived: StateArrived | None = None
        self._refused: StateRefused | StateNotGiven | None = None
        #: The token of the snapshot for another site that is due; a newer one replaces it, as nobody waits for it any more.
        self._snapshot_at: int | None = None
        #: The state that came from another site; its mark is the first item of the inbox.
        self._fetched: SiteStateArrived | None = None
        #: What the application's state contains since it was another site's.
        self._contains: Contents = {}

    def mark(self, view: ViewId) -> None:
        """Put a mark into the inbox: everything in it until now is before this view."""
        if self._state is not None:
            self._inbox.put(StateMark(view))

    def withhold(self) -> bool:
        """The application's state is to be replaced: show it nothing until then. False when it waits for one already.

        Raises LocalError for an application without state.
        """
        if self._state is None:
            raise LocalError("only an application with get_state and set_state can take a state")
        before, self.withheld = self.withheld, True
        return not before

    def handle(self, event: StateEvent) -> None:
        """Take an event of the stack about the state."""
        if isinstance(event, GiveState):
            self._give_at = event.point
        elif isinstance(event, GiveSnapshot):
            self._snapshot_at = event.token
            self._inbox.put(StateMark(event.token))
        elif isinstance(event, SiteStateArrived):
            self._take_site_state(event)
        elif isinstance(event, StateRefused | StateNotGiven):
            self._refused = event
        else:
            self._arrived, self._refused = event, None
            self.withheld = False
            if event.data is not None:
                self._inbox.restart(StateMark(event.point))
                self._inbox.leave_out(event.contains)

    def _take_site_state(self, event: SiteStateArrived) -> None:
        self.withheld, self._refused = False, None
        if event.data is not None:
            self._fetched = event
            self._inbox.begin_with(StateMark(FETCHED), event.contains, list(_gaps(event)))

    @property
    def is_awaited(self) -> bool:
        """Whether a joiner waits for this member's application to come to the view before which it gives its state."""
        return self._give_at is not None or self._snapshot_at is not None

    def check(self) -> None:
        """Raises StateTooLarge or StateUnavailable when the state that is waited for will not come."""
        if isinstance(self._refused, StateNotGiven):
            raise StateUnavailable(f"the application of {self._refused.provider} failed to give its state, see its error")
        if self._refused is not None:
            raise StateTooLarge(f"the state has {self._refused.state_bytes} bytes, of {self._refused.state_bytes_max} at most")

    def reach(self, mark: StateMark, hand_in: Callable[[Event], None]) -> None:
        """The application has taken everything before this view: let it take its state, or give it, if that is due here.

        Raises what `get_state` raises, and TypeError for a state that is no bytes; the joiners are told that they get none.
        """
        assert self._state is not None
        if isinstance(mark.at, int):
            self._reach_token(mark.at, hand_in)
            return
        if self._arrived is not None and self._arrived.data is not None and self._arrived.point == mark.at:
            data, self._contains, self._arrived = self._arrived.data, self._arrived.contains, None
            self._state.set(data)
        if self._give_at != mark.at:
            return
        self._give_at = None
        mine: bytes | None = None
        try:
            mine = copy_buffer("a state", self._state.get())
        finally:
            hand_in(StateGiven(mark.at, mine, self._contains))

    def _reach_token(self, token: int, hand_in: Callable[[Event], None]) -> None:
        """Take the state of another site, or give one to it."""
        assert self._state is not None
        if token == FETCHED:
            fetched, self._fetched = self._fetched, None
            if fetched is not None and fetched.data is not None:
                self._contains = fetched.contains
                self._state.set(fetched.data)
        elif token == self._snapshot_at:
            self._snapshot_at = None
            mine: bytes | None = None
            try:
                mine = copy_buffer("a state", self._state.get())
            finally:
                hand_in(SnapshotGiven(token, mine))


def _gaps(event: SiteStateArrived) -> Iterator[Gap]:
    """What is neither in the state nor in the inbox."""
    for site, numbers in event.missing.items():
        for origin, last in numbers.items():
            first = event.contains.get(site, {}).get(origin, 0) + 1
            yield Gap(site, origin, first, last, GapReason.NOT_HELD)
