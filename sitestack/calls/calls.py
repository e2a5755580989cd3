"""The unanswered calls of one member (RequestCorrelator of JGroups; SEQ-19, REL-34).

A call is a message to the members present when it is made, and an answer from each. It ends with
enough answers, or when enough can never come. A member that leaves its view, whose site goes down
or that cannot be reached counts as unreachable at once. The time limit belongs to the shell. Later
joiners are not asked, even if the message reaches them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.level import Level

#: Maximum calls of one member at a time; one more is refused.
CALLS_MAX = 1_024


class CallMode(StrEnum):
    """The number of answers that a call waits for."""

    FIRST = "first"
    #: More than half of the asked members.
    MAJORITY = "majority"
    ALL = "all"
    #: One answer from each asked site.
    EACH_SITE = "each_site"


class NoAnswer(StrEnum):
    """The reason why a member will not answer."""

    #: It has left the view, or its site the global view.
    LEFT = "left"
    #: Its question was not delivered.
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call. Each asked member is in one of the three."""

    #: In order of arrival.
    answers: dict[Address, bytes]
    unreachable: dict[Address, NoAnswer]
    #: Members without an answer when the call ended. Later answers are dropped.
    late: tuple[Address, ...]
    #: Whether the mode's number of members answered.
    enough: bool


@dataclass(slots=True)
class _Call:
    asked: dict[Address, None]
    mode: CallMode
    by_unicasts: bool
    answers: dict[Address, bytes] = field(default_factory=dict)
    unreachable: dict[Address, NoAnswer] = field(default_factory=dict)

    @property
    def enough(self) -> bool:
        answered = len(self.answers)
        match self.mode:
            case CallMode.FIRST:
                return answered > 0
            case CallMode.MAJORITY:
                return 2 * answered > len(self.asked)
            case CallMode.ALL:
                return answered == len(self.asked)
            case CallMode.EACH_SITE:
                return _sites(self.answers) == _sites(self.asked)

    @property
    def hopeless(self) -> bool:
        """Whether the remaining members cannot suffice any more."""
        possible = len(self.asked) - len(self.unreachable)
        match self.mode:
            case CallMode.FIRST:
                return possible == 0
            case CallMode.MAJORITY:
                return 2 * possible <= len(self.asked)
            case CallMode.ALL:
                # The caller wants the remaining answers, which may still arrive.
                return len(self.answers) == possible
            case CallMode.EACH_SITE:
                return all(member in self.answers or member in self.unreachable for member in self.asked)


def _sites(members: Iterable[Address]) -> set[str]:
    """Return the sites of these members; the own one has no name here."""
    return {member.site if isinstance(member, ProxyUUID) else "" for member in members}


class Calls:
    """The open calls.

    Members of the own site are known by their addresses, those of others by proxies.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Call] = {}
        #: Numbers are never reused, so a late answer cannot count for a later call.
        self._last = 0
        self.level = Level(CALLS_MAX)

    def open_call(self, members: Collection[Address], mode: CallMode, *, by_unicasts: bool = False) -> int:
        """Open a call to these members; return the number to send.

        Raise LocalError at the bound.
        """
        if len(self._open) == CALLS_MAX:
            raise LocalError(f"{CALLS_MAX} calls are waiting for answers")
        self._last += 1
        self._open[self._last] = _Call(dict.fromkeys(members), mode, by_unicasts)
        self.level.add(1)
        return self._last

    def answered(self, number: int, member: Address, answer: bytes) -> bool:
        """Record a member's first answer; return whether it ended the call."""
        call = self._open.get(number)
        if call is None or member not in call.asked or member in call.answers:
            return False
        call.unreachable.pop(member, None)  # it had answered before it left
        call.answers[member] = answer
        return self.has_ended(number)

    def gone(self, member: Address, why: NoAnswer = NoAnswer.UNREACHABLE, *, is_there: bool = False) -> list[int]:
        """Note that a member will not answer; return the calls that this ends. `is_there`: only a unicast failed."""
        ended = []
        for number, call in self._open.items():
            if is_there and not call.by_unicasts:
                continue
            if member in call.asked and member not in call.answers and member not in call.unreachable:
                call.unreachable[member] = why
                if self.has_ended(number):
                    ended.append(number)
        return ended

    def retain(self, members: Collection[Address]) -> list[int]:
        """Note that only these members remain; return the calls that this ends."""
        there = frozenset(members)
        waited_for: Sequence[Address] = list({member: None for call in self._open.values() for member in call.asked})
        return [number for member in waited_for if member not in there for number in self.gone(member, NoAnswer.LEFT)]

    def has_ended(self, number: int) -> bool:
        call = self._open[number]
        return call.enough or call.hopeless

    def close_call(self, number: int) -> CallResult:
        call = self._open.pop(number)
        self.level.now -= 1
        late = tuple([each for each in call.asked if each not in call.answers and each not in call.unreachable])
        return CallResult(call.answers, call.unreachable, late, call.enough)
