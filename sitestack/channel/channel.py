"""The channel: how an application sends to its site, receives from it and sees its members.

`open_channel` is a trio context manager: inside the block the process is a member; leaving the block leaves the site.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args

import trio

from sitestack.channel.driver import Driver, DriverStatistics, require_run
from sitestack.channel.presence.rendezvous import find_rendezvous
from sitestack.channel.presence.residence import Residence
from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.channel.receiving.receive_end import BacklogGuard, ReceiveEnd
from sitestack.channel.receiving.state_handover import SharedState, StateEvent, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.channel.sending.sending import CreditGate, Sending
from sitestack.channel.version import installed_version
from sitestack.config import SiteConfig
from sitestack.journal.recorder import Recorder
from sitestack.layers.batching import Batching
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.errors import (
    ConfigurationError,
    JoinFailed,
    SlowConsumer,
    unwrapped,
)
from sitestack.model.events import (
    Connect,
    Disconnect,
    Event,
    Left,
    OtherParameters,
    ShellEffect,
    ViewInstalled,
    WatchAt,
)
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Message
from sitestack.model.roster import Named, Roster
from sitestack.model.view import View
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.structures.locks import Locks
from sitestack.structures.registry import Structures
from sitestack.transport import Transport
from sitestack.transport.watch import WatchStatistics

if TYPE_CHECKING:
    from typing import Never

    from typing_extensions import TypeVar as TypeVarWithDefault  # of `typing` since Python 3.13

    X_co = TypeVarWithDefault("X_co", covariant=True, default=Never)
else:
    X_co = TypeVar("X_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Extension:
    """Additions of a higher package to a channel whose stack has layers and events of that package."""

    #: Non-blocking handlers by type of event or effect.
    handlers: Mapping[type[Event], Callable[[Any], None]] = field(default_factory=dict)
    #: Events that the application receives, in order with the deliveries.
    shown: frozenset[type[Event]] = frozenset()
    #: Those of them without which the application is not `ready`.
    first: frozenset[type[Event]] = frozenset()
    #: Context entered before this process becomes a member and left afterwards.
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    #: Return the known members of the other sites.
    remote_members: Callable[[], Sequence[ProxyUUID]] = tuple


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """All counters of one member."""

    #: By layer, and the drop counters under "drops".
    stack: dict[str, object]
    driver: DriverStatistics
    transport: object
    #: None if members are not watched.
    watch: WatchStatistics | None


class Channel(Sending, Generic[X_co]):
    """One member's connection to its site. Made by `open_channel`.

    Any number of tasks may send. Only one task should receive: each event reaches one reader.
    `X_co` is the type of the additional events that it yields besides messages, views and gaps.
    Without other sites there are none.
    """

    def __init__(
        self,
        local: Local,
        stack: Stack,
        transport: Transport,
        config: SiteConfig,
        recorder: Recorder | None,
        state: SharedState | None = None,
        extension: Extension | None = None,
    ) -> None:
        super().__init__()
        topmost = stack.layers[0]
        assert isinstance(topmost, Batching)
        #: This member, as it appears in views, as a source, as a target and in answers.
        self.me = self.address = ProxyUUID(local.address, local.site, None, f"{local.name}@{local.site}")
        self.site = local.site
        #: The logical name, for display. It survives a reconnect (LA-2).
        self.name = local.name
        self.config = config
        self.transport = transport
        self.rendezvous = find_rendezvous(local, config, transport)
        self._stack = stack
        self._batching = topmost
        self._append = topmost.append
        self._driver = Driver(stack, transport, recorder, self._handle_all, self._hand_over)
        self._recorder = recorder
        self._extension = extension or Extension()
        self._remote_members = self._extension.remote_members
        owner = f"{local.name} in {local.site}"
        self._residence = Residence(config, transport, local.address, owner, self._hand_in, self._move)
        self._view: View | None = None
        self._named: dict[type[Named], Named] = {}
        self._roster = Roster(local.site)
        self._joined = trio.Event()
        #: The site's parameters, if they prevent this member from joining.
        self._refusal: OtherParameters | None = None
        self._gone = trio.Event()
        self.excluded: SlowConsumer | None = None
        self._leaving = False
        self._inbox: Inbox[Event | View | StateMark] = Inbox()
        self.keys = MessageKeys()
        state_bytes_max = config.protocols.state_transfer.state_bytes_max
        majority = config.membership.when_split == "majority"
        self._state = StateHandover(state, self._inbox, self.keys, self._note_gap, state_bytes_max, majority)
        backlog_bytes_max = config.protocols.flow_control.backlog_bytes_max
        first: set[type[Event | View]] = {View, *self._extension.first}
        self._receive_end = ReceiveEnd(self._inbox, self._state, self._hand_in, backlog_bytes_max, self._note_skipped, first)
        self._gate = CreditGate(self._receive_end.waits_for)
        #: Events without a handler stay inside the stack.
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            ViewInstalled: self._install,
            OtherParameters: self._refuse,
            WatchAt: lambda event: self._residence.watch(event.targets),
            Left: lambda event: self._driver.finish(event.answered),
            **dict.fromkeys(get_args(StateEvent), self._state.handle),
        }
        self.structures = Structures(self._post_structured, self._post_structured_now, stack.count_drop)
        #: None unless the members agree on deliveries even in a split.
        self.locks: Locks | None = None
        if majority and (config.agreement, config.order) == ("uniform", "total"):
            self.locks = Locks(local.address, self.structures, lambda: time.time_ns() // 1_000)
        self._messages: Iterator[Message] = iter(())
        self._burst_messages = self._burst_bytes = 0

    def __aiter__(self) -> AsyncIterator[Message | View | Gap | X_co]:
        """Iterate over single messages, views and gaps in the order of delivery, until the channel closes."""
        require_run()
        return self

    async def __anext__(self) -> Message | View | Gap | X_co:
        for message in self._messages:
            self._receive_end.takes += 1
            return message
        while True:
            item = await anext(self._receive_end)
            if not isinstance(item, Delivery):
                return cast("View | Gap | X_co", item)
            self._messages = item.sound_messages(self._stack.count_drop)
            for message in self._messages:
                return message

    def batches(self) -> AsyncIterator[Delivery | View | Gap | X_co]:
        """Iterate over batches of messages, views and gaps.

        The order is that of iterating the channel. A message costs less time.
        """
        return cast("AsyncIterator[Delivery | View | Gap | X_co]", self._receive_end)

    @property
    def view(self) -> View:
        """The view in force. The application may not have received it yet."""
        assert self._view is not None, "open_channel waits for the first view"
        return self._view

    @property
    def is_coordinator(self) -> bool:
        """Whether this member coordinates its site, by the view in force."""
        return self.view.is_coordinator(self.me)

    @property
    def has_joined(self) -> bool:
        return self._view is not None

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member, as in `Message.sender`, by the newest views.

        For an unknown member, return its address.
        """
        return self._roster.name_of(member)

    def statistics(self) -> ChannelStatistics:
        """Return all counters of the layers, the driver and the transport."""
        watcher = self._residence.watcher
        return ChannelStatistics(
            self._stack.statistics(),
            self._driver.statistics(),
            self.transport.statistics(),
            None if watcher is None else watcher.statistics(),
        )

    def levels(self) -> dict[str, Level]:
        """Return every bounded quantity of this member, and each that is empty at rest, by its
        place.

        Read only. `backlog_bytes` counts delivered bytes that the application has not received yet.
        """
        parts = {"stack": self._stack.levels(), "transport": self.transport.levels()}
        if (watcher := self._residence.watcher) is not None:
            parts["watch"] = watcher.levels()
        levels = {f"{place}.{name}": level for place, part in parts.items() for name, level in part.items()}
        return {**levels, **self._call_levels(), "backlog_bytes": self._inbox.backlog_bytes, "message_keys": self.keys.level()}

    async def ready(self) -> None:
        """Wait until the receiving task has installed the state of the site and received the first view,
        across sites also the first `GlobalView`.

        Raises ChannelClosed, and SlowConsumer after an exclusion.
        """
        await self._receive_end.ready.wait()
        if self._receive_end.missing:
            self._require_open()

    async def leave(self) -> None:
        """Leave the site after the sent messages are delivered, within the configured times.
        Idempotent.

        If it is cancelled or never called, the other members detect the departure like a crash.
        """
        if not self._leaving:
            self._leaving = True
            self._hand_in(Disconnect())
            self._gate.refuse_all()
        await self._gone.wait()

    def _abandon(self) -> None:
        if not self._gone.is_set():
            self._receive_end.abandon()

    def _exclude(self) -> None:
        """Leave because the application has stopped the site for too long: tasks get SlowConsumer."""
        why = f"its application took nothing for {self.config.channel.backlog_hold_s:g} s while the site waited for it"
        self.excluded = SlowConsumer(f"{self.name} in {self.site} has left: {why}")
        self._leaving = True
        self._receive_end.abandon(self.excluded)
        self._hand_in(Disconnect())
        self._gate.refuse_all()

    def _hand_in(self, event: Event) -> None:
        self._stack.down(event, self._driver.now())
        self._driver.wake()

    async def _join(self) -> None:
        """Wait until this member is in a view.

        Raises JoinFailed on timeout, and ConfigurationError if the site runs with other parameters.
        """
        timeout_s = self.config.channel.join_timeout_s
        with trio.move_on_after(timeout_s) as waiting:
            await self._joined.wait()
        if waiting.cancelled_caught:
            raise JoinFailed(f"site {self.site} could not be joined within {timeout_s:g} s")
        if self._refusal is not None:
            theirs, mine = self._refusal, self.config.parameters
            raise ConfigurationError(
                f"{theirs.name} runs the site {self.site} with {theirs.parameters}, this member is configured with {mine}: "
                "it must be the same for all members of a site."
            )

    async def _run(self) -> None:
        """Join, and stay a member until `leave`. On return or error, all waiting tasks are released."""
        if self._recorder is not None:
            self._recorder.record_start(self.name, os.getpid(), time.time_ns(), installed_version())
        try:
            async with self._extension.around():
                await self._serve()
        finally:
            self._leaving = True
            self._gone.set()
            self._end_all_calls()
            for structure in self.structures.each():
                structure.end()
            self._receive_end.close()
            self._gate.refuse_all()
        if self._recorder is not None:
            self._recorder.drops(self._stack.drops)
            self._recorder.record_stop(self._driver.answered)

    async def _serve(self) -> None:
        self._stack.down(Connect(self.transport.physical()), self._driver.now())
        owner = f"{self.name} in {self.site}"
        with unwrapped():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._residence.run, name=f"residence of {owner}")
                guard = BacklogGuard(self._receive_end, self._gate, self.config.channel, self._exclude)
                nursery.start_soon(guard.run, name=f"backlog of {owner}")
                await self._driver.run()
                nursery.cancel_scope.cancel()

    def _handle_all(self, effects: Sequence[ShellEffect]) -> None:
        for effect in effects:
            self._handle(effect)

    def _hand_over(self, events: Sequence[Event | Frame]) -> None:
        inbox, receive_end = self._inbox, self._receive_end
        awaited = receive_end.is_awaited
        for event in events:
            if isinstance(event, Frame):
                batch = event.batch
                if batch is None:
                    continue
                is_silent = self._batching.is_silent(batch)  # asking also discards the mark
                parts = self.keys.unseen(batch) if batch.has_envelopes else (batch,)
                if is_silent:
                    continue
                source = self._roster.show(event.source)
                for part in parts:
                    if not (part.has_envelopes and self._take_internal(source, part)):
                        inbox.put(Delivery(source, part, self._roster))
            else:
                self._handle(event)
        gate = self._gate
        if gate.full_targets != self._batching.full_targets:
            gate.full_targets = self._batching.full_targets
            gate.look_again()
        if gate.is_full and self._batching.writable:
            gate.is_full = False
            gate.look_again()
        receive_end.refresh()
        if receive_end.is_awaited and not awaited:
            gate.look_again()  # a waiting sender may be the task that receives

    def _know_by_name(self, view: Named) -> None:
        self._named[type(view)] = view
        self._roster = Roster(self.site, self._named.values())

    def _handle(self, event: Event) -> None:
        for handlers in (self._handlers, self._extension.handlers):
            if (handle := handlers.get(type(event))) is not None:
                handle(event)
        if isinstance(event, Gap):
            self._note_gap(event)
            for structure in self.structures.each():
                structure.note_gap(event)
        if isinstance(event, Gap) or type(event) in self._extension.shown:
            self._inbox.put(event)

    def _install(self, event: ViewInstalled) -> None:
        self._view = view = event.view.at_site(self.site)
        self._know_by_name(view)
        self._gate.is_refusing = not view.is_primary
        if self._gate.is_refusing:
            self._gate.look_again()
        self._state.mark(view.id)
        self._inbox.put(view)
        self._joined.set()
        for structure in self.structures.each():
            structure.view_changed(view)
        self._note_members()

    def _refuse(self, event: OtherParameters) -> None:
        if self._view is None:
            self._refusal = event
            self._joined.set()

    def _move(self, places: tuple[Physical, ...]) -> None:
        if self.rendezvous is not None:
            self.rendezvous.links.move(places)
        self._hand_in(Connect(places))
