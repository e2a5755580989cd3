"""BacklogGuard: a member whose application takes nothing leaves its site, instead of stopping it for as long as it lives.

Credit ends where the backlog does, so one such application holds up every sender of its site, and what other sites send.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from sitestack.channel.receive_end import ReceiveEnd

#: How often it is looked, in a hold time.
LOOKS = 8


class BacklogGuard:
    """Looks from time to time, so that taking costs nothing more than being counted."""

    def __init__(self, receive_end: ReceiveEnd, hold_s: float, exclude: Callable[[], None]) -> None:
        """`exclude` is called once, when nothing was taken for `hold_s` while senders waited for it."""
        self._receive_end = receive_end
        self._hold_s = hold_s
        self._exclude = exclude

    async def run(self) -> None:
        """Until it has excluded its member, or is cancelled."""
        takes, since = -1, trio.current_time()
        while True:
            await trio.sleep(self._hold_s / LOOKS)
            now = trio.current_time()
            if not self._receive_end.is_over or self._receive_end.takes != takes:
                takes, since = self._receive_end.takes, now
            elif now - since >= self._hold_s:
                self._exclude()
                return
