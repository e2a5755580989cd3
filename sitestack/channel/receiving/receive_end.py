"""The end of a channel from which the application takes deliveries, at its own pace.

It waits while there is nothing to take, lets other tasks run, and tells flow control how much is not taken yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import trio

from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.channel.receiving.state_handover import StateHandover
from sitestack.channel.sending.sending import CreditGate
from sitestack.config import ChannelConfig
from sitestack.model.errors import LocalError
from sitestack.model.events import Credit, Event
from sitestack.model.message import Batch
from sitestack.model.view import View

#: Taking from a full inbox gives the other tasks a turn after this many messages. It is well above what one turn delivers:
#: otherwise even a reader that is fast enough would fall behind.
TAKE_MESSAGES = 4_096
#: How often the guard looks in one hold time.
LOOKS = 8


class ReceiveEnd:
    """An iterator and not a generator, so that leaving a loop early leaves nothing to be closed."""

    def __init__(
        self,
        inbox: Inbox[Event | View | StateMark],
        state: StateHandover,
        hand_in: Callable[[Event], None],
        backlog_bytes_max: int,
        note_skipped: Callable[[Batch], None],
    ) -> None:
        """`hand_in` gives events to the stack, which learns the backlog in steps of an eighth of its bound.

        `note_skipped` is called for each batch that becomes part of a gap.
        """
        self._inbox = inbox
        self._state = state
        self._hand_in = hand_in
        self._note_skipped = note_skipped
        self._backlog_bytes_max = backlog_bytes_max
        self._report_step_bytes = max(1, backlog_bytes_max // 8)
        self._reported_bytes = 0
        self._taken_messages = 0
        #: How many items the application has asked for.
        self.takes = 0
        #: Whether what waited became a gap, and nothing was taken since: whoever takes nothing is waited for once.
        self.has_skipped = False
        self._closed = False
        #: The error that iterating raises when nothing can be taken any more; None for a normal end.
        self._failure: LocalError | None = None
        self._readers = trio.lowlevel.ParkingLot()
        #: The task that took last; only one task should take.
        self._taker: trio.lowlevel.Task | None = None

    def __aiter__(self) -> AsyncIterator[Delivery | View | Event]:
        return self

    async def __anext__(self) -> Delivery | View | Event:
        """The oldest item. Ends when the channel is closed.

        Raises StateTooLarge, StateUnavailable, whatever a state callback raises, and SlowConsumer when nothing was taken for
        too long.
        """
        inbox = self._inbox
        self.takes += 1
        self.has_skipped = False
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
            item = inbox.pop_oldest()
            if isinstance(item, StateMark):
                self._state.reach(item, self._hand_in)
                continue
            if isinstance(item, Delivery):
                self._taken_messages += item.batch.count
                if self._reported_bytes - inbox.backlog_bytes.now >= self._report_step_bytes:
                    self._report_backlog()
            return item

    @property
    def is_awaited(self) -> bool:
        """Whether others wait until something is taken: senders for credit, or a joiner for its state."""
        return self._reported_bytes > self._backlog_bytes_max or self._state.is_awaited

    @property
    def is_over(self) -> bool:
        """Whether senders get no credit because the application does not take items that it could take."""
        return self._reported_bytes > self._backlog_bytes_max and not self._state.withheld

    def waits_for(self, task: trio.lowlevel.Task) -> bool:
        """Whether this task is the one that has to take, so that it must not wait for credit itself."""
        return task is self._taker and self.is_awaited

    def refresh(self) -> None:
        """Wake readers if there is something to take, and report a backlog that has grown."""
        if self._inbox:
            self._readers.unpark_all()
        if self._inbox.backlog_bytes.now - self._reported_bytes >= self._report_step_bytes:
            self._report_backlog()

    def _report_backlog(self) -> None:
        """Tell flow control the backlog, so that senders slow down or go on."""
        self._reported_bytes = self._inbox.backlog_bytes.now
        self._hand_in(Credit(self._reported_bytes))

    def abandon(self, failure: LocalError | None = None) -> None:
        """Drop the inbox and everything put into it later, so that nothing counts as backlog and senders go on.

        `failure`: the error for a task that still tries to take.
        """
        self._failure = self._failure or failure
        self._inbox.abandon()
        self._report_backlog()

    def skip(self) -> None:
        """Put gaps in the place of what waits, so that senders go on."""
        self.has_skipped = True
        for batch in self._inbox.skip():
            self._note_skipped(batch)
        self._report_backlog()

    def close(self) -> None:
        """End the iteration after the items that are in the inbox: no more will come."""
        self._closed = True
        self._readers.unpark_all()


class BacklogGuard:
    """Ends the wait of a site for an application that reads nothing, after a bounded time.

    Credit ends with the backlog, so one such application holds up every sender of its site, and messages of other sites. With
    the policy `exclude` its member leaves; with `gap` it stays, and the backlog becomes a gap; with `slow` all wait. The guard
    polls, so that a read costs no more than being counted.
    """

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
