"""The channel: how an application sends to its site, receives from it and sees who is in it.

`open_channel` is a trio context manager: inside the block the process is a member; leaving the block leaves the site.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal, TypeVar

import trio

from sitestack.address import Address
from sitestack.assembly import build_stack
from sitestack.config import SiteConfig, find_problems
from sitestack.driver import Driver, DriverStatistics
from sitestack.errors import ConfigurationError, JoinFailed, LocalError, ProtocolError
from sitestack.events import Connect, Credit, Disconnect, Event, ViewInstalled
from sitestack.frame import Frame
from sitestack.inbox import Delivery, Inbox
from sitestack.layer import Local
from sitestack.layers.batching import Batching
from sitestack.message import Message, Scope
from sitestack.recorder import Recorder, Write
from sitestack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.names import resolve
from sitestack.transport.udp import UdpTransport
from sitestack.view import View

#: `send` gives the other tasks a turn after this many messages or bytes: often enough to keep sending steady, and seldom
#: enough that batches fill.
BURST_MESSAGES = 64
BURST_BYTES = 16 * 1024
#: Taking from a full inbox gives the other tasks a turn after this many messages.
TAKE_MESSAGES = 256

_SCOPES = {"all": Scope.ALL, "site": Scope.SITE}


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """All numbers of one member."""

    #: By layer, and the drop counters under "drops".
    stack: dict[str, object]
    driver: DriverStatistics
    transport: object
    #: Bytes that were delivered and that the application has not taken.
    backlog_bytes: int
    backlog_bytes_high: int


class Channel:
    """One member's end of the site. Made by `open_channel`.

    Any number of tasks may send. Events go to whoever asks first, so that one task should receive.
    """

    def __init__(self, local: Local, stack: Stack, transport: Transport, config: SiteConfig, recorder: Recorder | None) -> None:
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
        #: No credit: whoever wants to send waits.
        self._full = False
        self._driver = Driver(stack, transport, self._take_turn, recorder)
        self._recorder = recorder
        self._view: View | None = None
        self._joined = trio.Event()
        self._gone = trio.Event()
        self._leaving = False
        self._inbox: Inbox[Event | View] = Inbox()
        self._messages: Iterator[Message] = iter(())
        self._readers = trio.lowlevel.ParkingLot()
        self._writers = trio.lowlevel.ParkingLot()
        self._burst_messages = self._burst_bytes = self._taken_messages = 0
        self._reported_bytes = 0
        self._report_step_bytes = max(1, config.protocols.flow_control.backlog_bytes_max // 8)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def send(self, payload: bytes, scope: Literal["all", "site"] = "all", target: Address | None = None) -> None:
        """Send to everybody, to this site, or to one member. Returns when the message is accepted.

        It waits only while this member has no credit, and is a checkpoint once in `BURST_MESSAGES` messages or `BURST_BYTES`.
        Raises MessageTooLarge, ChannelClosed; then nothing was sent.
        """
        while self._full and not self._leaving:
            await self._writers.park()
        try:
            self._full = not self._append(payload, _SCOPES[scope] if target is None else Scope.UNICAST, target)
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
        while not self._inbox:
            if self._gone.is_set():
                raise StopAsyncIteration
            self._taken_messages = 0
            await self._readers.park()
        item = self._inbox.take()
        if isinstance(item, Delivery):
            self._taken_messages += item.batch.count
            if self._reported_bytes - self._inbox.backlog_bytes >= self._report_step_bytes:
                self._report_backlog()
        return item

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
        driver = self._driver
        if self._recorder is not None:
            self._recorder.start(self.name, os.getpid(), time.time_ns(), _version())
        driver.stack.down(Connect(self.transport.physical()), trio.current_time())
        try:
            await driver.run()
        finally:
            self._leaving = True
            self._gone.set()
            self._readers.unpark_all()
            self._writers.unpark_all()
        if self._recorder is not None:
            self._recorder.drops(self._stack.drops)
            self._recorder.stop("left")

    def _take_turn(self, events: Sequence[Event | Frame]) -> None:
        """What came out of the stack in one turn goes to the application."""
        inbox = self._inbox
        for event in events:
            if isinstance(event, Frame):
                if event.batch is not None:
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
            self._inbox.put(event.view)
            self._joined.set()

    def _report_backlog(self) -> None:
        """Tell flow control, in steps, what the application has not taken: the senders are to slow down, or may go on."""
        self._reported_bytes = self._inbox.backlog_bytes
        self._stack.down(Credit(self._reported_bytes), trio.current_time())
        self._driver.wake()


class _Batches:
    """An iterator and not a generator, so that leaving a loop early leaves nothing to be closed."""

    def __init__(self, take: Callable[[], Awaitable[Delivery | View | Event]]) -> None:
        self._take = take

    def __aiter__(self) -> AsyncIterator[Delivery | View | Event]:
        return self

    async def __anext__(self) -> Delivery | View | Event:
        return await self._take()


C = TypeVar("C", bound=Channel)
S = TypeVar("S", bound=SiteConfig)
#: Makes the sink of a journal for this member.
Journal = Callable[[Local], Write]


@asynccontextmanager
async def open_channel(
    config: SiteConfig, *, name: str = "", journal: Journal | None = None, transport: Transport | None = None
) -> AsyncIterator[Channel]:
    """Be a member of a site: `async with open_channel(config, name="B") as channel`.

    The block begins with the first view. `journal` is asked for a sink of records once it is clear who this member is;
    `transport` replaces UDP in tests. Raises ConfigurationError, and JoinFailed when there is no view in time.
    """
    require_sound(find_problems(config))
    config = await resolve_seeds(config)
    local = make_local(config.site, name)
    recorder = None if journal is None else Recorder(local.site, local.address, journal(local), read_clocks, keep_payloads=True)
    stack = build_stack(local, config)
    carrier = transport or UdpTransport(config.transport, config.transport.group(config.site))
    async with member(Channel(local, stack, carrier, config, recorder)) as channel:
        yield channel


def require_sound(problems: Sequence[str]) -> None:
    """Raise ConfigurationError with all problems, a line each."""
    if problems:
        raise ConfigurationError("\n".join(problems))


async def resolve_seeds(config: S) -> S:
    """The same with addresses instead of names: nothing is looked up once the member runs."""
    seeds = await resolve(config.discovery.seeds, config.channel.resolve_timeout_s)
    return replace(config, discovery=replace(config.discovery, seeds=seeds))


def make_local(site: str, name: str) -> Local:
    """Who this member is: a fresh UUID for every connect (LA-3), and a name, generated when none is given (LA-2)."""
    rng = random.Random(random.SystemRandom().getrandbits(256))
    return Local(site, Address.make(rng), name or f"{socket.gethostname()}-{rng.getrandbits(16):04x}", rng)


def _version() -> str:
    try:
        return metadata.version("relay")
    except metadata.PackageNotFoundError:
        return "not installed"


def read_clocks() -> tuple[int, int]:
    """The clocks of the journal."""
    return time.monotonic_ns(), time.time_ns()


@asynccontextmanager
async def member(channel: C) -> AsyncIterator[C]:
    """Run a channel: joined inside the block, left after it. Cancelling it leaves no task and no socket."""
    alone: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run, name=f"channel of {channel.name} in {channel.site}")
            await channel.join()
            try:
                yield channel
            finally:
                await channel.leave()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    finally:
        channel.transport.close()
    if alone is not None:
        raise alone  # what the block raised, not wrapped: that a nursery is inside is nobody's business
