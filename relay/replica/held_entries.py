"""What a joiner is handed of the buffer: its entries in columns, for there may be hundreds of thousands of them.

A list a batch would take ten times as long to make and to read, while the whole site waits for the joiner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View
from sitestack.wire.schema import INT_MAX

#: The most that a buffer may be configured to hold: half a gigabyte of objects, bodies not counted.
ENTRIES_MAX = 1_000_000
#: In place of an origin: the entry is a view.
_VIEW = -1


@fast_frozen
@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One entry of the buffer: a batch, or a view of the site."""

    batch: Batch | None
    view: View | None


@dataclass(frozen=True, slots=True)
class HeldEntries:
    """Entries of one site in their order: `origin_of` has one number for each, the other columns one for each batch or view."""

    #: A column may be so long: a buffer holds more than its budget until what trims it comes back.
    items_max: ClassVar[int] = 2 * ENTRIES_MAX

    #: All batches are of this site and of scope ALL: nothing else is held for others.
    site: str
    origins: tuple[Address, ...]
    #: For each entry the index of its origin, or -1: a view.
    origin_of: tuple[int, ...]
    firsts: tuple[int, ...]
    counts: tuple[int, ...]
    bodies: tuple[bytes, ...]
    views: tuple[View, ...]

    @classmethod
    def of(cls, entries: Iterable[HeldEntry]) -> HeldEntries:
        """The columns of these entries."""
        site, index = "", dict[Address, int]()
        batches: list[Batch] = []
        views: list[View] = []
        origin_of: list[int] = []
        for entry in entries:
            batch = entry.batch
            if batch is not None:
                site = batch.site
                origin_of.append(index.setdefault(batch.origin, len(index)))
                batches.append(batch)
            elif entry.view is not None:
                origin_of.append(_VIEW)
                views.append(entry.view)
        firsts = tuple([batch.first for batch in batches])
        counts = tuple([batch.count for batch in batches])
        bodies = tuple([batch.body for batch in batches])
        return cls(site, tuple(index), tuple(origin_of), firsts, counts, bodies, tuple(views))

    def is_sound(self) -> bool:
        """Whether the columns go together, and every batch can be one. Nothing else comes off the wire."""
        views = self.origin_of.count(_VIEW)
        batches = len(self.origin_of) - views
        fits = len(self.views) == views and len(self.firsts) == len(self.counts) == len(self.bodies) == batches
        known = min(self.origin_of, default=_VIEW) >= _VIEW and max(self.origin_of, default=_VIEW) < len(self.origins)
        numbers = zip(self.firsts, self.counts, self.bodies, strict=True) if fits else ()
        return (
            fits
            and known
            and all(0 < count <= len(body) // 4 and 0 < first <= INT_MAX - count for first, count, body in numbers)
        )

    def __len__(self) -> int:
        return len(self.origin_of)

    def __iter__(self) -> Iterator[HeldEntry]:
        """The entries, in order."""
        views = iter(self.views)
        batches = zip(self.firsts, self.counts, self.bodies, strict=True)
        for origin in self.origin_of:
            if origin == _VIEW:
                yield HeldEntry(None, next(views))
            else:
                first, count, body = next(batches)
                yield HeldEntry(Batch(self.site, self.origins[origin], Scope.ALL, first, count, body), None)
