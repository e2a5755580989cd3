"""The application's state: given to a joiner, or taken from another member, when the application comes to the view concerned.

The inbox has a mark before each view. Everything before the mark is in the state, everything after it is not; so the state is
given or taken when the mark is taken out, in the task that receives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sitestack.channel.inbox import Inbox, Mark
from sitestack.model.errors import StateTooLarge, StateUnavailable
from sitestack.model.events import Event
from sitestack.model.message import copy_buffer
from sitestack.model.state_events import GiveState, StateArrived, StateGiven, StateNotGiven, StateRefused
from sitestack.model.view import View, ViewId


@dataclass(frozen=True, slots=True)
class SharedState:
    """The callbacks by which an application gives its state and takes another's. Called in the task that receives."""

    get: Callable[[], bytes]
    set: Callable[[bytes], None]


class StateHandover:
    """Gives and takes the state at the marks of the inbox. For an application without a state it does nothing."""

    def __init__(self, state: SharedState | None, inbox: Inbox[Event | View | Mark]) -> None:
        self._state = state
        self._inbox = inbox
        #: Whether the inbox is withheld: the application is shown nothing before it has its state.
        self.withheld = state is not None
        #: The view before which the application has to give its state; and the state that it is to be given.
        self._give_at: ViewId | None = None
        self._arrived: StateArrived | None = None
        self._refused: StateRefused | StateNotGiven | None = None

    def mark(self, view: ViewId) -> None:
        """Put a mark into the inbox: everything in it until now is before this view."""
        if self._state is not None:
            self._inbox.put(Mark(view))

    def handle(self, event: GiveState | StateArrived | StateRefused | StateNotGiven) -> None:
        """Take an event of the stack about the state."""
        if isinstance(event, GiveState):
            self._give_at = event.point
        elif isinstance(event, StateRefused | StateNotGiven):
            self._refused = event
        else:
            self._arrived, self._refused = event, None
            self.withheld = False
            if event.data is not None:
                self._inbox.restart(Mark(event.point))

    @property
    def is_awaited(self) -> bool:
        """Whether a joiner waits for this member's application to come to the view before which it gives its state."""
        return self._give_at is not None

    def check(self) -> None:
        """Raises StateTooLarge or StateUnavailable when the state that is waited for will not come."""
        if isinstance(self._refused, StateNotGiven):
            raise StateUnavailable(f"the application of {self._refused.provider} failed to give its state, see its error")
        if self._refused is not None:
            raise StateTooLarge(f"the state has {self._refused.state_bytes} bytes, of {self._refused.state_bytes_max} at most")

    def reach(self, mark: Mark, hand_in: Callable[[Event], None]) -> None:
        """The application has taken everything before this view: let it take its state, or give it, if that is due here.

        Raises what `get_state` raises, and TypeError for a state that is no bytes; the joiners are told that they get none.
        """
        assert self._state is not None
        if self._arrived is not None and self._arrived.data is not None and self._arrived.point == mark.view:
            data, self._arrived = self._arrived.data, None
            self._state.set(data)
        if self._give_at != mark.view:
            return
        self._give_at = None
        mine: bytes | None = None
        try:
            mine = copy_buffer("a state", self._state.get())
        finally:
            hand_in(StateGiven(mark.view, mine))
