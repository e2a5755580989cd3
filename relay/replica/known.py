"""Bodies of held entries that the recipient of a state has, and that need not be sent.

A batch is never re-cut, so its origin and first number name it, and the recipient can restore its
body.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from relay.replica.entries import HeldRuns
from relay.replica.gone import Run, joined
from relay.replica.held_entries import HeldEntries
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.wire.schema import INT_MAX, ITEMS_MAX

_Runs = dict[Address, list[Run]]
#: Lookup of the recipient's batch of this origin that begins with this number.
Find = Callable[[Address, int], Batch | None]


def runs_of(runs: Mapping[Address, Iterable[Run]]) -> HeldRuns:
    """Return the runs as an array of at most `ITEMS_MAX`; bodies of any others are sent."""
    flat = [(origin, run.first, run.last) for origin, each in runs.items() for run in each]
    return HeldRuns(tuple(flat[:ITEMS_MAX]))


class Known:
    """The runs that all of several recipients have."""

    def __init__(self, takers: Sequence[HeldRuns]) -> None:
        each = [_joined(taker) for taker in takers]
        self._runs = reduce(_common, each) if each else {}

    def has(self, origin: Address, first: int, last: int) -> bool:
        """Return whether all recipients have these numbers."""
        runs = self._runs.get(origin, ())
        place = bisect_right(runs, (first, INT_MAX))
        return place > 0 and last <= runs[place - 1].last


def _joined(taker: HeldRuns) -> _Runs:
    runs: _Runs = {}
    for origin, first, last in taker.runs:
        runs.setdefault(origin, []).append(Run(first, last))
    return {origin: joined(each) for origin, each in runs.items()}


def _common(one: _Runs, other: _Runs) -> _Runs:
    common: _Runs = {}
    for origin in one.keys() & other.keys():
        mine, theirs, i, j = one[origin], other[origin], 0, 0
        runs: list[Run] = []
        while i < len(mine) and j < len(theirs):
            first, last = max(mine[i].first, theirs[j].first), min(mine[i].last, theirs[j].last)
            if first <= last:
                runs.append(Run(first, last))
            if mine[i].last < theirs[j].last:
                i += 1
            else:
                j += 1
        common[origin] = runs
    return common


def without(entries: HeldEntries, known: Known) -> HeldEntries:
    batches = [origin for origin in entries.origin_of if origin >= 0]
    bodies = [
        b"" if known.has(entries.origins[origin], first, first + count - 1) else body
        for origin, first, count, body in zip(batches, entries.firsts, entries.counts, entries.bodies, strict=True)
    ]
    return replace(entries, bodies=tuple(bodies))


def completed(entries: HeldEntries, find: Find) -> tuple[HeldEntries, int]:
    """Return the entries with all bodies, and the number of entries dropped for that.

    Entries up to a missing body are dropped, as for the budget, and become gaps.
    """
    if all(entries.bodies):
        return entries, 0
    places = [place for place, origin in enumerate(entries.origin_of) if origin >= 0]
    bodies: list[bytes] = []
    dropped = 0
    for place, first, count, body in zip(places, entries.firsts, entries.counts, entries.bodies, strict=True):
        held = None if body else find(entries.origins[entries.origin_of[place]], first)
        if not body and (held is None or held.count != count):
            dropped = place + 1
        bodies.append(body if held is None else held.body)
    whole = replace(entries, bodies=tuple(bodies))
    return (HeldEntries.of(list(whole)[dropped:]) if dropped else whole), dropped
