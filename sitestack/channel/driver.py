"""The one task of a channel: it sleeps until there is work, and runs the turn loop (`stack/turn.py`).

An idle member responds at once: `send` runs its turn itself. A streaming member runs all other
tasks before each turn, for larger turns (decision 20).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from sitestack.journal.recorder import Recorder
from sitestack.model.address import Physical
from sitestack.model.errors import LocalError
from sitestack.model.events import Event, ShellEffect
from sitestack.model.frame import Frame
from sitestack.stack.stack import Datagram, Stack
from sitestack.stack.turn import Shell, TurnLoop
from sitestack.transport import Transport
from sitestack.transport.clock import StackClock

#: Minimum seconds between two records of the drop counters in the journal.
DROPS_INTERVAL_S = 1.0
#: Seconds after which a turn accepts no further datagram: much less than a heartbeat interval.
TURN_S_MAX = 0.05


#: Two inputs from outside the transport within this time (s) begin a stream.
STREAM_GAP_S = 0.0001
#: Bytes in one turn, in or out, and datagrams in, that indicate a stream.
STREAM_BYTES = 8 * 1024
STREAM_DATAGRAMS = 8
#: Turns for which a stream is assumed to last.
STREAM_TURNS = 16


@dataclass(frozen=True, slots=True)
class DriverStatistics:
    turns: int
    #: Turns that ran at once, inside `send`.
    immediate_turns: int
    sent_datagrams: int


def require_run() -> None:
    """Raise LocalError outside of a trio run, as in a thread or another event loop."""
    if not trio.lowlevel.in_trio_run():
        raise LocalError(
            "this channel is used on trio alone: open it with aio.open_channel on asyncio, blocking.open_channel on threads"
        )


class Driver:
    """Runs a stack over a transport until the member has left."""

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
        #: Whether the other members installed a view without this member before it left.
        self.answered = True
        self._clock = StackClock()
        self.now = self._clock.now
        self._loop = TurnLoop(stack, Shell(self._journal, self._transmit, act, hand_over), self._is_late)
        self._recorder = recorder
        self.awake = True
        #: An idle member keeps it for many turns.
        self._nap: trio.CancelScope | None = None
        self._in_turn = False
        self._input_at = -math.inf
        self._streaming = 0
        self._turn_bytes = 0
        #: Error of a turn run outside of this task.
        self._failure: BaseException | None = None
        self._drops_due = -math.inf
        self._turns = self._immediate = self._sent = 0

    async def run(self) -> None:
        """Run turns until this member has left, each after a sleep or a checkpoint.

        The checkpoint comes first because an application often sends right after a delivery.
        """
        while not self.left:
            await trio.lowlevel.checkpoint()
            if not (self.awake or self._loop.is_due(self.now())):
                await self._sleep()
            if self._failure is not None:
                raise self._failure
            if not self.left:
                self.turn(self.now())

    async def _sleep(self) -> None:
        """Sleep until a turn is due; an idle member runs the turns for datagrams here."""
        due = self._loop.due
        with trio.CancelScope(deadline=math.inf if due is None else self._clock.to_trio(due)) as self._nap:
            try:
                while not (self.left or self.awake):
                    await self.transport.wait()
                    now = self.now()
                    if self._streaming:
                        break
                    self.turn(now)
                    self._sleep_less(now)
            finally:
                self._nap = None

    def _sleep_less(self, now: float) -> None:
        """Shorten the sleep to the due time of the last turn."""
        nap, due = self._nap, self._loop.due
        if nap is None or due is None:
            return
        if due <= now:
            self.wake()
        elif (wake_at := self._clock.to_trio(due)) < nap.deadline:
            nap.deadline = wake_at

    def _is_late(self, began: float) -> bool:
        return trio.current_time() + self._clock.slept_s > began + TURN_S_MAX

    def wake(self) -> None:
        """Begin the next turn without a sleep, for input from outside the transport.

        Raises LocalError outside of the trio run, if this member is idle.
        """
        if not self.awake:
            require_run()
            self.awake = True
            if self._nap is not None:
                self._nap.cancel()

    def hurry(self) -> None:
        """Run the turn for such input now if this member is idle; else `wake`. Raises as `wake`.

        The channel's task raises an error of the turn. Must not be called in the middle of a turn's
        work.
        """
        require_run()
        now = self.now()
        if now < self._input_at + STREAM_GAP_S:
            self._streaming = STREAM_TURNS
        self._input_at = now
        if self._nap is None or self._in_turn or self.awake or self._streaming:
            self.wake()
            return
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
        self.left, self.answered = True, answered

    def turn(self, now: float) -> None:
        """Run one turn without waiting, or none after a spurious wake-up."""
        was_awake, self.awake = self.awake, False
        # first finish the backlog of the last turn
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
        return DriverStatistics(self._turns, self._immediate, self._sent)
