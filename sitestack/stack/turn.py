"""The turn of a member: its input, and the order in which its outcome is carried out.

The order is decided here and nowhere else (decision 11); trio and the simulator are two `Shell`s that carry it out:

1. `journal`: all events that came out of the stack are recorded. So the journal has the reason for everything that this member
   sends: no message is received whose send is not recorded, and nobody hears of a delivery that is not recorded.
2. `transmit`: the datagrams leave. The own site hears first.
3. `act`: the other effects, such as writes to the bridges. So no other site is told anything that this turn has not told the
   members of this site, one of which takes over when this member dies.
4. `hand_over`: the application is given its events. What it answers belongs to the next turn.

A process can die between any two of these, and within each: then a beginning of this sequence has happened and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sitestack.model.address import Physical
from sitestack.model.events import Event, ShellEffect
from sitestack.model.frame import Frame
from sitestack.stack.stack import Datagram, Stack

#: The steps of a turn, in the order in which they are carried out.
Step = Literal["journal", "transmit", "act", "hand_over"]
STEPS: tuple[Step, ...] = get_args(Step)
#: Frames after which a turn takes in no further datagram: several times what a busy member takes in a turn.
TURN_FRAMES_MAX = 2_048


@dataclass(frozen=True, slots=True)
class Shell:
    """How the steps of a turn are carried out. Each is called once a turn, also with nothing to do; none waits."""

    #: Records the events. Raises when a strict journal cannot be written: then nothing of the turn leaves.
    journal: Callable[[Sequence[Event | Frame]], None]
    transmit: Callable[[Sequence[Datagram]], None]
    act: Callable[[Sequence[ShellEffect]], None]
    hand_over: Callable[[Sequence[Event | Frame]], None]


class TurnLoop:
    """Runs the turns of one member. Other input than datagrams is handed to the stack when it occurs.

    A turn has a budget, so that what is due happens in time whatever arrives: heartbeats above all. Datagrams beyond it wait
    for the next turn; whoever runs the loop hands in no more of them while it `is_behind`, which bounds what waits.
    """

    def __init__(self, stack: Stack, shell: Shell, is_late: Callable[[float], bool] = lambda began: False) -> None:
        """`is_late`: whether a turn that began at this time (monotonic seconds) has taken all the time that it may take."""
        self._stack = stack
        self._shell = shell
        self._is_late = is_late
        self._waiting: deque[tuple[bytes, Physical]] = deque()
        #: When the next turn is due, in seconds, if nothing happens before; None for never.
        self.due: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether datagrams wait for the next turn."""
        return bool(self._waiting)

    def is_due(self, now: float) -> bool:
        """Whether a turn has something to do at this time (monotonic seconds) though nothing has arrived."""
        return self.due is not None and self.due <= now

    def turn(self, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        """Hand in the datagrams that are there, flush the stack once, and carry out the outcome.

        So the more there is to do, up to the budget, the more each turn does, and the less each message costs. `arrived` are
        datagrams with the addresses that they came from; `now` is monotonic seconds.
        """
        stack, shell = self._stack, self._shell
        self._take_in(arrived, now)
        if self.is_due(now):
            stack.expire(now)
        turn = stack.flush(now)
        shell.journal(turn.events)
        shell.transmit(turn.datagrams)
        shell.act(turn.effects)
        shell.hand_over(turn.events)
        self.due = now if self._waiting else stack.deadline()

    def _take_in(self, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        """Hand the stack at least one datagram, and more as long as the budget lasts."""
        receive, is_late, waiting = self._stack.receive, self._is_late, self._waiting
        waiting.extend(arrived)
        frames = 0
        while waiting:
            data, source = waiting.popleft()
            frames += receive(data, source, now)
            if frames >= TURN_FRAMES_MAX or is_late(now):
                return
