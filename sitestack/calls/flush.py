"""Whether what a member has sent is everywhere (RSVP of JGroups): a probe behind it, and what members say when it is there.

Messages of one sender come in order, so who has delivered the probe has delivered all before it, but for what it was told of as
a gap. So each member keeps how far the gaps of each sender go, and says that in its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sitestack.model.address import Address
from sitestack.model.gap import Gap
from sitestack.model.message import Scope

_DELIVERED = struct.Struct("<QQ")

#: Senders of whose gaps a member knows; beyond, the one whose gap is longest ago is forgotten, and never said to be whole.
GAPS_MAX = 4_096


class Lack(StrEnum):
    """Why something is not known to be at a member."""

    #: It did not answer in time: it may have all of it.
    NO_ANSWER = "no_answer"
    #: It has left, or cannot be reached.
    GONE = "gone"
    #: It was told that some of it will never come (`Gap`).
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Flushed:
    """Where everything is that was sent before."""

    #: The members that have delivered all of it.
    has: tuple[Address, ...]
    lacks: Mapping[Address, Lack]
    #: Whether it is wherever it was to be: at every member, or at one of each site.
    everywhere: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """The answer to a probe: its number in the sender's counter, and how far the sender's gaps go that were told here."""

    number: int
    gap_to: int

    def pack(self) -> bytes:
        return _DELIVERED.pack(self.number, self.gap_to)

    @classmethod
    def parse(cls, data: bytes) -> Delivered | None:
        """None for what `pack` cannot have made."""
        return cls(*_DELIVERED.unpack(data)) if len(data) == _DELIVERED.size else None


class GapNotes:
    """How far the gaps of each sender go that this member was told of."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Address, Scope], int] = {}
        #: The highest number that was forgotten: of who is not in the table it says that there may have been a gap up to there.
        self._forgotten = 0

    def note(self, gap: Gap) -> None:
        """Remember a gap."""
        key = (gap.site, gap.origin, gap.scope)
        last = max(gap.last, self._last.pop(key, 0))
        if len(self._last) == GAPS_MAX:
            self._forgotten = max(self._forgotten, self._last.pop(next(iter(self._last))))
        self._last[key] = last

    def __len__(self) -> int:
        return len(self._last)

    def reach(self, site: str, origin: Address, scope: Scope) -> int:
        """The last number of a sender that is in a gap; 0 for none."""
        return self._last.get((site, origin, scope), self._forgotten)
