"""Which numbers of this site are held, and why others are held no more, so that a gap tells its true reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from relay.replica.vectors import bound
from sitestack.model.address import Address
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch


class Run(NamedTuple):
    """Consecutive message numbers of one origin, `first` and `last` included."""

    first: int
    last: int


class HeldNumbers:
    """The numbers in memory of each origin, as runs. Kept up with every entry, so that the rewind of a link need not walk them.

    Bound: that of the entries.
    """

    def __init__(self) -> None:
        #: First and last number of each run, per origin, lowest first.
        self._runs: dict[Address, deque[list[int]]] = {}

    def append(self, batch: Batch) -> None:
        """Add the numbers of a batch behind those of its origin."""
        runs = self._runs.get(batch.origin)
        if runs is None:
            self._runs[batch.origin] = deque([[batch.first, batch.last]])
        elif runs[-1][1] + 1 == batch.first:
            runs[-1][1] = batch.last
        else:
            runs.append([batch.first, batch.last])

    def drop(self, batch: Batch) -> None:
        """Remove the numbers of a batch. Batches are dropped in the order of appending, so it begins its origin's first run."""
        runs = self._runs[batch.origin]
        if runs[0][1] > batch.last:
            runs[0][0] = batch.last + 1
        elif len(runs) > 1:
            runs.popleft()
        else:
            del self._runs[batch.origin]

    def runs(self) -> dict[Address, list[Run]]:
        """Return the runs of each origin, lowest first."""
        return {origin: [Run(*run) for run in runs] for origin, runs in self._runs.items()}

    def has_between(self, origin: Address, above: int, below: int) -> bool:
        """Return whether a number of an origin between these two is held."""
        return any(first < below and last > above for first, last in self._runs.get(origin, ()))


class Gone:
    """The last consecutive numbers of each origin that went, for each reason. Not replicated: tells only why numbers are gone.

    Bound: `ORIGINS_MAX` origins for each reason.
    """

    def __init__(self) -> None:
        #: What the budget took, and what a disk did not take or give back.
        self._taken: dict[Address, Run] = {}
        self._failed: dict[Address, Run] = {}

    def note(self, batch: Batch) -> None:
        """The budget has taken this batch."""
        self._note(self._taken, batch.origin, Run(batch.first, batch.last))

    def note_run(self, origin: Address, run: Run, reason: GapReason) -> None:
        """These numbers are held no more: the reason is `budget` or `disk`."""
        self._note(self._failed if reason is GapReason.DISK else self._taken, origin, run)

    @staticmethod
    def _note(runs: dict[Address, Run], origin: Address, run: Run) -> None:
        before = runs.pop(origin, Run(run.first, run.first - 1))
        runs[origin] = Run(before.first if before.last + 1 == run.first else run.first, run.last)
        bound(runs)

    def explain(self, origin: Address, first: int, last: int) -> list[tuple[Run, GapReason]]:
        """Why these numbers, none of which is held, are gone: runs, lowest first; `not_held` where no reason is known."""
        parts = _explain([(Run(first, last), GapReason.NOT_HELD)], self._taken.get(origin), GapReason.BUDGET)
        return _explain(parts, self._failed.get(origin), GapReason.DISK)

    def held_again(self, held: Mapping[Address, Sequence[Run]]) -> None:
        """Another part of the site still held these runs, lowest first: the budget of this part is no reason now."""
        for origin in [each for each in held if each in self._taken and self._taken[each].last >= held[each][0].first]:
            del self._taken[origin]


def _explain(parts: list[tuple[Run, GapReason]], run: Run | None, why: GapReason) -> list[tuple[Run, GapReason]]:
    """The same runs, with this reason for the numbers of the given one that have none yet; empty runs are left out."""
    explained: list[tuple[Run, GapReason]] = []
    for part, reason in parts:
        if run is None or reason is not GapReason.NOT_HELD:
            explained.append((part, reason))
            continue
        explained += [
            (Run(part.first, min(part.last, run.first - 1)), reason),
            (Run(max(part.first, run.first), min(part.last, run.last)), why),
            (Run(max(part.first, run.last + 1), part.last), reason),
        ]
    return [(part, reason) for part, reason in explained if part.first <= part.last]


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same numbers in runs that neither touch nor overlap, lowest first."""
    found: list[Run] = []
    for run in sorted(runs):
        if found and run.first <= found[-1].last + 1:
            found[-1] = Run(found[-1].first, max(found[-1].last, run.last))
        else:
            found.append(run)
    return found
