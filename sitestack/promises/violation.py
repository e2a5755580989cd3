from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sitestack.model.address import Address
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream

Harm = Literal["lost", "reordered", "duplicated"]


class Damage(NamedTuple):
    """The deliveries that a violation concerns: two checkers may miss the same message."""

    harm: Harm
    process: Address
    stream: Stream
    numbers: Ranges


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, with the first counter-example in words."""

    #: The code of the promise: L1, X5, G2 ...; JOURNAL when a journal itself is damaged.
    invariant: str
    #: The process or the sites at which the violation shows.
    where: str
    what: str
    damage: tuple[Damage, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.invariant} at {self.where}: {self.what}"


class Findings:
    """Violations of one invariant: one for each place and kind, with the first example and the count."""

    def __init__(self, invariant: str) -> None:
        self._invariant = invariant
        self._found: dict[tuple[str, str], tuple[str, int, list[Damage]]] = {}

    def add(self, where: str, kind: str, what: str, damage: Damage | None = None) -> None:
        """Add a violation; only the first `what` of a kind is kept."""
        example, times, harmed = self._found.get((where, kind), (what, 0, []))
        if damage is not None:
            harmed.append(damage)
        self._found[where, kind] = (example, times + 1, harmed)

    def violations(self) -> list[Violation]:
        return [
            Violation(
                self._invariant,
                where,
                what if times == 1 else f"{what} (and {times - 1} more like it)",
                tuple(harmed),
            )
            for (where, _), (what, times, harmed) in self._found.items()
        ]
