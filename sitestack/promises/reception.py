"""Everything one process received from one stream, folded into runs of consecutive numbers. An
undisturbed origin has one run a view.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.promises.ranges import Ranges


class Stream(NamedTuple):
    """One counter of one origin.

    Unicasts have a counter for each `target`; it is None for multicasts.
    """

    site: str
    origin: Address
    scope: Scope
    target: Address | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" to {self.target!r}"
        return f"{self.site}/{self.origin!r} {self.scope.name.lower()}{target}"


class NumberRun(NamedTuple):
    """Messages first..last, each delivered for the first time, in order and in one stay."""

    first: int
    last: int
    stay: int


class Hole(NamedTuple):
    """Numbers skipped, without a gap, when the number `before` was delivered in this stay."""

    missing: Ranges
    before: int
    stay: int
    #: Whether nothing of the stream had been delivered before, without a baseline.
    initial: bool


@dataclass(slots=True, eq=False)
class Reception:
    """Call `finish` before reading."""

    runs: list[NumberRun] = field(default_factory=list)
    delivered: Ranges = field(default_factory=Ranges)
    gaps: Ranges = field(default_factory=Ranges)
    #: The first number to receive; 0 if the journal does not name it.
    baseline: int = 0
    holes: list[Hole] = field(default_factory=list)
    #: Ranges delivered again, once each time.
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    #: Numbers in a later state.
    inherited: Ranges = field(default_factory=Ranges)
    #: Numbers that a later state lacked.
    superseded: Ranges = field(default_factory=Ranges)
    #: Numbers delivered for the first time after a higher one, or below the baseline.
    late: Ranges = field(default_factory=Ranges)
    #: Gaps that stand before the delivery of a lower number.
    misplaced_gaps: Ranges = field(default_factory=Ranges)
    _first: int = 0
    _stay: int = -1
    _next: int = 1
    _gap_max: int = 0

    def deliver(self, first: int, last: int, stay: int) -> None:
        if first == self._next and stay == self._stay:
            self._next = last + 1
        else:
            self._deliver_elsewhere(first, last, stay)

    def gap(self, first: int, last: int) -> None:
        self.finish()
        self.gaps.add(first, last)
        self._gap_max = max(self._gap_max, last)

    def start_at(self, number: int, may_inherit: bool = False, may_return: bool = False) -> None:
        """Set the baseline, the number from which the process receives.

        A later one counts only if the process may have taken a state with the messages before it
        (`may_inherit`): that of the other part after a merge, or that of another site. An earlier one
        counts where it supersedes unread messages (`may_return`).
        """
        self.finish()
        if not self.delivered and not self.gaps:
            if may_return:
                self.superseded.add(number, self._next - 1)
            self.baseline = self._next = number
        elif may_inherit and number > self._next:
            self.inherited.add(self._next, number - 1)
            self._next = number
        elif may_return:
            again = Ranges([(number, max(self._next - 1, self._gap_max))])
            self.delivered, self.gaps, self.inherited = self.delivered - again, self.gaps - again, self.inherited - again
            self.superseded |= again
            self._next, self._gap_max = number, min(self._gap_max, number - 1)

    def wants_of(self, numbers: Ranges) -> Ranges:
        """Return those of these numbers that were neither delivered nor declared lost."""
        return numbers - self.delivered - self.gaps

    @property
    def accounted(self) -> Ranges:
        """Numbers that were delivered, declared lost, before the baseline, or in a state."""
        return self.delivered | self._undelivered

    def accounted_before(self, stay: int) -> Ranges:
        """Return `accounted` at the beginning of a stay; gaps and the baseline count always."""
        earlier = Ranges((run.first, run.last) for run in self.runs if run.stay < stay)
        return earlier | self._undelivered

    @property
    def _undelivered(self) -> Ranges:
        return self.gaps | self.inherited | Ranges([(1, self.baseline - 1)])

    def _deliver_elsewhere(self, first: int, last: int, stay: int) -> None:
        self.finish()
        if first < self._next:
            again = self.delivered.within(first, last)
            self.duplicates.extend(again)
            for low, high in Ranges([(first, last)]) - again:
                self.late.add(low, min(high, self._next - 1))
                self.runs.append(NumberRun(low, high, stay))
                self.delivered.add(low, high)
            self._next = max(self._next, last + 1)
            return
        if first > self._next:
            missing = Ranges([(self._next, first - 1)]) - self.gaps
            if missing:
                initial = not self.delivered and not self.baseline
                self.holes.append(Hole(missing, first, stay, initial))
        if self._gap_max > last:
            for each in self.gaps.within(last + 1, self._gap_max):
                self.misplaced_gaps.add(*each)
        self._first, self._stay, self._next = first, stay, last + 1

    def finish(self) -> None:
        """End the present run."""
        if self._stay >= 0:
            self.runs.append(NumberRun(self._first, self._next - 1, self._stay))
            self.delivered.add(self._first, self._next - 1)
            self._stay = -1
