"""Anti-replay window of one sender: each envelope opens once, and none that is later than a network
delays.

Source: RFC 6479, a window that is written cyclically instead of shifted.
"""

from __future__ import annotations

from typing import Literal

_BYTES = 8_192
#: How far below the newest counter an older one can be distinguished from its copies. Datagrams to
#: all other members count too, and sockets are read one by one: thousands may overtake an envelope.
WINDOW = 8 * (_BYTES - 1)
#: Seconds after which, and at most three times that, an overtaken envelope counts as late. The layers
#: above assume copies at most a minute old.
LATE_S = 20.0

#: Why a counter is rejected; empty if it is admitted.
Refusal = Literal["", "seal_replayed", "seal_late"]


class ReplayWindow:
    __slots__ = ("_bits", "_floor", "_next_floor", "_raise_at", "_top")

    def __init__(self, floor: int, now: float) -> None:
        """Counters below `floor` are rejected."""
        self._bits = bytearray(_BYTES)
        self._floor = self._next_floor = floor
        self._top = floor - 1
        self._raise_at = now + LATE_S

    def admit(self, counter: int, now: float) -> Refusal:
        """Admit a counter for the first time, and never again."""
        if now >= self._raise_at:
            self._raise_floor(now)
        top, bits, at = self._top, self._bits, counter >> 3
        if counter > top:
            first = (top >> 3) + 1
            if at - first >= _BYTES:
                self._bits = bits = bytearray(_BYTES)
            else:
                for place in range(first, at + 1):
                    bits[place % _BYTES] = 0
            self._top = counter
        elif counter < self._floor or counter <= top - WINDOW:
            return "seal_late"
        bit = 1 << (counter & 7)
        at %= _BYTES
        if bits[at] & bit:
            return "seal_replayed"
        bits[at] |= bit
        return ""

    def _raise_floor(self, now: float) -> None:
        """Raise the floor to the highest counter of one interval ago."""
        if now >= self._raise_at + LATE_S:  # after a silence
            self._next_floor = self._top + 1
        self._floor, self._next_floor = self._next_floor, self._top + 1
        self._raise_at = now + LATE_S
