"""What happens on the way between two members, direction by direction. The proxies look here for every piece they carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import trio

from relay.instruments.drills.plan import Seat

#: open: everything passes. cut: datagrams vanish, connections break and new ones are refused. stall: bytes of connections wait,
#: datagrams vanish. half-open: everything is taken and nothing delivered; a connection on which that happened stays deaf.
Mode = Literal["open", "cut", "stall", "half-open"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One direction. The last three are for datagrams: a connection does not lose, double or turn round bytes."""

    mode: Mode = "open"
    delay_s: float = 0.0
    #: 0: as fast as it goes.
    bytes_per_s: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0


OPEN = Condition()


#: Verbs that take an amount, with what the amount becomes.
_GRADED = {"delay": "delay_s", "slow": "bytes_per_s", "lose": "loss", "duplicate": "duplication", "reorder": "reordering"}


def harmed(before: Condition, do: str, amount: float) -> Condition:
    """The condition after one more verb; `heal` undoes all of them."""
    match do:
        case "cut" | "stall" | "half-open":
            return replace(before, mode=do)
        case "heal":
            return OPEN
    graded: dict[str, Any] = {_GRADED[do]: amount}
    return replace(before, **graded)


class Direction:
    """One direction between two members, and how it is at this moment."""

    def __init__(self) -> None:
        self.condition = OPEN
        self._changed = trio.Event()

    def set(self, condition: Condition) -> None:
        """From now on it is like this."""
        self.condition = condition
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, *modes: Mode) -> None:
        """Wait until it is in one of these modes."""
        while self.condition.mode not in modes:
            await self._changed.wait()


class Network:
    """All lines, made when they are first asked for."""

    def __init__(self) -> None:
        self._lines: dict[tuple[Seat, Seat], Direction] = {}

    def line(self, source: Seat, destination: Seat) -> Direction:
        """From one member to another."""
        return self._lines.setdefault((source, destination), Direction())

    def change(self, source: Seat, destination: Seat, do: str, amount: float) -> None:
        """Do harm to one direction, or heal it."""
        line = self.line(source, destination)
        line.set(harmed(line.condition, do, amount))
