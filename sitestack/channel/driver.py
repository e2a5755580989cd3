"""The one task of a channel: it waits until there is something to do, and runs the turn loop (`stack/turn.py`).

A member is idle or streams. Idle, it answers at once: the turn for a `send` is run inside `send`, and after a turn for a
datagram it waits for the next one without giving way first. Streaming, it lets everything else run before each turn, so that
as much as possible comes together in it: what a message costs depends on that (decision 20).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from sitestack.journal.recorder import Recorder
from sitestack.model.address import Physical
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


#: Two inputs from outside the transport within so many seconds are the beginning of a stream: much less than a round trip
#: takes, and much more than the application needs between two messages of a burst.
STREAM_GAP_S = 0.0001
#: So many bytes in one turn, in or out, are a stream, and so many datagrams in. A round trip brings one to three of some
#: hundred bytes.
STREAM_BYTES = 8 * 1024
STREAM_DATAGRAMS = 8
#: Turns for which a stream is taken to last: turns and not seconds, as on a busy machine a turn takes as long as it may.
STREAM_TURNS = 16


def _is_late(began: float) -> bool:
    return trio.current_time() > began + TURN_S_MAX


@dataclass(frozen=True, slots=True)
class DriverStatistics:
    """Counters of turns and datagrams since the start."""

    turns: int
    #: Turns that began because a timer was due or the application sent something, without waiting for a datagram.
    eager_turns: int
    #: Those of them that ran at once, inside `send`.
    immediate_turns: int
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
        #: The scope of the sleep; None while there is none. It lasts for many turns while this member is idle.
        self._nap: trio.CancelScope | None = None
        self._in_turn = False
        self._input_at = -math.inf
        #: Turns for which this member still streams.
        self._streaming = 0
        self._turn_bytes = 0
        #: What a turn outside of this task has raised, for this task to raise.
        self._failure: BaseException | None = None
        self._drops_due = -math.inf
        self._turns = self._eager = self._immediate = self._received = self._sent = self._received_high = 0

    async def run(self) -> None:
        """Run turn after turn, until this member has left.

        There is a checkpoint before each turn that no sleep came before, so that the application gets its time. It comes first:
        an application that was just given something often sends at once, and to cancel a sleep costs more.
        """
        while not self.left:
            await trio.lowlevel.checkpoint()
            if self.awake or self._loop.is_due(trio.current_time()):
                self._eager += 1
            else:
                await self._sleep()
            if self._failure is not None:
                raise self._failure
            if not self.left:
                self.turn(trio.current_time())

    async def _sleep(self) -> None:
        """Sleep until a turn is to begin. An idle member runs the turn for each datagram here, and sleeps on."""
        due = self._loop.due
        with trio.CancelScope(deadline=math.inf if due is None else due) as self._nap:
            try:
                while not (self.left or self.awake):
                    await self.transport.wait()
                    now = trio.current_time()
                    if self._streaming:
                        break
                    self.turn(now)
                    self._sleep_less(now)
            finally:
                self._nap = None

    def _sleep_less(self, now: float) -> None:
        """End the sleep when the last turn wants; a sleep that ends too early costs less than to put its end off every turn."""
        nap, due = self._nap, self._loop.due
        if nap is None or due is None:
            return
        if due <= now:
            self.wake()
        elif due < nap.deadline:
            nap.deadline = due

    def wake(self) -> None:
        """Begin the next turn without a sleep, for input that the transport does not know of."""
        if not self.awake:
            self.awake = True
            if self._nap is not None:
                self._nap.cancel()

    def hurry(self) -> None:
        """Run the turn for such input now, in the task that calls, if this member is idle; else `wake`.

        What the turn raises is raised by the task of the channel: the input was accepted. Must not be called in the middle of
        something that a turn does as well: what comes of the turn is handed over inside this call.
        """
        now = trio.current_time()
        if now < self._input_at + STREAM_GAP_S:
            self._streaming = STREAM_TURNS
        self._input_at = now
        if self._nap is None or self._in_turn or self.awake or self._streaming:
            self.wake()
            return
        self._eager += 1
        self._immediate += 1
        try:
            self._run((), now)
        except BaseException as failure:
            self._failure = failure
            self.wake()
            return
        if self.left:
            self._nap.cancel()
        self._sleep_less(now)

    def finish(self, answered: bool) -> None:
        """Make this turn the last one: the member has left."""
        self.left, self.answered = True, answered

    def turn(self, now: float) -> None:
        """Run one turn, without waiting; none when there is nothing to do.

        What woke this member may have been nothing: its own multicast that came back, or what the transport has refused.
        """
        was_awake, self.awake = self.awake, False
        # What a turn had no time for comes first; more waits in the sockets, and the kernel drops what they cannot hold.
        arrived = [] if self._loop.is_behind else self.transport.receive()
        if not (arrived or was_awake or self._loop.is_due(now)):
            return
        self._run(arrived, now)

    def _run(self, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        self._in_turn, self._turn_bytes = True, sum([len(data) for data, _ in arrived])
        self._loop.turn(arrived, now)
        self._in_turn = False
        if len(arrived) >= STREAM_DATAGRAMS or self._turn_bytes >= STREAM_BYTES:
            self._streaming = STREAM_TURNS
        elif self._streaming:
            self._streaming -= 1
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
            self._turn_bytes += sum([len(data) for _, data in datagrams])

    def statistics(self) -> DriverStatistics:
        return DriverStatistics(self._turns, self._eager, self._immediate, self._received, self._sent, self._received_high)
