"""Which envelopes of one sender were opened already: each opens once, and none that is late by more than a network can be.

Source: RFC 6479, an anti-replay window that is not shifted but written round and round.
"""

from __future__ import annotations

from typing import Literal

_BYTES = 8_192
#: How far below the newest counter an older one is still told from its copies. What goes to all other members counts too, and
#: two sockets are read one after the other: thousands may lie between an envelope and the one that overtook it.
WINDOW = 8 * (_BYTES - 1)
#: Seconds after which, and at most twice that, an envelope that others have overtaken counts as late. The layers above take
#: copies to be a minute old at most.
LATE_S = 30.0

#: Why a counter is refused; nothing when it is not.
Refusal = Literal["", "seal_replayed", "seal_late"]


class ReplayWindow:
    """The counters that one sender's opened envelopes had."""

    __slots__ = ("_bits", "_floor", "_next_floor", "_raise_at", "_top")

    def __init__(self, floor: int, now: float) -> None:
        """Counters below `floor` are refused."""
        self._bits = bytearray(_BYTES)
        self._floor = self._next_floor = floor
        #: The highest counter so far.
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
        """What was the highest counter a while ago is the floor now."""
        self._floor, self._next_floor = self._next_floor, self._top + 1
        self._raise_at = now + LATE_S
