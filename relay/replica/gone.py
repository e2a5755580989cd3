"""Held numbers of this site, and the reasons for dropped ones."""

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
    """The runs of each origin's numbers in memory. Bound: that of the entries."""

    def __init__(self) -> None:
        self._runs: dict[Address, deque[list[int]]] = {}

    def append(self, batch: Batch) -> None:
        first, last = batch.first, batch.last
        runs = self._runs.get(batch.origin)
        if runs is None:
            self._runs[batch.origin] = deque([[first, last]])
        elif runs[-1][1] + 1 == first:
            runs[-1][1] = last
        else:
            runs.append([first, last])

    def drop(self, batch: Batch) -> None:
        """Remove a batch's numbers, which begin its origin's first run."""
        runs = self._runs[batch.origin]
        if runs[0][1] > batch.last:
            runs[0][0] = batch.last + 1
        elif len(runs) > 1:
            runs.popleft()
        else:
            del self._runs[batch.origin]

    def runs(self) -> dict[Address, list[Run]]:
        return {origin: [Run(*run) for run in runs] for origin, runs in self._runs.items()}

    def has_between(self, origin: Address, above: int, below: int) -> bool:
        """Return whether a number of an origin strictly between these two is held."""
        return any(first < below and last > above for first, last in self._runs.get(origin, ()))


#: Runs of an origin that are remembered for a reason, the highest ones.
RUNS_MAX = 8


class Gone:
    """The last numbers of each origin dropped for each reason. Not replicated.

    Bound: `ORIGINS_MAX` origins for each reason, with `RUNS_MAX` runs.
    """

    def __init__(self) -> None:
        #: Numbers dropped for the budget, and lost by a disk.
        self._taken: dict[Address, list[Run]] = {}
        self._failed: dict[Address, list[Run]] = {}

    def note(self, origin: Address, run: Run, reason: GapReason) -> None:
        runs = self._failed if reason is GapReason.DISK else self._taken
        known = runs.pop(origin, [])
        if known and known[-1].last + 1 == run.first:
            known[-1] = Run(known[-1].first, run.last)
        else:  # a disk may first refuse records and then fail to return older ones
            known = joined([*known, run])[-RUNS_MAX:]
        runs[origin] = known
        bound(runs)

    def explain(self, origin: Address, first: int, last: int) -> list[tuple[Run, GapReason]]:
        """Return why these numbers are gone: runs, lowest first; `not_held` without a known reason."""
        parts = [(Run(first, last), GapReason.NOT_HELD)]
        for runs, why in ((self._taken, GapReason.BUDGET), (self._failed, GapReason.DISK)):
            for run in runs.get(origin, ()):
                parts = _explain(parts, run, why)
        return parts

    def held_again(self, held: Mapping[Address, Sequence[Run]]) -> None:
        """Forget the budget as a reason for runs that another part of the site held."""
        for origin in [each for each in held if each in self._taken and self._taken[each][-1].last >= held[each][0].first]:
            del self._taken[origin]


def _explain(parts: list[tuple[Run, GapReason]], run: Run, why: GapReason) -> list[tuple[Run, GapReason]]:
    """Return the runs, with this reason for unexplained numbers of the given run."""
    explained: list[tuple[Run, GapReason]] = []
    for part, reason in parts:
        if reason is not GapReason.NOT_HELD:
            explained.append((part, reason))
            continue
        explained += [
            (Run(part.first, min(part.last, run.first - 1)), reason),
            (Run(max(part.first, run.first), min(part.last, run.last)), why),
            (Run(max(part.first, run.last + 1), part.last), reason),
        ]
    return [(part, reason) for part, reason in explained if part.first <= part.last]


def joined(runs: Iterable[Run]) -> list[Run]:
    found: list[Run] = []
    for run in sorted(runs):
        if found and run.first <= found[-1].last + 1:
            found[-1] = Run(found[-1].first, max(found[-1].last, run.last))
        else:
            found.append(run)
    return found
