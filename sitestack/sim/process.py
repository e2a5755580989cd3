"""One simulated process: a stack, its socket, its clock and its journal.

It does what the trio shell does, turn by turn: everything that arrives within a tick, then what is due, then the flush; events
are recorded before datagrams leave. A process can be killed at any effect: in the middle of the datagrams of a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sitestack.journal import records
from sitestack.journal.recorder import Recorder
from sitestack.layers.batching import Batching
from sitestack.model.address import Physical
from sitestack.model.errors import LocalError
from sitestack.model.events import Connect, Disconnect, Event, Gone, Left, ViewInstalled, WatchAt
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.sim.network import Network
from sitestack.sim.schedule import Schedule
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack, Turn


class Process:
    """A member of one site in a simulated world."""

    recorder_class: ClassVar[type[Recorder]] = Recorder

    def __init__(
        self, local: Local, stack: Stack, physical: Physical, schedule: Schedule, network: Network, seed: int, total_order: bool
    ) -> None:
        self.local = local
        self.stack = stack
        self.physical = physical
        self.schedule = schedule
        self.network = network
        self.alive = True
        self.left = False
        self.view: View | None = None
        self.events: list[Event | Frame] = []
        #: What this process's journal holds.
        self.records: list[records.Record] = []
        self.recorder = self.recorder_class(
            local.site, local.address, self.records.append, self._clock, total_order=total_order
        )
        self.recorder.start(local.name, 0, int(schedule.now * 1e9), "sim", seed)
        #: Set to die after this many further datagrams: "at any effect".
        self.dies_after: int | None = None
        #: Told of everything that comes out, at its place: whoever listens may kill the process before anything else happens.
        self.on_event: Callable[[Event | Frame], None] = lambda event: None
        self._dirty = False
        self._wake: float | None = None
        self._paused = False
        self._missed: list[Event | tuple[bytes, Physical]] = []
        top = stack.layers[0]
        assert isinstance(top, Batching)
        self.batching = top

    def _clock(self) -> tuple[int, int]:
        now = int(self.schedule.now * 1e9)
        return now, now

    # -- what others do to it --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the socket and look for the others."""
        self.network.attach(self.physical, self.local.site, self.local.address, self.receive)
        self.stack.down(Connect((self.physical,)), self.schedule.now)
        self.touch()

    def send(self, payload: bytes, scope: Scope = Scope.ALL, target: object = None) -> bool:
        """Send one message; False when it is refused or there is no credit, as `Channel.send` would have waited."""
        if not self.alive or self.left or not self.batching.writable:
            return False
        try:
            self.batching.append(payload, scope, target)  # type: ignore[arg-type]
        except LocalError as error:
            self.recorder.reject(type(error).__name__)
            return False
        self.touch()
        return True

    def leave(self) -> None:
        """Leave gracefully."""
        self.stack.down(Disconnect(), self.schedule.now)
        self.touch()

    def kill(self) -> None:
        """Gone, as by kill -9."""
        self.alive = False
        self.network.detach(self.physical, self.receive)

    def move(self, to: Physical) -> None:
        """Go on at another address, as when a network interface fails over."""
        self.network.move(self.physical, to, self.local.site, self.local.address, self.receive)
        self.physical = to
        self.input(Connect((to,)))

    def pause(self) -> None:
        """SIGSTOP: nothing runs; what arrives waits in the socket's buffer, which is finite."""
        self._paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if not self._paused:
            return
        self._paused = False
        missed, self._missed = self._missed, []
        for each in missed:
            if isinstance(each, Event):
                self.stack.down(each, self.schedule.now)
            else:
                self.stack.receive(*each, self.schedule.now)
        self.touch()

    def input(self, event: Event) -> None:
        """Something happened that is told to the stack from above: about a connection, for instance."""
        if self._paused:
            self._missed.append(event)
        elif self.alive:
            self.stack.down(event, self.schedule.now)
            self.touch()

    # -- turns -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, source: Physical) -> None:
        """A datagram arrives."""
        if not self.alive:
            return
        if self._paused:
            if len(self._missed) < 200:
                self._missed.append((data, source))
            return
        self.stack.receive(data, source, self.schedule.now)
        self.touch()

    def touch(self) -> None:
        """Something happened: there is a turn at the end of this tick."""
        if not self._dirty:
            self._dirty = True
            self.schedule.at(self.schedule.now, self._turn)

    def _turn(self) -> None:
        self._dirty = False
        if not self.alive or self._paused:
            return
        now = self.schedule.now
        due = self.stack.deadline()
        if due is not None and due <= now:
            self.stack.expire(now)
        self._carry_out_turn(self.stack.flush(now))
        self._plan_wake()

    def _plan_wake(self) -> None:
        due = self.stack.deadline()
        if due is None or (self._wake is not None and self._wake <= due):
            return
        self._wake = due
        self.schedule.at(due, lambda: self._woken(due))

    def _woken(self, planned: float) -> None:
        if self._wake == planned:
            self._wake = None
        self.touch()

    def _carry_out_turn(self, turn: Turn) -> None:
        """Record and show the events, then send the datagrams."""
        for event in turn.events:
            self.recorder.record(event)
            self.handle(event)
            self.on_event(event)
            if not self.alive and not self.left:
                return
        for to, data in turn.datagrams:
            if self.dies_after is not None:
                if self.dies_after == 0:
                    self.kill()
                    return
                self.dies_after -= 1
            self.network.send(self.physical, to, self.local.site, data)

    def handle(self, event: Event | Frame) -> None:
        """What an application would see."""
        if isinstance(event, ViewInstalled):
            self.view = event.view
        elif isinstance(event, WatchAt):
            targets = {physical: member for member, physical in event.targets}
            self.network.watch(self.physical, targets, lambda member: self.input(Gone(member)))
        elif isinstance(event, Left):
            self.left = True
            self.recorder.stop(event.answered)
            self.kill()
        self.events.append(event)
