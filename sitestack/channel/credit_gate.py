"""CreditGate: where those wait who want to send, for credit or for another site to catch up."""

from __future__ import annotations

from collections.abc import Callable

import trio


class CreditGate:
    """Any number of tasks may wait. One that has to take what others wait for is let through, or nothing would go on."""

    def __init__(self, has_to_take: Callable[[trio.lowlevel.Task], bool]) -> None:
        self._has_to_take = has_to_take
        #: No credit: whoever wants to send has to wait.
        self.is_full = False
        #: Multicasts to all wait, whatever the credit.
        self.is_held_back = False
        #: Nobody waits any more, since this member leaves or is gone.
        self._is_over = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self, to_all: bool) -> None:
        """Wait for credit, and with a multicast to all for whatever else holds it back."""
        task = trio.lowlevel.current_task()
        while (self.is_full or (self.is_held_back and to_all)) and not self._is_over and not self._has_to_take(task):
            await self._waiting.park()

    def look_again(self) -> None:
        """Something has changed: each of those who wait sees for itself."""
        self._waiting.unpark_all()

    def hold_back(self, waits: bool) -> None:
        """Multicasts to all wait from now on, or go on."""
        self.is_held_back = waits
        if not waits:
            self.look_again()

    def end(self) -> None:
        """Nobody waits from now on: what is sent is refused, and says why."""
        self._is_over = self.is_full = True
        self.look_again()
