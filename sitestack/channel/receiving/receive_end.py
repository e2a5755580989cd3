"""The receiving end of a channel, read by the application at its own pace.

It waits for items, lets other tasks run, and reports the backlog to flow control.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection

import trio

from sitestack.channel.driver import require_run
from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark, cost_bytes, stream_of
from sitestack.channel.receiving.state_handover import StateHandover
from sitestack.channel.sending.sending import CreditGate, current_caller
from sitestack.config import ChannelConfig
from sitestack.model.errors import LocalError
from sitestack.model.events import Credit, Event
from sitestack.model.gap import Gap
from sitestack.model.message import Batch
from sitestack.model.view import View

#: Reading from a full inbox has a checkpoint after this many messages: much more than one turn
#: delivers.
TAKE_MESSAGES = 4_096
#: Approximate bytes of items that one `take` removes from the inbox.
TAKE_BYTES = 256 * 1_024
#: Checks of the guard per hold time.
LOOKS = 8


class ReceiveEnd:
    """Iterator of received items, not a generator: leaving a loop early leaves nothing to close."""

    def __init__(
        self,
        inbox: Inbox[Event | View | StateMark],
        state: StateHandover,
        hand_in: Callable[[Event], None],
        backlog_bytes_max: int,
        note_skipped: Callable[[Batch], None],
        first: Collection[type[Event | View]] = (),
    ) -> None:
        """`hand_in` passes the backlog to the stack in steps of an eighth of its bound. `note_skipped`
        is called for each batch that becomes part of a gap.
        """
        self._inbox = inbox
        self._state = state
        self._hand_in = hand_in
        self._note_skipped = note_skipped
        self._backlog_bytes_max = backlog_bytes_max
        self._report_step_bytes = max(1, backlog_bytes_max // 8)
        self._reported_bytes = 0
        self._taken_messages = 0
        #: Also counts single messages: a reader of large batches may be slow.
        self.takes = 0
        #: A silent reader stops senders only once.
        self.has_skipped = False
        self._closed = False
        #: None for a normal end.
        self._failure: LocalError | None = None
        self._readers = trio.lowlevel.ParkingLot()
        #: The task that read last, or the caller that it serves.
        self._taker: object = None
        #: Types of views that the application has not received yet: without any it is `ready`.
        self.missing = set(first)
        self.ready = trio.Event()

    def __aiter__(self) -> AsyncIterator[Delivery | View | Event]:
        require_run()
        return self

    async def __anext__(self) -> Delivery | View | Event:
        """Return the oldest item. Ends when the channel is closed.

        Raises StateTooLarge, StateUnavailable, any error of a state callback, and SlowConsumer if
        nothing was read for too long. Raises trio.BusyResourceError if another task waits here.
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
                if self._readers:
                    raise trio.BusyResourceError("another task is receiving from this channel")
                await self._readers.park()
            if inbox.begins_with_mark:
                mark = inbox.pop_oldest()
                assert isinstance(mark, StateMark)
                self._state.reach(mark, self._hand_in)
                continue
            return self._pop()

    async def take(self) -> list[Delivery | View | Event]:
        """Return the items that are there, at least one, of about `TAKE_BYTES`; none at the end.

        They end before a mark of the state.
        """
        try:
            items = [await anext(self)]
        except StopAsyncIteration:
            return []
        inbox, size = self._inbox, cost_bytes(items[0])
        while size < TAKE_BYTES and inbox and not inbox.begins_with_mark and not self._state.withheld:
            items.append(self._pop())
            size += cost_bytes(items[-1])
        self._taker = current_caller()
        return items

    def _pop(self) -> Delivery | View | Event:
        item = self._inbox.pop_oldest()
        assert not isinstance(item, StateMark)
        if isinstance(item, Delivery):
            self._taken_messages += item.batch.count
            if self._state.counts and item.batch.target is None:
                self._state.count(stream_of(item.batch), item.batch.last)
            if self._reported_bytes - self._inbox.backlog_bytes.now >= self._report_step_bytes:
                self._report_backlog()
        if isinstance(item, Gap):
            self._state.pass_gap(item)
        elif self.missing:
            self.missing.discard(type(item))
            if not self.missing:
                self.ready.set()
        return item

    @property
    def is_awaited(self) -> bool:
        """Whether senders wait for credit, or a joiner for its state, until an item is read."""
        return self._reported_bytes > self._backlog_bytes_max or self._state.is_awaited

    @property
    def is_over(self) -> bool:
        """Whether senders lack credit because the application does not read available items."""
        return self._reported_bytes > self._backlog_bytes_max and not self._state.withheld

    def waits_for(self, caller: object) -> bool:
        """Return whether this task is the reader that others wait for, so that it must not wait for credit itself."""
        return caller is self._taker and self.is_awaited

    def refresh(self) -> None:
        """Wake readers if there are items or a state is awaited, and report a backlog that has grown, or that an installed
        state has reduced.
        """
        if self._inbox or self._state.withheld:
            self._readers.unpark_all()
        if abs(self._inbox.backlog_bytes.now - self._reported_bytes) >= self._report_step_bytes:
            self._report_backlog()

    def _report_backlog(self) -> None:
        self._reported_bytes = self._inbox.backlog_bytes.now
        self._hand_in(Credit(self._reported_bytes))

    def abandon(self, failure: LocalError | None = None) -> None:
        """Drop all present and later items. `failure`: the error for a task that still tries to read."""
        self._failure = self._failure or failure
        self._inbox.abandon()
        self._report_backlog()

    def skip(self) -> None:
        self.has_skipped = True
        self._state.decline(self._hand_in)
        for batch in self._inbox.skip():
            self._note_skipped(batch)
        self._report_backlog()

    def close(self) -> None:
        self._closed = True
        self._readers.unpark_all()
        self.ready.set()


class BacklogGuard:
    """Bounds the time for which a site waits for an application that reads nothing.

    With policy `exclude` its member leaves, with `gap` the backlog becomes a gap, with `slow` all
    senders wait. The guard polls, so that a read only increments a counter.
    """

    def __init__(self, receive_end: ReceiveEnd, gate: CreditGate, config: ChannelConfig, exclude: Callable[[], None]) -> None:
        """`exclude` is called at most once: if nothing was read for the hold time while senders
        waited.

        Time while multicasts to all are held back does not count.
        """
        self._receive_end = receive_end
        self._gate = gate
        self._policy = config.backlog_policy
        self._hold_s = config.backlog_hold_s
        self._exclude = exclude

    async def run(self) -> None:
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
