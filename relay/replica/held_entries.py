"""The buffer's entries for a joiner: in columns, a tenth of the time to encode a record per batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View
from sitestack.wire.schema import INT_MAX

#: Upper bound of the configured entries of a buffer.
ENTRIES_MAX = 1_000_000
#: Value in column `origin_of` for an entry that is a view.
_VIEW = -1


@fast_frozen
@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One entry of the buffer: a batch of this site, or a view of it; the other field is None."""

    batch: Batch | None
    view: View | None


@fast_frozen
@dataclass(frozen=True, slots=True)
class Entry(HeldEntry):
    """An entry in one member's buffer.

    `since`: its delivery time here (s), different at each member.
    """

    size: int
    since: float
    #: Messages and bytes appended here before this entry.
    messages_before: int
    bytes_before: int


@dataclass(frozen=True, slots=True)
class HeldEntries:
    """Entries of one site in order. `origin_of` has an element per entry, others per batch or view.

    A body that the recipient has may be left empty (`known.py`).
    """

    #: Length limit of a column, read by the codec.
    items_max: ClassVar[int] = 2 * ENTRIES_MAX

    site: str
    origins: tuple[Address, ...]
    #: For each entry the index of its origin in `origins`, or -1 for a view.
    origin_of: tuple[int, ...]
    firsts: tuple[int, ...]
    counts: tuple[int, ...]
    bodies: tuple[bytes, ...]
    views: tuple[View, ...]

    @classmethod
    def of(cls, entries: Iterable[HeldEntry]) -> HeldEntries:
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
        """Return whether the columns match and every batch is valid; the codec rejects others."""
        views = self.origin_of.count(_VIEW)
        batches = len(self.origin_of) - views
        fits = len(self.views) == views and len(self.firsts) == len(self.counts) == len(self.bodies) == batches
        known = min(self.origin_of, default=_VIEW) >= _VIEW and max(self.origin_of, default=_VIEW) < len(self.origins)
        numbers = zip(self.firsts, self.counts, self.bodies, strict=True) if fits else ()
        return (
            fits
            and known
            and all(
                (0 < count <= len(body) // 4 or (not body and 0 < count <= INT_MAX)) and 0 < first <= INT_MAX - count
                for first, count, body in numbers
            )
        )

    def __len__(self) -> int:
        return len(self.origin_of)

    def __iter__(self) -> Iterator[HeldEntry]:
        views = iter(self.views)
        batches = zip(self.firsts, self.counts, self.bodies, strict=True)
        for origin in self.origin_of:
            if origin == _VIEW:
                yield HeldEntry(None, next(views))
            else:
                first, count, body = next(batches)
                yield HeldEntry(Batch(self.site, self.origins[origin], Scope.ALL, first, count, body), None)
