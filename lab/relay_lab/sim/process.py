"""One simulated process: a stack, its socket, its clock and its journal.

It runs the same turns as a node (`stack/turn.py`), one for all events of a tick. A script can kill it
between two steps of a turn or two datagrams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from relay_lab.sim.network import Network
from relay_lab.sim.network_faults import network_of
from relay_lab.sim.schedule import Schedule
from relay_lab.sim.spans import Spans
from sitestack.journal import records
from sitestack.journal.recorder import NO_EVENTS, EventRecords, Recorder
from sitestack.layers.batching import Batching
from sitestack.model.address import Physical
from sitestack.model.errors import LocalError
from sitestack.model.events import Blocked, Connect, Disconnect, Event, Gone, Left, ShellEffect, ViewInstalled, WatchAt
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.stack.layer import Local
from sitestack.stack.stack import Datagram, Stack
from sitestack.stack.turn import Shell, Step, TurnLoop

T = TypeVar("T")
Handlers = Mapping[type[Event], Callable[[Any], None]]

#: Datagrams that the socket of a paused process keeps; more are lost.
SOCKET_DATAGRAMS_MAX = 200


class Process:
    def __init__(
        self,
        local: Local,
        stack: Stack,
        physical: Physical,
        schedule: Schedule,
        network: Network,
        seed: int,
        total_order: bool,
        *,
        handlers: Handlers = MappingProxyType({}),
        event_records: EventRecords = NO_EVENTS,
        more: tuple[Physical, ...] = (),
    ) -> None:
        """`handlers` and `event_records`: of another package's layers. `more`: a second interface, as of `SeveralUdp`."""
        self.local = local
        self.stack = stack
        self.physical, self.interfaces = physical, (physical, *more)
        self.schedule = schedule
        self.network = network
        self.alive, self.left = True, False
        self.view: View | None = None
        self.blocked = Spans()
        self.paused = Spans()
        #: When its view was not primary.
        self.minor = Spans()
        #: When its application had no state yet, and so read nothing.
        self.withheld = Spans()
        #: Multicasts to all wait, as in a channel.
        self.held_back = False
        self.events: list[Event | Frame] = []
        self.records: list[records.Record] = []
        self.recorder = Recorder(
            local.site,
            local.address,
            self.records.append,
            lambda: (int(schedule.now * 1e9), int(schedule.now * 1e9)),
            total_order=total_order,
            event_records=event_records,
        )
        self.recorder.record_start(local.name, 0, int(schedule.now * 1e9), "sim", seed)
        #: If set, the process dies after sending this many more datagrams.
        self.dies_after: int | None = None
        #: Called before each step of a turn that has something to do, with that: whether the process dies there.
        self.dies_before: Callable[[Step, Sequence[object]], bool] = lambda step, what: False
        #: Called with every event when it is recorded and every effect when it is carried out; it may kill the process, and
        #: then nothing else happens.
        self.on_event: Callable[[Event | Frame], None] = lambda event: None
        own: Handlers = {Blocked: self._block, ViewInstalled: self._install, WatchAt: self._watch, Left: self._end}
        self._handlers: Handlers = {**own, **handlers}
        self._loop = TurnLoop(
            stack,
            Shell(
                self._step("journal", self._journal),
                self._step("transmit", self._transmit),
                self._step("act", self._act),
                self._step("hand_over", self._hand_over),
            ),
        )
        self._dirty = False
        self._wake: float | None = None
        self._was_blocked = False
        #: Datagrams that no turn has taken yet; and other events that happened while the process was paused.
        self._arrived: list[tuple[bytes, Physical]] = []
        self._missed: list[Event] = []
        top = stack.layers[0]
        assert isinstance(top, Batching)
        self.batching = top

    @property
    def is_paused(self) -> bool:
        return self.paused.since is not None

    def start(self) -> None:
        for place in self.interfaces:
            self.network.attach(place, self.local.site, self.local.address, self.receive)
        self.stack.down(Connect(self.interfaces), self.schedule.now)
        self.touch()

    def send(self, payload: bytes, scope: Scope = Scope.ALL, target: object = None) -> bool:
        """Send one message; False when it is refused or there is no credit, as `Channel.send` would have waited."""
        if not self.alive or self.left or not self.batching.writable or (self.held_back and scope is Scope.ALL):
            return False
        if target in self.batching.full_targets:
            return False
        try:
            self.batching.append(payload, scope, target)  # type: ignore[arg-type]
        except LocalError as error:
            self.recorder.reject(type(error).__name__)
            return False
        self.touch()
        return True

    def leave(self) -> None:
        self.stack.down(Disconnect(), self.schedule.now)
        self.touch()

    def kill(self) -> None:
        self.alive = False
        self.blocked.end(self.schedule.now)
        self.paused.end(self.schedule.now)
        for place in self.interfaces:
            self.network.detach(place, self.receive)

    def move(self, to: Physical) -> None:
        """Move to another address, as when a network interface fails over."""
        self.network.move(self.physical, to, self.local.site, self.local.address, self.receive)
        self.physical, self.interfaces = to, (to, *self.interfaces[1:])
        self.input(Connect(self.interfaces))

    def pause(self) -> None:
        """Stop as by SIGSTOP: nothing runs; packets wait in the socket's buffer, which is finite."""
        if not self.is_paused:
            self.paused.begin(self.schedule.now)
            self._was_blocked = self.blocked.since is not None
            self.blocked.end(self.schedule.now)

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.paused.end(self.schedule.now)
        if self._was_blocked:
            self.blocked.begin(self.schedule.now)
        missed, self._missed = self._missed, []
        for event in missed:
            self.stack.down(event, self.schedule.now)
        self.touch()

    def input(self, event: Event) -> None:
        if self.is_paused:
            self._missed.append(event)
        elif self.alive:
            self.stack.down(event, self.schedule.now)
            self.touch()

    def receive(self, data: bytes, source: Physical) -> None:
        """Store an arriving datagram in the socket's buffer, which is finite."""
        if self.alive and not (self.is_paused and len(self._arrived) >= SOCKET_DATAGRAMS_MAX):
            self._arrived.append((data, source))
            self.touch()

    def touch(self) -> None:
        """Something happened: there is a turn at the end of this tick."""
        if not self._dirty:
            self._dirty = True
            self.schedule.soon(self._turn)

    def _turn(self) -> None:
        self._dirty = False
        if not self.alive or self.is_paused:
            return
        arrived, self._arrived = self._arrived, []
        self._loop.turn(arrived, self.schedule.now)
        self._plan_wake()

    def _plan_wake(self) -> None:
        due = self._loop.due
        if due is None or (self._wake is not None and self._wake <= due):
            return
        self._wake = due
        self.schedule.at(due, lambda: self._woken(due))

    def _woken(self, planned: float) -> None:
        if self._wake != planned:
            return  # superseded
        self._wake = None
        if self._loop.due is not None and self._loop.due > self.schedule.now:
            self._plan_wake()
        else:
            self.touch()

    def _step(self, step: Step, carry_out: Callable[[Sequence[T]], None]) -> Callable[[Sequence[T]], None]:
        """A step that a dead process does not come to."""

        def mortal(what: Sequence[T]) -> None:
            if self.alive and what and self.dies_before(step, what):
                self.kill()
            if self.alive:
                carry_out(what)

        return mortal

    def _journal(self, events: Sequence[Event | Frame]) -> None:
        for event in events:
            self.recorder.record(event)
            self.on_event(event)
            if not self.alive:
                return

    def _transmit(self, datagrams: Sequence[Datagram]) -> None:
        for to, data in datagrams:
            if self.dies_after is not None:
                if self.dies_after == 0:
                    self.kill()
                    return
                self.dies_after -= 1
            for place in self.interfaces:
                if to is None or network_of(place) == network_of(to):
                    self.network.send(place, to, self.local.site, data)

    def _act(self, effects: Sequence[ShellEffect]) -> None:
        for effect in effects:
            self._handle(effect)
            self.on_event(effect)
            if not self.alive:
                return

    def _hand_over(self, events: Sequence[Event | Frame]) -> None:
        for event in events:
            self.events.append(event)
            self._handle(event)

    def _handle(self, event: Event | Frame) -> None:
        if isinstance(event, Event) and (handle := self._handlers.get(type(event))) is not None:
            handle(event)

    def _block(self, event: Blocked) -> None:
        if not event.quarantined:
            self.blocked.begin(self.schedule.now)

    def _install(self, event: ViewInstalled) -> None:
        self.view = event.view
        if event.view.is_primary:
            self.minor.end(self.schedule.now)
        else:
            self.minor.begin(self.schedule.now)
        if event.quarantined or not event.blocked:
            self.blocked.end(self.schedule.now)

    def _watch(self, event: WatchAt) -> None:
        targets = {physical: member for member, physical in event.targets}
        self.network.watch(self.physical, targets, lambda member: self.input(Gone(member)))

    def _end(self, event: Left) -> None:
        """End the process; no step of this turn is left."""
        self.left = True
        self.recorder.record_stop(event.answered)
        self.kill()
