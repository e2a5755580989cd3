"""The channel: how an application sends to its site, receives from it and sees who is in it.

`open_channel` is a trio context manager: inside the block the process is a member; leaving the block leaves the site.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

import trio

from sitestack.address import Address, Physical
from sitestack.config import SiteConfig
from sitestack.driver import Driver, DriverStatistics
from sitestack.errors import ChannelClosed, JoinFailed, LocalError, ProtocolError, StateTooLarge, unwrapped
from sitestack.events import (
    Connect,
    Credit,
    Disconnect,
    Event,
    GiveState,
    SetSeeds,
    StateArrived,
    StateGiven,
    StateRefused,
    ViewInstalled,
    WatchAt,
)
from sitestack.frame import Frame
from sitestack.inbox import Delivery, Inbox, Mark
from sitestack.layer import Local
from sitestack.layers.batching import Batching
from sitestack.message import Message, Scope
from sitestack.recorder import Recorder
from sitestack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.watch import Watcher, WatchStatistics
from sitestack.view import View, ViewId

#: `send` gives the other tasks a turn after this many messages or bytes: about one full batch. A coordinator that sends closes
#: a batch in each turn, so with a quarter of this its messages cost more than twice as much.
BURST_MESSAGES = 256
BURST_BYTES = 32 * 1024
#: Taking from a full inbox gives the other tasks a turn after this many messages. With about as many as one turn delivers, a
#: reader that is fast enough would fall behind all the same.
TAKE_MESSAGES = 4_096

_SCOPES = {"all": Scope.ALL, "site": Scope.SITE}


@dataclass(frozen=True, slots=True)
class SharedState:
    """How the application gives its state to a joiner and takes that of others. Called in the task that receives."""

    get: Callable[[], bytes]
    set: Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """All numbers of one member."""

    #: By layer, and the drop counters under "drops".
    stack: dict[str, object]
    driver: DriverStatistics
    transport: object
    #: None where members are not watched.
    watch: WatchStatistics | None
    #: Bytes that were delivered and that the application has not taken.
    backlog_bytes: int
    backlog_bytes_high: int


class Channel:
    """One member's end of the site. Made by `open_channel`.

    Any number of tasks may send. Events go to whoever asks first, so that one task should receive.
    """

    def __init__(
        self,
        local: Local,
        stack: Stack,
        transport: Transport,
        config: SiteConfig,
        recorder: Recorder | None,
        state: SharedState | None = None,
    ) -> None:
        topmost = stack.layers[0]
        assert isinstance(topmost, Batching)
        self.address = local.address
        self.site = local.site
        #: The logical name, for people; also after a reconnect the same (LA-2).
        self.name = local.name
        self.config = config
        self.transport = transport
        self._stack = stack
        self._batching = topmost
        self._append = topmost.append
        #: No credit, or no channel any more: whoever wants to send has to wait, or to be told.
        self._full = False
        self._driver = Driver(stack, transport, self._take_turn, recorder)
        self._recorder = recorder
        self._watcher: Watcher | None = None
        self._view: View | None = None
        self._joined = trio.Event()
        self._gone = trio.Event()
        self._leaving = False
        self._inbox: Inbox[Event | View | Mark] = Inbox()
        self._state = state
        #: Nothing is shown to the application before it has its state.
        self._withheld = state is not None
        #: Before which view the state of this member's application is wanted, and what it is to be given before which.
        self._give_at: ViewId | None = None
        self._arrived: StateArrived | None = None
        self._refused: StateRefused | None = None
        self._messages: Iterator[Message] = iter(())
        self._readers = trio.lowlevel.ParkingLot()
        self._writers = trio.lowlevel.ParkingLot()
        self._burst_messages = self._burst_bytes = self._taken_messages = 0
        self._reported_bytes = 0
        self._report_step_bytes = max(1, config.protocols.flow_control.backlog_bytes_max // 8)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def send(
        self,
        payload: bytes,
        scope: Literal["all", "site"] = "all",
        target: Address | None = None,
        *,
        loopback: bool = True,
        oob: bool = False,
    ) -> None:
        """Send to everybody, to this site, or to one member. Returns when the message is accepted.

        A multicast comes back to its sender in its place, unless `loopback` is false; for everybody else it is the same.
        With `oob`, out of band, a message to one member of this site is delivered on arrival, also while others that were sent
        to it before are still missing; it is delivered once like them. One that fits into no datagram keeps its place.
        It waits only while this member has no credit, and is a checkpoint once in `BURST_MESSAGES` messages or `BURST_BYTES`.
        Raises MessageTooLarge, ChannelClosed, and LocalError for `oob` to others than one member of this site; then nothing
        was sent.
        """
        if self._full:
            await self._wait_for_credit()
        kind = _SCOPES[scope] if target is None else Scope.OOB if oob else Scope.UNICAST
        if oob and target is None:
            raise LocalError("only a message to one member can be out of band")
        try:
            self._full = not self._append(payload, kind, target, not loopback)
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        if not self._driver.awake:
            self._driver.wake()
        self._burst_messages += 1
        self._burst_bytes += len(payload)
        if self._burst_messages >= BURST_MESSAGES or self._burst_bytes >= BURST_BYTES:
            self._burst_messages = self._burst_bytes = 0
            await trio.lowlevel.checkpoint()

    async def _wait_for_credit(self) -> None:
        while self._full and not self._leaving:
            await self._writers.park()
        if self._gone.is_set():
            raise ChannelClosed("the channel is closed")

    # -- receiving -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message | View | Event]:
        """Messages one by one, and views, in the order of their delivery; it ends when the channel is closed."""
        return self

    async def __anext__(self) -> Message | View | Event:
        for message in self._messages:
            return message
        while True:
            item = await self._take()
            if not isinstance(item, Delivery):
                return item
            self._messages = item.messages()
            try:
                return next(self._messages)
            except ProtocolError as error:
                self._stack.count_drop(error.reason)

    def batches(self) -> AsyncIterator[Delivery | View | Event]:
        """The same a batch at a time, for those in a hurry."""
        return _Batches(self._take)

    async def _take(self) -> Delivery | View | Event:
        if self._taken_messages >= TAKE_MESSAGES:
            self._taken_messages = 0
            await trio.lowlevel.checkpoint()
        while True:
            while self._withheld or not self._inbox:
                if self._refused is not None:
                    raise StateTooLarge(
                        f"the state has {self._refused.state_bytes} bytes, of {self._refused.state_bytes_max} at most"
                    )
                if self._gone.is_set():
                    raise StopAsyncIteration
                self._taken_messages = 0
                await self._readers.park()
            item = self._inbox.take()
            if isinstance(item, Mark):
                self._pass(item)
                continue
            if isinstance(item, Delivery):
                self._taken_messages += item.batch.count
                if self._reported_bytes - self._inbox.backlog_bytes >= self._report_step_bytes:
                    self._report_backlog()
            return item

    def _pass(self, mark: Mark) -> None:
        """The application has done with all that was before this view: it can take a state, and give it to joiners."""
        assert self._state is not None
        if self._arrived is not None and self._arrived.data is not None and self._arrived.point == mark.view:
            data, self._arrived = self._arrived.data, None
            self._state.set(data)
        if self._give_at == mark.view:
            self._give_at = None
            self._hand_in(StateGiven(mark.view, self._state.get()))

    # -- the member ------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The view in force. It may be ahead of the views that were taken out of the channel."""
        assert self._view is not None, "open_channel waits for the first view"
        return self._view

    def statistics(self) -> ChannelStatistics:
        """All numbers: of the layers, the turns, the transport and the application's backlog."""
        return ChannelStatistics(
            self._stack.statistics(),
            self._driver.statistics(),
            self.transport.statistics(),
            None if self._watcher is None else self._watcher.statistics(),
            self._inbox.backlog_bytes,
            self._inbox.backlog_bytes_high,
        )

    async def leave(self) -> None:
        """Leave the site gracefully: what was sent is delivered first, within the configured times. Idempotent.

        Cancelled or not begun, the member goes as if it had crashed: the others notice by failure detection.
        """
        if not self._leaving:
            self._leaving = True
            self._stack.down(Disconnect(), trio.current_time())
            self._driver.wake()
            self._writers.unpark_all()
        await self._gone.wait()

    def set_seeds(self, seeds: tuple[Physical, ...]) -> None:
        """Members may be found at these addresses now, instead of those in the configuration."""
        self._stack.down(SetSeeds(seeds), trio.current_time())
        self._driver.wake()

    # -- the driver ------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Wait until this member is in a view. Raises JoinFailed."""
        timeout_s = self.config.channel.join_timeout_s
        with trio.move_on_after(timeout_s) as waiting:
            await self._joined.wait()
        if waiting.cancelled_caught:
            raise JoinFailed(f"site {self.site} could not be joined within {timeout_s:g} s")

    async def run(self) -> None:
        """Join, and stay a member until `leave`. However it ends, nobody waits for this channel afterwards."""
        if self._recorder is not None:
            self._recorder.start(self.name, os.getpid(), time.time_ns(), _version())
        try:
            await self._serve()
        finally:
            self._leaving = self._full = True
            self._gone.set()
            self._readers.unpark_all()
            self._writers.unpark_all()
        if self._recorder is not None:
            self._recorder.drops(self._stack.drops)
            self._recorder.stop(self._driver.answered)

    async def _serve(self) -> None:
        self._stack.down(Connect(self.transport.physical()), trio.current_time())
        listener = self.transport.listener()
        with unwrapped():
            async with trio.open_nursery() as nursery:
                if listener is not None:
                    owner = f"{self.name} in {self.site}"
                    self._watcher = Watcher(self.address, owner, listener, self._hand_in, nursery)
                await self._driver.run()
                nursery.cancel_scope.cancel()

    def _hand_in(self, event: Event) -> None:
        """Something happened beside the datagrams."""
        self._stack.down(event, trio.current_time())
        self._driver.wake()

    def _take_turn(self, events: Sequence[Event | Frame]) -> None:
        """What came out of the stack in one turn goes to the application."""
        inbox = self._inbox
        for event in events:
            if isinstance(event, Frame):
                if event.batch is not None and not self._batching.is_silent(event.batch):
                    inbox.put(Delivery(event.source, event.batch))
            else:
                self._handle(event)
        if inbox:
            self._readers.unpark_all()
        if self._full and self._batching.writable:
            self._full = False
            self._writers.unpark_all()
        if inbox.backlog_bytes - self._reported_bytes >= self._report_step_bytes:
            self._report_backlog()

    def _handle(self, event: Event) -> None:
        """One event that is no delivery. Those that only the stack's inside cares about are passed over."""
        if isinstance(event, ViewInstalled):
            self._view = event.view
            if self._state is not None:
                self._inbox.put(Mark(event.view.id))
            self._inbox.put(event.view)
            self._joined.set()
        elif isinstance(event, WatchAt) and self._watcher is not None:
            self._watcher.watch(event.targets)
        elif isinstance(event, GiveState):
            self._give_at = event.point
        elif isinstance(event, StateArrived):
            self._arrived = event
            self._withheld = False
            if event.data is not None:
                self._inbox.restart(Mark(event.point))
        elif isinstance(event, StateRefused):
            self._refused = event

    def _report_backlog(self) -> None:
        """Tell flow control, in steps, what the application has not taken: the senders are to slow down, or may go on."""
        self._reported_bytes = self._inbox.backlog_bytes
        self._hand_in(Credit(self._reported_bytes))


class _Batches:
    """An iterator and not a generator, so that leaving a loop early leaves nothing to be closed."""

    def __init__(self, take: Callable[[], Awaitable[Delivery | View | Event]]) -> None:
        self._take = take

    def __aiter__(self) -> AsyncIterator[Delivery | View | Event]:
        return self

    async def __anext__(self) -> Delivery | View | Event:
        return await self._take()


def _version() -> str:
    try:
        return metadata.version("relay")
    except metadata.PackageNotFoundError:
        return "not installed"
