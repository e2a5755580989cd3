"""Whether a member's messages have arrived everywhere (RSVP of JGroups), by a probe behind them.

Messages of one sender come in order. So a member that has delivered the probe has delivered all
earlier messages, except reported gaps. Each member therefore remembers the extent of each sender's
gaps, and includes it in its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sitestack.model.address import Address
from sitestack.model.gap import Gap
from sitestack.model.message import Scope

#: The answer to a probe: its number in the sender's counter, and the extent of the sender's reported gaps.
DELIVERED = struct.Struct("<QQ")

#: Maximum senders with remembered gaps. Beyond, the sender with the oldest gap is forgotten, and
#: never reported complete.
GAPS_MAX = 4_096


class Lack(StrEnum):
    """The reason why a member may lack messages."""

    #: It did not answer in time: it may have all of them.
    NO_ANSWER = "no_answer"
    #: It has left, or cannot be reached.
    GONE = "gone"
    #: A gap was reported to it (`Gap`).
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Flushed:
    """The members that have the messages sent before, and those that may lack some."""

    #: The members that have delivered all of them.
    has: tuple[Address, ...]
    lacks: Mapping[Address, Lack]
    #: Whether the messages arrived everywhere: at every member, or at one of each site.
    everywhere: bool


class GapNotes:
    """The last number in a reported gap, for each sender."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Address, Scope], int] = {}
        #: Upper bound for evicted senders: they may have had gaps up to this number.
        self._forgotten = 0

    def note(self, gap: Gap) -> None:
        key = (gap.site, gap.origin, gap.scope)
        last = max(gap.last, self._last.pop(key, 0))
        if len(self._last) == GAPS_MAX:
            self._forgotten = max(self._forgotten, self._last.pop(next(iter(self._last))))
        self._last[key] = last

    def __len__(self) -> int:
        return len(self._last)

    def reach(self, site: str, origin: Address, scope: Scope) -> int:
        """Return the last number of a sender that is in a gap; 0 for none."""
        return self._last.get((site, origin, scope), self._forgotten)
