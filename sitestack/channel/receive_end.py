"""The end of a channel from which the application takes what was delivered, at its own pace.

It waits while there is nothing, lets the other tasks have their turn, and tells flow control what is not taken yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import trio

from sitestack.channel.inbox import Delivery, Inbox, Mark
from sitestack.channel.state_handover import StateHandover
from sitestack.model.errors import LocalError
from sitestack.model.events import Credit, Event
from sitestack.model.view import View

#: Taking from a full inbox gives the other tasks a turn after this many messages. With about as many as one turn delivers, a
#: reader that is fast enough would fall behind all the same.
TAKE_MESSAGES = 4_096


class ReceiveEnd:
    """An iterator and not a generator, so that leaving a loop early leaves nothing to be closed."""

    def __init__(
        self,
        inbox: Inbox[Event | View | Mark],
        state: StateHandover,
        hand_in: Callable[[Event], None],
        backlog_bytes_max: int,
    ) -> None:
        """`hand_in` takes what the stack is to know; it is told of the backlog in steps of an eighth of its bound."""
        self._inbox = inbox
        self._state = state
        self._hand_in = hand_in
        self._backlog_bytes_max = backlog_bytes_max
        self._report_step_bytes = max(1, backlog_bytes_max // 8)
        self._reported_bytes = 0
        self._taken_messages = 0
        #: Counts what was taken.
        self.takes = 0
        self._closed = False
        #: Why nothing can be taken any more, if the application is to hear of it.
        self._failure: LocalError | None = None
        self._readers = trio.lowlevel.ParkingLot()
        #: Who took last; one task should.
        self._taker: trio.lowlevel.Task | None = None

    def __aiter__(self) -> AsyncIterator[Delivery | View | Event]:
        return self

    async def __anext__(self) -> Delivery | View | Event:
        """The oldest. Ends when the channel is closed.

        Raises StateTooLarge, StateUnavailable, what callbacks raise, and SlowConsumer when nothing was taken for too long.
        """
        inbox = self._inbox
        self.takes += 1
        self._taker = trio.lowlevel.current_task()
        if self._taken_messages >= TAKE_MESSAGES:
            self._taken_messages = 0
            await trio.lowlevel.checkpoint()
        while True:
            while self._state.withheld or not inbox:
                self._state.check()
                if self._failure is not None:
                    raise self._failure
                if self._closed:
                    raise StopAsyncIteration
                self._taken_messages = 0
                await self._readers.park()
            item = inbox.take()
            if isinstance(item, Mark):
                self._state.reach(item, self._hand_in)
                continue
            if isinstance(item, Delivery):
                self._taken_messages += item.batch.count
                if self._reported_bytes - inbox.backlog_bytes.now >= self._report_step_bytes:
                    self._report_backlog()
            return item

    @property
    def is_awaited(self) -> bool:
        """Whether others can only go on when something is taken: they get no credit, or a joiner gets no state, before."""
        return self._reported_bytes > self._backlog_bytes_max or self._state.is_awaited

    @property
    def is_over(self) -> bool:
        """Whether senders get no credit because the application does not take what it could."""
        return self._reported_bytes > self._backlog_bytes_max and not self._state.withheld

    def waits_for(self, task: trio.lowlevel.Task) -> bool:
        """Whether it is this task that has to take, so that it must not wait for credit itself."""
        return task is self._taker and self.is_awaited

    def refresh(self) -> None:
        """Something was put into the inbox, perhaps."""
        if self._inbox:
            self._readers.unpark_all()
        if self._inbox.backlog_bytes.now - self._reported_bytes >= self._report_step_bytes:
            self._report_backlog()

    def _report_backlog(self) -> None:
        """The senders are to slow down, or may go on."""
        self._reported_bytes = self._inbox.backlog_bytes.now
        self._hand_in(Credit(self._reported_bytes))

    def abandon(self, failure: LocalError | None = None) -> None:
        """Nobody takes any more. What was delivered is dropped and nothing is backlog from now on, so the senders go on.

        `failure`: what who tries to take is told.
        """
        self._failure = self._failure or failure
        self._inbox.abandon()
        self._report_backlog()

    def close(self) -> None:
        """Nothing will be put into the inbox any more; what is in it can be taken."""
        self._closed = True
        self._readers.unpark_all()
