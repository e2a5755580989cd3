"""A covering array: few rows in which every pair of values meets, of dimensions and of faults.

Rows are built greedily, each around the value that still has most to meet, as in AETG (Cohen et al., "The
AETG System", 1997).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

#: Two values, in the order of their names.
Pair = tuple[str, str]
#: Attempts to complete one row.
ATTEMPTS_MAX = 200


class Covering:
    """The pairs of a set of dimensions that can meet, and arrays of rows in which all of them do."""

    def __init__(self, dimensions: Sequence[Mapping[str, float]], faults: Mapping[str, float], never: Collection[Pair]) -> None:
        """Weights decide where nothing has to be met; `never`: pairs that cannot meet."""
        self._dimensions = dimensions
        self._faults = faults
        self._weights = {**{name: weight for each in dimensions for name, weight in each.items()}, **faults}
        self._never: dict[str, set[str]] = {name: set() for name in self._weights}
        for each in dimensions:
            self._forbid(combinations(each, 2))
        self._forbid(never)
        while implied := self._implied():
            self._forbid(implied)
        #: The values and faults that can be.
        self._possible = [name for name in self._weights if not self._leave_none([name])]
        #: All pairs that can meet.
        self.pairs = {pair for pair in map(pair_of, combinations(self._possible, 2)) if pair[1] not in self._never[pair[0]]}

    def _forbid(self, pairs: Collection[Pair] | combinations[Pair]) -> None:
        for one, other in pairs:
            self._never[one].add(other)
            self._never[other].add(one)

    def _implied(self) -> list[Pair]:
        """Pairs that leave no value of some dimension."""
        pairs = [pair for pair in combinations(self._weights, 2) if pair[1] not in self._never[pair[0]]]
        return [pair for pair in pairs if self._leave_none(pair)]

    def _leave_none(self, chosen: Collection[str]) -> bool:
        excluded = set[str]().union(*[self._never[each] for each in chosen])
        return any(each.keys() <= excluded for each in self._dimensions)

    def rows(self, count: int, together: int, seed: int) -> list[list[str]]:
        """Return `count` rows with `together` faults each. Raises ValueError if that is too few to meet all pairs."""
        rng = random.Random(f"covering {seed}")
        unmet = {name: set[str]() for name in self._weights}
        for one, other in self.pairs:
            unmet[one].add(other)
            unmet[other].add(one)
        rows = [self._row(unmet, together, rng) for _ in range(count)]
        if any(unmet.values()):
            raise ValueError(f"{count} rows do not meet all pairs")
        rng.shuffle(rows)
        return rows

    def _row(self, unmet: dict[str, set[str]], together: int, rng: random.Random) -> list[str]:
        first = max(self._possible, key=lambda name: (len(unmet[name]), rng.random()))
        for _ in range(ATTEMPTS_MAX):
            row = self._completed([first], unmet, together, rng)
            if row:
                for one, other in combinations(row, 2):
                    unmet[one].discard(other)
                    unmet[other].discard(one)
                return row
        raise ValueError(f"no row has {first}")

    def _completed(self, row: list[str], unmet: dict[str, set[str]], together: int, rng: random.Random) -> list[str]:
        """Add a value of each dimension, then faults, each with the most unmet pairs; empty if none fits."""
        faults = self._faults
        choices: list[Mapping[str, float]] = rng.sample(self._dimensions, len(self._dimensions))
        for dimension in [*choices, *[faults] * together]:
            if any(name in row for name in dimension) and dimension is not faults:
                continue
            fit = [name for name in dimension if name not in row and not self._never[name].intersection(row)]
            if not fit and dimension is not faults:
                return []
            if fit:
                row.append(
                    max(fit, key=lambda name: (len(unmet[name].intersection(row)), rng.random() ** (1 / dimension[name])))
                )
        return row


def pair_of(names: Collection[str]) -> Pair:
    one, other = sorted(names)
    return one, other
