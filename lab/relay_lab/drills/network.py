"""The condition of each direction between two members, which the proxies look up for every piece of data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import trio

from relay_lab.drills.plan import Seat

#: open: everything passes. cut: datagrams are lost, connections break. stall: datagrams are lost,
#: bytes of connections wait. half-open: bytes are accepted and not delivered.
Mode = Literal["open", "cut", "stall", "half-open"]


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of one direction. Loss, duplication and reordering are shares of datagrams."""

    mode: Mode = "open"
    delay_s: float = 0.0
    #: Bytes per second that pass; 0: no limit.
    bytes_per_s: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    #: Longer packets vanish, headers included; 0: none does. See `wires`.
    packet_bytes_max: float = 0.0


OPEN = Condition()


#: Verbs with an amount -> the condition that the amount sets.
_GRADED = {
    "delay": "delay_s",
    "slow": "bytes_per_s",
    "lose": "loss",
    "duplicate": "duplication",
    "reorder": "reordering",
    "mtu": "packet_bytes_max",
}


def harmed(before: Condition, do: str, amount: float) -> Condition:
    match do:
        case "cut" | "stall" | "half-open":
            return replace(before, mode=do)
        case "heal":
            return OPEN
    graded: dict[str, Any] = {_GRADED[do]: amount}
    return replace(before, **graded)


class Direction:
    """One direction between two members, with its present condition."""

    def __init__(self) -> None:
        self.condition = OPEN
        self._changed = trio.Event()

    def set(self, condition: Condition) -> None:
        self.condition = condition
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, *modes: Mode) -> None:
        while self.condition.mode not in modes:
            await self._changed.wait()


class Network:
    def __init__(self) -> None:
        self._lines: dict[tuple[Seat, Seat], Direction] = {}

    def line(self, source: Seat, destination: Seat) -> Direction:
        return self._lines.setdefault((source, destination), Direction())

    def change(self, source: Seat, destination: Seat, do: str, amount: float) -> None:
        line = self.line(source, destination)
        line.set(harmed(line.condition, do, amount))
