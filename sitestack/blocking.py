"""Channels for programs on threads: `with sitestack.blocking.open_channel(config) as channel`.

The names, types, errors and rules are those of `sitestack.open_channel`, without `await` and
`async`. Any thread may use the channel, one receives. What interrupts a waiting thread, such as
KeyboardInterrupt, cancels its call.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from functools import partial, wraps
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


def perform(work: Callable[[], Awaitable[R]]) -> R:
    """Run this on trio, and meanwhile here what the call has for this thread."""
    posted: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    call: Call[R] = Call(work, threading.current_thread(), posted.put)
    PORTAL.start(call, lambda: None)
    while not call.is_done:
        try:
            posted.get()()
        except BaseException:
            call.cancel()
            while not call.is_done:
                posted.get()()
            raise
    return call.result()


def blocked(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[Any, P], R]:
    @wraps(method)
    def call(self: Door[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = perform(partial(self._await, method, *args, **kwargs))
        return result

    return call


def computed(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    @wraps(method)
    def call(self: Door[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = perform(partial(self._compute, method, *args, **kwargs))
        return result

    return call


def opened(
    open_: Callable[P, AbstractAsyncContextManager[S]], show: Callable[[S], E]
) -> Callable[P, AbstractContextManager[E]]:
    @wraps(open_)
    @contextmanager
    def block(*args: P.args, **kwargs: P.kwargs) -> Iterator[E]:
        lease = Lease(partial(open_, *args, **cast("Any", at_callers(kwargs))))
        PORTAL.acquire()
        try:
            try:
                yield show(perform(lease.enter))
            except (KeyboardInterrupt, GeneratorExit):
                with suppress(PortalClosed):  # at the end of the interpreter
                    if PORTAL.is_here:
                        lease.drop()
                    else:
                        perform(lease.abandon)
                raise
            except BaseException:
                perform(lease.leave)
                raise
            perform(lease.leave)
        finally:
            PORTAL.release()

    return block


class _Batches(Generic[E]):
    def __init__(self, channel: TrioChannel[Any]) -> None:
        self._receive_end = channel._receive_end
        self._taken: deque[Any] = deque()

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        async def fill() -> None:
            self._taken.extend(await self._receive_end.take())  # there, where no interrupt comes in between

        if not self._taken:
            with suppress(PortalClosed):  # the block has ended
                perform(fill)
        if not self._taken:
            raise StopIteration
        self._receive_end.takes += 1
        item: E = self._taken.popleft()
        return item


class BlockingDoor(ChannelDoor[K], Generic[K, X_co]):
    def __init__(self, channel: K) -> None:
        super().__init__(channel)
        self._items: _Batches[Delivery | View | Gap | X_co] = _Batches(channel)
        self._messages: Iterator[Message] = iter(())

    def __iter__(self) -> Iterator[Message | View | Gap | X_co]:
        return self

    def __next__(self) -> Message | View | Gap | X_co:
        while True:
            for message in self._messages:
                self._inner._receive_end.takes += 1
                return message
            item = next(self._items)
            if not isinstance(item, Delivery):
                return item
            self._messages = item.sound_messages(self._inner._stack.count_drop)

    def batches(self) -> Iterator[Delivery | View | Gap | X_co]:
        """Iterate as `Channel.batches` does."""
        return self._items

    send = blocked(TrioChannel.send)
    send_many = blocked(TrioChannel.send_many)
    call = blocked(TrioChannel.call)
    answer = blocked(TrioChannel.answer)
    flushed = blocked(TrioChannel.flushed)
    ready = blocked(TrioChannel.ready)
    leave = blocked(TrioChannel.leave)
    levels = computed(TrioChannel.levels)


class Channel(BlockingDoor[TrioChannel, Never]):
    """`sitestack.Channel` on threads."""

    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, Channel)
open_transport = opened(open_transport_on_trio, lambda transport: transport)
