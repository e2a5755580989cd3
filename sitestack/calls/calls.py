"""The calls of one member that are not answered yet (RequestCorrelator of JGroups; SEQ-19, REL-34).

A call is a message to the members that are there when it is made, and an answer of each. It ends when enough have answered, or
when enough of them never will: a member that leaves its view, whose site goes down or that cannot be reached counts as
unreachable at once, so a call waits for nobody who cannot answer. The time limit is the shell's affair. Who joins later is not
asked, even if the message reaches it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.level import Level

#: Calls of one member at a time; one more is refused.
CALLS_MAX = 1_024


class CallMode(StrEnum):
    """How many answers a call waits for."""

    FIRST = "first"
    #: More than half of those that were asked.
    MAJORITY = "majority"
    ALL = "all"
    #: One of each site that was asked.
    EACH_SITE = "each_site"


class NoAnswer(StrEnum):
    """Why a member will not answer."""

    #: It is not in the view, or its site is not in the global view, any more.
    LEFT = "left"
    #: The question to it was given up.
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call. Each member that was asked is in one of the three."""

    #: The answers, in the order in which they came.
    answers: dict[Address, bytes]
    unreachable: dict[Address, NoAnswer]
    #: Had not answered when the call ended. What they answer afterwards is dropped.
    late: tuple[Address, ...]
    #: Whether as many answered as the mode asks for.
    enough: bool


@dataclass(slots=True)
class _Call:
    asked: dict[Address, None]
    mode: CallMode
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
        """Whether there will never be enough, since those who are left do not suffice."""
        possible = len(self.asked) - len(self.unreachable)
        match self.mode:
            case CallMode.FIRST:
                return possible == 0
            case CallMode.MAJORITY:
                return 2 * possible <= len(self.asked)
            case CallMode.ALL:
                # Who is unreachable does not answer any more; the others still may, and the caller wants to hear them.
                return len(self.answers) == possible
            case CallMode.EACH_SITE:
                return all(member in self.answers or member in self.unreachable for member in self.asked)


def _sites(members: Iterable[Address]) -> set[str]:
    """The sites of these members; the own one has no name here."""
    return {member.site if isinstance(member, ProxyUUID) else "" for member in members}


class Calls:
    """Members of the own site are known by their addresses, those of others by proxies."""

    def __init__(self) -> None:
        self._open: dict[int, _Call] = {}
        #: Numbers are never used twice, so a late answer can never be taken for one to a later call.
        self._last = 0
        self.level = Level(CALLS_MAX)
        #: Answers to calls that had ended, and from members that were not asked.
        self.stray = 0

    def open_call(self, members: Collection[Address], mode: CallMode) -> int:
        """A call to these members, each of which is to be sent the number. Raises LocalError at the bound."""
        if len(self._open) == CALLS_MAX:
            raise LocalError(f"{CALLS_MAX} calls are waiting for answers")
        self._last += 1
        self._open[self._last] = _Call(dict.fromkeys(members), mode)
        self.level.add(1)
        return self._last

    def answered(self, number: int, member: Address, answer: bytes) -> bool:
        """Take the answer of a member; whether the call has ended by it. The first answer of a member counts."""
        call = self._open.get(number)
        if call is None or member not in call.asked or member in call.answers:
            self.stray += 1
            return False
        call.unreachable.pop(member, None)  # it had answered before it went
        call.answers[member] = answer
        return self.has_ended(number)

    def gone(self, member: Address, why: NoAnswer = NoAnswer.UNREACHABLE) -> list[int]:
        """A member will not answer; returns the calls that end by that."""
        ended = []
        for number, call in self._open.items():
            if member in call.asked and member not in call.answers and member not in call.unreachable:
                call.unreachable[member] = why
                if self.has_ended(number):
                    ended.append(number)
        return ended

    def retain(self, members: Collection[Address]) -> list[int]:
        """Only these are there; returns the calls that end by that."""
        there = frozenset(members)
        waited_for: Sequence[Address] = list({member: None for call in self._open.values() for member in call.asked})
        return [number for member in waited_for if member not in there for number in self.gone(member, NoAnswer.LEFT)]

    def has_ended(self, number: int) -> bool:
        """Whether a call needs no more time."""
        call = self._open[number]
        return call.enough or call.hopeless

    def close_call(self, number: int) -> CallResult:
        """End a call, whoever has answered: there is nothing of it any more."""
        call = self._open.pop(number)
        self.level.now -= 1
        late = tuple([each for each in call.asked if each not in call.answers and each not in call.unreachable])
        return CallResult(call.answers, call.unreachable, late, call.enough)
