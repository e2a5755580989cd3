"""The one task of a channel: it gives a stack its input and carries out what the stack answers, turn by turn.

A turn takes everything that is there (all datagrams, what the application appended, due timers), lets the stack flush once, and
then journals, sends and delivers. So the more there is to do, the more each turn does, and the less each message costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from sitestack.journal.recorder import Recorder
from sitestack.model.events import Event, Left
from sitestack.model.frame import Frame
from sitestack.stack.stack import Stack
from sitestack.transport import Transport

#: Takes what came out of the stack in one turn, after its datagrams left.
Deliver = Callable[[Sequence[Event | Frame]], None]

#: Counters of refused input go into the journal at most this often.
DROPS_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class DriverStatistics:
    """How the turns go."""

    turns: int
    #: Turns that began because a timer was due or the application sent something, without waiting for a datagram.
    eager_turns: int
    received_datagrams: int
    sent_datagrams: int
    #: The most datagrams that one turn took in.
    received_datagrams_high: int


class Driver:
    """Runs a stack over a transport until the member has left."""

    def __init__(self, stack: Stack, transport: Transport, deliver: Deliver, recorder: Recorder | None) -> None:
        self.stack = stack
        self.transport = transport
        self.left = False
        #: Whether the others went on without this member before it left.
        self.answered = True
        self._deliver = deliver
        self._recorder = recorder
        #: No sleep before the next turn.
        self.awake = True
        self._nap: trio.CancelScope | None = None
        self._due: float | None = None
        self._drops_due = -math.inf
        self._turns = self._eager = self._received = self._sent = self._received_high = 0

    async def run(self) -> None:
        """Turn after turn, until this member has left."""
        while not self.left:
            await self._wait()
            self.turn(trio.current_time())

    def wake(self) -> None:
        """There is something to do that the transport does not know of: do not sleep before the next turn."""
        if not self.awake:
            self.awake = True
            if self._nap is not None:
                self._nap.cancel()

    async def _wait(self) -> None:
        """Until a datagram, a deadline or a call of `wake`; always a checkpoint, so that the application gets its time.

        It comes first: who has just been given something often sends at once, and a nap that is broken off costs more.
        """
        await trio.lowlevel.checkpoint()
        if self.awake or (self._due is not None and self._due <= trio.current_time()):
            self._eager += 1
            return
        with trio.CancelScope(deadline=math.inf if self._due is None else self._due) as self._nap:
            await self.transport.wait()
        self._nap = None

    def turn(self, now: float) -> None:
        """One turn, without waiting."""
        self.awake = False
        stack = self.stack
        arrived = self.transport.receive()
        for data, source in arrived:
            stack.receive(data, source, now)
        if self._due is not None and self._due <= now:
            stack.expire(now)
        turn = stack.flush(now)
        if self._recorder is not None:
            self._record(self._recorder, turn.events, now)
        if turn.datagrams:
            self.transport.send(turn.datagrams)
        for event in turn.events:
            if isinstance(event, Left):
                self.left, self.answered = True, event.answered
        self._deliver(turn.events)
        self._due = stack.deadline()
        self._turns += 1
        self._received += len(arrived)
        self._sent += len(turn.datagrams)
        self._received_high = max(self._received_high, len(arrived))

    def _record(self, recorder: Recorder, events: Sequence[Event | Frame], now: float) -> None:
        for event in events:
            recorder.record(event)
        if now >= self._drops_due:
            self._drops_due = now + DROPS_INTERVAL_S
            recorder.drops(self.stack.drops)

    def statistics(self) -> DriverStatistics:
        """The counters."""
        return DriverStatistics(self._turns, self._eager, self._received, self._sent, self._received_high)
