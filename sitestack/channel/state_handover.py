"""The application's state: given to a joiner, or taken from others, where the application comes to the view that it is for.

The inbox has a mark before each view. What is before the mark is in the state, what is after it is not; so both happen when the
mark is taken out, in the task that receives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sitestack.channel.inbox import Inbox, Mark
from sitestack.model.errors import StateTooLarge, StateUnavailable
from sitestack.model.events import Event, GiveState, StateArrived, StateGiven, StateNotGiven, StateRefused
from sitestack.model.message import copy_buffer
from sitestack.model.view import View, ViewId


@dataclass(frozen=True, slots=True)
class SharedState:
    """How the application gives its state to a joiner and takes that of others. Called in the task that receives."""

    get: Callable[[], bytes]
    set: Callable[[bytes], None]


class StateHandover:
    """What is to be done at which mark. For an application without a state it does nothing."""

    def __init__(self, state: SharedState | None, inbox: Inbox[Event | View | Mark]) -> None:
        self._state = state
        self._inbox = inbox
        #: Nothing is shown to the application before it has its state.
        self.withheld = state is not None
        #: Before which view the state of this member's application is wanted, and what it is to be given before which.
        self._give_at: ViewId | None = None
        self._arrived: StateArrived | None = None
        self._refused: StateRefused | StateNotGiven | None = None

    def mark(self, view: ViewId) -> None:
        """What was put into the inbox until now is before this view."""
        if self._state is not None:
            self._inbox.put(Mark(view))

    def handle(self, event: GiveState | StateArrived | StateRefused | StateNotGiven) -> None:
        """What the stack has to say of the state."""
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
        """Raises StateTooLarge or StateUnavailable when there is no state to wait for."""
        if isinstance(self._refused, StateNotGiven):
            raise StateUnavailable(f"the application of {self._refused.provider} failed to give its state, see its error")
        if self._refused is not None:
            raise StateTooLarge(f"the state has {self._refused.state_bytes} bytes, of {self._refused.state_bytes_max} at most")

    def reach(self, mark: Mark, hand_in: Callable[[Event], None]) -> None:
        """The application has done with all that was before this view. Hands in its state if it is wanted here.

        What `get_state` raises comes out, and so does TypeError for a state that is no bytes; the joiners are told that they
        get none.
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
