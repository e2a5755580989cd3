"""The one task of a channel: it waits until there is something to do, and runs the turn loop (`stack/turn.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from sitestack.journal.recorder import Recorder
from sitestack.model.events import Event, ShellEffect
from sitestack.model.frame import Frame
from sitestack.stack.stack import Datagram, Stack
from sitestack.stack.turn import Shell, TurnLoop
from sitestack.transport import Transport

#: Least time in seconds between two records of the drop counters in the journal.
DROPS_INTERVAL_S = 1.0


#: Seconds after which a turn takes in no further datagram: several times what a busy turn takes, and much shorter than the time
#: between two heartbeats.
TURN_S_MAX = 0.05


def _is_late(began: float) -> bool:
    return trio.current_time() > began + TURN_S_MAX


@dataclass(frozen=True, slots=True)
class DriverStatistics:
    """Counters of turns and datagrams since the start."""

    turns: int
    #: Turns that began because a timer was due or the application sent something, without waiting for a datagram.
    eager_turns: int
    received_datagrams: int
    sent_datagrams: int
    #: The most datagrams that one turn took in.
    received_datagrams_high: int


class Driver:
    """Runs a stack over a transport until the member has left.

    It journals and transmits; the channel does the rest of a turn.
    """

    def __init__(
        self,
        stack: Stack,
        transport: Transport,
        recorder: Recorder | None,
        act: Callable[[Sequence[ShellEffect]], None],
        hand_over: Callable[[Sequence[Event | Frame]], None],
    ) -> None:
        self.stack = stack
        self.transport = transport
        self.left = False
        #: Whether the others have answered its leave, that is, gone on without this member before it left.
        self.answered = True
        self._loop = TurnLoop(stack, Shell(self._journal, self._transmit, act, hand_over), _is_late)
        self._recorder = recorder
        #: Whether the next turn begins without a sleep.
        self.awake = True
        self._nap: trio.CancelScope | None = None
        self._drops_due = -math.inf
        self._turns = self._eager = self._received = self._sent = self._received_high = 0

    async def run(self) -> None:
        """Run turn after turn, until this member has left."""
        while not self.left:
            await self._wait()
            self.turn(trio.current_time())

    def wake(self) -> None:
        """Begin the next turn without a sleep, for input that the transport does not know of."""
        if not self.awake:
            self.awake = True
            if self._nap is not None:
                self._nap.cancel()

    def end(self, answered: bool) -> None:
        """Make this turn the last one: the member has left."""
        self.left, self.answered = True, answered

    async def _wait(self) -> None:
        """Wait for a datagram, a deadline or a call of `wake`; always a checkpoint, so that the application gets its time.

        The checkpoint comes first: an application that was just given something often sends at once, and to cancel a sleep
        costs more.
        """
        await trio.lowlevel.checkpoint()
        due = self._loop.due
        if self.awake or (due is not None and due <= trio.current_time()):
            self._eager += 1
            return
        with trio.CancelScope(deadline=math.inf if due is None else due) as self._nap:
            await self.transport.wait()
        self._nap = None

    def turn(self, now: float) -> None:
        """Run one turn, without waiting; none when there is nothing to do.

        What woke this member may have been nothing: its own multicast that came back, or what the transport has refused.
        """
        was_awake, self.awake = self.awake, False
        # What a turn had no time for comes first; more waits in the sockets, and the kernel drops what they cannot hold.
        arrived = [] if self._loop.is_behind else self.transport.receive()
        if not (arrived or was_awake or self._loop.is_due(now)):
            return
        self._loop.turn(arrived, now)
        if self._recorder is not None and now >= self._drops_due:
            self._drops_due = now + DROPS_INTERVAL_S
            self._recorder.drops(self.stack.drops)
        self._turns += 1
        self._received += len(arrived)
        self._received_high = max(self._received_high, len(arrived))

    def _journal(self, events: Sequence[Event | Frame]) -> None:
        if self._recorder is not None:
            for event in events:
                self._recorder.record(event)

    def _transmit(self, datagrams: Sequence[Datagram]) -> None:
        if datagrams:
            self.transport.send(datagrams)
            self._sent += len(datagrams)

    def statistics(self) -> DriverStatistics:
        return DriverStatistics(self._turns, self._eager, self._received, self._sent, self._received_high)
