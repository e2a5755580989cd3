"""Channels for programs on asyncio: `async with sitestack.aio.open_channel(config) as channel`.

The names, types, errors and rules are those of `sitestack.open_channel`. A cancelled `send` has sent
nothing. If the message had gone before, `send` returns, and the next `await` raises the
cancellation. The channel runs in a thread, so a busy event loop makes no member suspect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial, wraps
from itertools import chain
from typing import Any, Concatenate, Generic, Never, cast

from sitestack.channel.channel import Channel as TrioChannel
from sitestack.channel.channel import X_co
from sitestack.channel.open import open_channel as open_on_trio
from sitestack.channel.open import open_transport as open_transport_on_trio
from sitestack.channel.portal import PORTAL, Call, ChannelDoor, Door, E, K, Lease, P, PortalClosed, R, S, at_callers
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from sitestack.model.view import View


async def _call(work: Callable[[], Awaitable[R]]) -> R:
    """Run this on trio. A cancellation cancels it there, and is raised if nothing was done."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    answered = loop.create_future()

    def post(action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(action)

    call = Call(work, task, post)
    requests = task.cancelling()
    PORTAL.start(call, lambda: answered.set_result(None))
    cancellation: asyncio.CancelledError | None = None
    while not answered.done():
        try:
            await asyncio.shield(answered)
        except asyncio.CancelledError as error:
            cancellation = error
            if error.args and isinstance(error.args[0], _Repeated):
                requests = error.args[0].requests
            call.cancel()
    if cancellation is not None:
        if call.was_cancelled:
            raise cancellation
        loop.call_soon(_cancel_again, task, _Repeated(cancellation, requests))
    return call.result()


class _Repeated(str):
    """The message of a cancellation, also when repeated; how many the task had before it."""

    requests: int

    def __new__(cls, cancellation: asyncio.CancelledError, requests: int) -> _Repeated:
        self = super().__new__(cls, *cancellation.args[:1])
        self.requests = requests
        return self


def _cancel_again(task: asyncio.Task[Any], repeated: _Repeated) -> None:
    """Repeat a cancellation that came too late, unless its timeout has ended meanwhile."""
    if not task.done() and task.cancelling() > repeated.requests:
        task.cancel(repeated)
        task.uncancel()


def awaited(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return this method of a channel for asyncio."""

    @wraps(method)
    async def call(self: Door[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await _call(partial(self._await, method, *args, **kwargs))
        return result

    return call


def computed(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return this method, which does not wait, for asyncio: it runs in the channel's thread."""

    @wraps(method)
    async def call(self: Door[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await _call(partial(self._compute, method, *args, **kwargs))
        return result

    return call


def opened(
    open_: Callable[P, AbstractAsyncContextManager[S]], show: Callable[[S], E]
) -> Callable[P, AbstractAsyncContextManager[E]]:
    """Return this context manager of trio for asyncio, with its value converted by `show`."""

    @wraps(open_)
    @asynccontextmanager
    async def block(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[E]:
        lease = Lease(partial(open_, *args, **cast("Any", at_callers(kwargs))))
        PORTAL.acquire()
        try:
            value = await _call(lease.enter)
            try:
                yield show(value)
            except (asyncio.CancelledError, GeneratorExit):
                await _call(lease.abandon)
                raise
            except BaseException:
                await _call(lease.leave)
                raise
            await _call(lease.leave)
        finally:
            PORTAL.release()

    return block


class _Batches(Generic[E]):
    """The items of a channel. One call takes all that are there."""

    def __init__(self, channel: TrioChannel[Any]) -> None:
        self._receive_end = channel._receive_end
        self._taken: deque[Any] = deque()

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        if not self._taken:
            try:
                self._taken.extend(await _call(self._receive_end.take))
            except PortalClosed:
                pass  # the block has ended
            except asyncio.CancelledError:
                self._receive_end._taker = asyncio.current_task()
                raise
        if not self._taken:
            raise StopAsyncIteration
        self._receive_end.takes += 1
        item: E = self._taken.popleft()
        return item


class AsyncDoor(ChannelDoor[K], Generic[K, X_co]):
    """Common base of the channels of one site and of several."""

    def __init__(self, channel: K) -> None:
        super().__init__(channel)
        self._items: _Batches[Delivery | View | Gap | X_co] = _Batches(channel)
        self._messages: Iterator[Message] = iter(())

    def __aiter__(self) -> AsyncIterator[Message | View | Gap | X_co]:
        return self

    async def __anext__(self) -> Message | View | Gap | X_co:
        while True:
            for message in self._messages:
                self._inner._receive_end.takes += 1
                return message
            item = await anext(self._items)
            if not isinstance(item, Delivery):
                return item
            # after those of another task
            self._messages = chain(list(self._messages), item.sound_messages(self._inner._stack.count_drop))

    def batches(self) -> AsyncIterator[Delivery | View | Gap | X_co]:
        """Iterate as `Channel.batches` does."""
        return self._items

    send = awaited(TrioChannel.send)
    send_many = awaited(TrioChannel.send_many)
    call = awaited(TrioChannel.call)
    answer = awaited(TrioChannel.answer)
    flushed = awaited(TrioChannel.flushed)
    ready = awaited(TrioChannel.ready)
    leave = awaited(TrioChannel.leave)
    levels = computed(TrioChannel.levels)


class Channel(AsyncDoor[TrioChannel, Never]):
    """`sitestack.Channel` on asyncio. Methods that compute, such as `statistics`, are awaited here."""

    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, Channel)
open_transport = opened(open_transport_on_trio, lambda transport: transport)
