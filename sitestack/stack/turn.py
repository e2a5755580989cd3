"""The turn of a member: its input, and the order in which its outcome is carried out.

Only this module decides the order (decision 11); trio and the simulator are two `Shell`s:

1. `journal`: record all events of the stack. So the journal explains everything that this member
   sends: every received message has a recorded send, and every reported delivery is recorded.
2. `transmit`: send the datagrams. The own site receives first.
3. `act`: carry out other effects, such as writes to the bridges. So other sites receive nothing that
   this turn has not sent to the members of this site, one of which takes over if this member dies.
4. `hand_over`: deliver the events to the application. Its responses belong to the next turn.

A process can die between and within the steps: it has then completed a prefix of this sequence.
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

Step = Literal["journal", "transmit", "act", "hand_over"]
STEPS: tuple[Step, ...] = get_args(Step)
#: Frames after which a turn accepts no further datagram: several times the frames of a busy turn.
TURN_FRAMES_MAX = 2_048


@dataclass(frozen=True, slots=True)
class Shell:
    """Carries out the steps of a turn. Each is called once a turn, even without work; none waits."""

    #: Records the events. Raises if a strict journal cannot be written: then nothing of the turn
    #: leaves.
    journal: Callable[[Sequence[Event | Frame]], None]
    transmit: Callable[[Sequence[Datagram]], None]
    act: Callable[[Sequence[ShellEffect]], None]
    hand_over: Callable[[Sequence[Event | Frame]], None]


class TurnLoop:
    """Runs the turns of one member. Other input than datagrams goes to the stack directly.

    A turn has a budget, so that due work is punctual despite a flood: heartbeats above all. Further
    datagrams wait for the next turn. The caller adds no more of them while the loop `is_behind`,
    which bounds the queue.
    """

    def __init__(self, stack: Stack, shell: Shell, is_late: Callable[[float], bool] = lambda began: False) -> None:
        """`is_late`: whether a turn that began at this time (monotonic seconds) has used up its time."""
        self._stack = stack
        self._shell = shell
        self._is_late = is_late
        self._waiting: deque[tuple[bytes, Physical]] = deque()
        #: When the next turn is due (s) without further input; None for never.
        self.due: float | None = None

    @property
    def is_behind(self) -> bool:
        return bool(self._waiting)

    def is_due(self, now: float) -> bool:
        """Return whether a turn has work at this time (monotonic seconds) without any input."""
        return self.due is not None and self.due <= now

    def turn(self, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        """Process the arrived datagrams, flush the stack once, and carry out the outcome.

        More work, up to the budget, makes larger turns and lowers the cost per message. `arrived`
        are datagrams with their source addresses; `now` is monotonic seconds.
        """
        stack, shell = self._stack, self._shell
        self._take_in(arrived, now)
        if self.due is not None and self.due <= now:
            stack.expire(now)
        turn = stack.flush(now)
        shell.journal(turn.events)
        shell.transmit(turn.datagrams)
        shell.act(turn.effects)
        shell.hand_over(turn.events)
        self.due = now if self._waiting else stack.deadline()

    def _take_in(self, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        """Pass at least one datagram to the stack, and more as long as the budget lasts."""
        receive, is_late, waiting = self._stack.receive, self._is_late, self._waiting
        waiting.extend(arrived)
        frames = 0
        while waiting:
            data, source = waiting.popleft()
            frames += receive(data, source, now)
            if frames >= TURN_FRAMES_MAX or is_late(now):
                return
