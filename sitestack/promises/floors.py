"""The messages that can be judged when beginnings of journals have been deleted.

Each stream has a floor, the first number sent after the last deleted record. Lower numbers are left
out of all journals alike. Only this compares wall clocks, with seconds of tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.promises.reception import Stream

#: Maximum difference of the wall clocks of two machines, in ns.
TOLERANCE_NS = 10_000_000_000


class Floors:
    """For streams the first number that is judged; 1 for all others."""

    def __init__(self, numbers: Mapping[Stream, int]) -> None:
        self._numbers = numbers

    @classmethod
    def find(cls, journals: Mapping[Address, Sequence[records.Record]], until_w: int) -> Floors:
        """Find the floors where nothing up to `until_w` (wall clock, ns) can be judged."""
        since = until_w + TOLERANCE_NS
        highest: dict[Stream, int] = {}
        known: dict[Stream, int] = {}
        for uuid, journal in journals.items():
            for record in journal:
                if isinstance(record, records.Send):
                    stream = Stream(record.site, record.origin, record.scope, record.target)
                    if record.w >= since:
                        known[stream] = min(known.get(stream, record.first), record.first)
                    else:
                        highest[stream] = max(highest.get(stream, 0), record.last)
                elif isinstance(record, records.Deliver) and (record.w < since or record.origin in journals):
                    stream = Stream(record.site, record.origin, record.scope, uuid if record.scope in UNICASTS else None)
                    highest[stream] = max(highest.get(stream, 0), record.last)
        # A process that sent nothing more is not judged as a sender.
        return cls({stream: last + 1 for stream, last in highest.items()} | known)

    def of(self, stream: Stream) -> int:
        return self._numbers.get(stream, 1)

    def above(self, uuid: Address, journal: Iterable[records.Record]) -> Iterator[records.Record]:
        for record in journal:
            match record:
                case records.Send():
                    if record.first >= self.of(Stream(record.site, record.origin, record.scope, record.target)):
                        yield record
                case records.Deliver():
                    target = uuid if record.scope in UNICASTS else None
                    if record.first >= self.of(Stream(record.site, record.origin, record.scope, target)):
                        yield record
                case records.Gap() | records.Baseline():
                    yield from self._clipped(record)
                case records.Unreach():
                    floor = self.of(Stream(record.site, record.origin, record.scope, record.target))
                    first = max(record.first, floor)
                    if first <= record.last:
                        yield replace(record, first=first, count=record.last - first + 1)
                case _:
                    yield record

    def _clipped(self, record: records.Gap | records.Baseline) -> Iterator[records.Record]:
        scope = record.scope if isinstance(record, records.Gap) else Scope.ALL
        floor = self.of(Stream(record.site, record.origin, scope, None))
        if isinstance(record, records.Baseline):
            yield replace(record, next=max(record.next, floor))
        elif record.last >= floor:
            yield replace(record, first=max(record.first, floor))
