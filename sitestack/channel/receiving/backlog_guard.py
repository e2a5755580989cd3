"""BacklogGuard: an application that takes nothing holds its site up for a bounded time only.

Credit ends with the backlog, so one such application holds up every sender of its site, and messages of other sites. With the
policy `exclude` its member leaves; with `gap` it stays, and what waits for the application becomes a gap; with `slow` all wait.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.sending.credit_gate import CreditGate
from sitestack.config import ChannelConfig

#: How often the guard looks in one hold time.
LOOKS = 8


class BacklogGuard:
    """Looks from time to time, so that a take costs no more than being counted."""

    def __init__(self, receive_end: ReceiveEnd, gate: CreditGate, config: ChannelConfig, exclude: Callable[[], None]) -> None:
        """`exclude` is called at most once, when nothing was taken for the hold time while senders waited for it.

        While multicasts to all are held back the application may be waiting for another site, so that time does not count.
        """
        self._receive_end = receive_end
        self._gate = gate
        self._policy = config.backlog_policy
        self._hold_s = config.backlog_hold_s
        self._exclude = exclude

    async def run(self) -> None:
        """Run until the member is excluded, or the task is cancelled."""
        takes, since = -1, trio.current_time()
        while self._policy != "slow":
            await trio.sleep(self._hold_s / LOOKS)
            now = trio.current_time()
            if self._receive_end.takes != takes or self._gate.is_held_back:
                takes, since = self._receive_end.takes, now
            elif not self._receive_end.is_over:
                since = since if self._receive_end.has_skipped else now
            elif now - since >= self._hold_s:
                if self._policy == "exclude":
                    self._exclude()
                    return
                self._receive_end.skip()
