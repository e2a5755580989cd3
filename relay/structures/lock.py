"""A lock and a leader of a site, with fencing tokens.

Both need `membership.when_split: majority`, `agreement: uniform` and `order: total`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import trio

from sitestack.channel.channel import Channel
from sitestack.channel.portal import ChannelDoor, Door
from sitestack.model.address import Address
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError, NoMajority, unwrapped
from sitestack.structures.locks import Request
from sitestack.structures.registry import NAME_BYTES_MAX

#: Seconds before a member asks again to lead, in a part without the majority.
RETRY_S = 0.5


class Lock:
    """A lock that one member of the site holds at a time: `async with relay.Lock(channel, "jobs") as token`.

    Members that wait get it in the order of their requests. It is released when its holder leaves
    the view or is in a part without the majority. A member that is cut off believes for some seconds
    that it holds the lock; so give the token to the resource, which refuses a token below the largest
    that it has seen.
    """

    def __init__(self, channel: Channel[Any], name: str) -> None:
        """Raises ConfigurationError if the site has no lock service, and LocalError for a name that does not fit."""
        kind = type(self).__name__
        if isinstance(channel, Door):
            raise LocalError(
                f"relay.{kind} needs a channel on trio; use relay.aio.{kind} on asyncio, relay.blocking.{kind} on threads"
            )
        if channel.locks is None:
            raise ConfigurationError(
                f"relay.{kind} needs membership.when_split: majority, agreement: uniform and order: total; "
                f"this site has {channel.config.parameters}."
            )
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise LocalError(f"the name of a lock has 1 to {NAME_BYTES_MAX} bytes, not {len(name.encode())}")
        self._channel = channel
        self._locks = channel.locks
        self._name = f"{kind} {name}"
        self._request: Request | None = None
        self._changed = trio.Event()

    @property
    def token(self) -> int | None:
        """The fencing token while this member holds the lock; else None."""
        return None if self._request is None else self._request.token

    @property
    def holder(self) -> Address | None:
        """The member that holds the lock, as far as this member knows; None if none does."""
        held = self._locks.table.holder(self._name)
        return None if held is None else held[0].member

    async def acquire(self) -> int:
        """Wait until this member holds the lock; return its token, larger than all before.

        Raises NoMajority in a part without the majority, ChannelClosed, and LocalError if too many
        requests wait. One object holds the lock once: use another one for another task.
        """
        if self._request is not None and not self._request.is_over:
            raise LocalError("this object holds the lock or waits for it; make another one for another task")
        while (token := await self._ask()) is None:
            pass  # granted and lost in one turn, as in the last one before a view without the majority
        return token

    async def _ask(self) -> int | None:
        """Ask once; return the token, or None if the lock was lost before this task ran."""
        if not self._channel.view.is_primary:
            raise NoMajority("this part of the site lacks the majority; ask for the lock once the view is primary")
        request = self._request = self._locks.request(self._name, self._note)
        try:
            await self._until(lambda: request.token is not None or request.is_over)
        except trio.Cancelled:
            self._locks.release(request)
            raise
        if request.is_refused:
            raise LocalError("too many requests wait for locks")
        if self._locks.has_left:
            raise ChannelClosed("the channel is closed")
        return request.token

    def release(self) -> None:
        """Give the lock to the next waiting member; does nothing if this object does not hold it."""
        if self._request is not None and self._request.token is not None:
            self._locks.release(self._request)

    async def wait_lost(self) -> None:
        """Wait until this member does not hold the lock."""
        await self._until(lambda: self.token is None)

    async def __aenter__(self) -> int:
        return await self.acquire()

    async def __aexit__(self, *exc: Any) -> None:
        self.release()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, reached: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not reached():
            await self._changed.wait()


class Leader(Lock):
    """An election among the members that run it: `await relay.Leader(channel, "scheduler").run(duty)`."""

    async def run(self, duty: Callable[[int], Awaitable[None]]) -> None:
        """Call `duty(token)` whenever this member is elected, and cancel it when it no longer leads.

        Returns when `duty` returns. Raises as `acquire`, but waits in a part without the majority.
        """
        while True:
            try:
                token = await self.acquire()
            except NoMajority:
                await trio.sleep(RETRY_S)
                continue
            try:
                with unwrapped():
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._watch, nursery.cancel_scope)
                        await duty(token)
                        nursery.cancel_scope.cancel()
                        return
            finally:
                self.release()

    async def _watch(self, scope: trio.CancelScope) -> None:
        await self.wait_lost()
        scope.cancel()


class LockDoor(Door[Lock]):
    """A lock for programs outside of trio."""

    kind: ClassVar[type[Lock]] = Lock
    token: int | None
    holder: Address | None

    def __init__(self, channel: ChannelDoor[Any], name: str) -> None:
        super().__init__(self.kind(channel._inner, name))
