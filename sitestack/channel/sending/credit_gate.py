"""CreditGate: where tasks that want to send wait for credit, or for another site to catch up."""

from __future__ import annotations

from collections.abc import Callable

import trio


class CreditGate:
    """Any number of tasks may wait. The task that has to take deliveries is let through, or nothing would go on."""

    def __init__(self, has_to_take: Callable[[trio.lowlevel.Task], bool]) -> None:
        self._has_to_take = has_to_take
        #: Whether there is no credit, so that every sender has to wait.
        self.is_full = False
        #: Whether multicasts to all have to wait, whatever the credit.
        self.is_held_back = False
        #: Whether no task waits any more, as this member leaves or is gone.
        self._is_over = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self, to_all: bool) -> None:
        """Wait for credit and, with a multicast to all, until these are not held back any more."""
        task = trio.lowlevel.current_task()
        while (self.is_full or (self.is_held_back and to_all)) and not self._is_over and not self._has_to_take(task):
            await self._waiting.park()

    def look_again(self) -> None:
        """Wake the waiting tasks, each of which checks whether it may go on."""
        self._waiting.unpark_all()

    def hold_back(self, waits: bool) -> None:
        """Make multicasts to all wait from now on, or let them go on."""
        self.is_held_back = waits
        if not waits:
            self.look_again()

    def refuse_all(self) -> None:
        """Let no task wait from now on: sending is refused, with the reason."""
        self._is_over = self.is_full = True
        self.look_again()
