"""BacklogGuard: makes a member leave whose application takes nothing, as it would stop its site for as long as it lives.

Credit ends with the backlog, so one such application holds up every sender of its site, and messages of other sites.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from sitestack.channel.credit_gate import CreditGate
from sitestack.channel.receive_end import ReceiveEnd

#: How often the guard looks in one hold time.
LOOKS = 8


class BacklogGuard:
    """Looks from time to time, so that a take costs no more than being counted."""

    def __init__(self, receive_end: ReceiveEnd, gate: CreditGate, hold_s: float, exclude: Callable[[], None]) -> None:
        """`exclude` is called once, when nothing was taken for `hold_s` seconds while senders waited for it.

        While multicasts to all are held back the application may be waiting for another site, so that time does not count.
        """
        self._receive_end = receive_end
        self._gate = gate
        self._hold_s = hold_s
        self._exclude = exclude

    async def run(self) -> None:
        """Run until the member is excluded, or the task is cancelled."""
        takes, since = -1, trio.current_time()
        while True:
            await trio.sleep(self._hold_s / LOOKS)
            now = trio.current_time()
            waits_for_taking = self._receive_end.is_over and not self._gate.is_held_back
            if not waits_for_taking or self._receive_end.takes != takes:
                takes, since = self._receive_end.takes, now
            elif now - since >= self._hold_s:
                self._exclude()
                return
