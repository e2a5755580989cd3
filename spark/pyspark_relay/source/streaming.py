"""The streaming reader, which follows growing journals.

The offset, its only state, holds the next segment and byte of every journal, about 80 bytes each:
uuid in hex, or path of a stray file -> {"segment": number, "offset": bytes or BROKEN}. A query
resumes from its checkpoint in any process. Bytes between two offsets never change, so a repeated
batch has the same rows. A vanished journal keeps its place, with a mark beside it: it may return.

A micro-batch has at most `maxBytesPerTrigger` and one record more. The journal furthest behind by
wall clock advances first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_relay.source.read_positions import (
    FINISHED,
    GONE,
    REPORTED,
    Finder,
    Journals,
    ReadPosition,
    clock_at,
    lost_journal,
    parts,
    step,
)
from pyspark_relay.source.reading import SegmentPartition, read_partition
from pyspark_relay.source.selection import BEGAN, Offset, Selection
from sitestack.model.errors import ConfigurationError

#: Default bytes of a micro-batch: about 100,000 records.
BYTES_MAX = 32 << 20
#: Bytes by which a journal advances at a time.
STEP_BYTES = 64 << 10
_NOWHERE = {"segment": 0, "offset": 0}


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self,
        paths: list[Path],
        selection: Selection,
        schema: StructType,
        bytes_max: str | None,
        since: str | Offset = "earliest",
    ) -> None:
        self.finder = Finder(paths, selection)
        self.selection = selection
        self.schema = schema
        self.bytes_max = _parse_bytes(bytes_max)
        self.since = since
        #: The offset of `latest` when the query began.
        self.began: Offset | None = None
        self.target: dict[str, ReadPosition] | None = None
        self.finished: set[str] = set()

    def initialOffset(self) -> Offset:
        if isinstance(self.since, dict):
            return self.since
        if self.since == "earliest":
            return {}
        if self.began is None:
            self.began = self.latestOffset({}, ReadAllAvailable())
        return self.began

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._advance({}, None)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the whole records, or the offset at the limit if that is less."""
        places = {key: ReadPosition(**place) for key, place in without_beginning(start).items()}
        after = self._advance(places, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)
        end = {key: after[key]._asdict() for key in sorted(after)}
        begins = {f"{key}{BEGAN}": start.get(key, _NOWHERE) for key in end if start.get(key) != end[key]}
        return {**end, **begins} if start == self.began else end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        found: list[InputPartition] = []
        journals = self.finder.find()
        ends = without_beginning(end)
        begins = {key: end[f"{key}{BEGAN}"] for key in ends if f"{key}{BEGAN}" in end}
        start = {**without_beginning(start), **begins}
        journals.has_lost = any(key not in journals.segments and place["segment"] for key, place in start.items())
        for key, place in ends.items():
            since, until = ReadPosition(**start.get(key, _NOWHERE)), ReadPosition(**place)
            if since == until:
                continue
            if until == REPORTED:
                problem = lost_journal(key, journals, start) if key.endswith(GONE) else journals.strays.get(key)
                found.extend([] if problem is None else [SegmentPartition(problem.file, problems=(problem,))])
            else:
                found.extend(parts(key, journals, since, until))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SegmentPartition)
        return read_partition(self.selection, self.schema, partition)

    def _advance(self, start: dict[str, ReadPosition], bytes_max: int | None) -> dict[str, ReadPosition]:
        """Advance from `start` by `bytes_max`, or to the end if None."""
        journals = self.finder.find()
        places = {**start, **dict.fromkeys(self._known(journals.strays), REPORTED)}
        for uuid in [uuid for uuid, place in start.items() if place.segment and uuid not in journals.segments]:
            places.setdefault(f"{uuid}{GONE}", FINISHED if uuid in self.finished else REPORTED)
        for uuid in journals.segments:
            places.pop(f"{uuid}{GONE}", None)
        queue = [self._entry(journals, places, uuid) for uuid in self._known(journals.segments)]
        heapq.heapify(queue)
        left = bytes_max
        while queue and (left is None or left > 0):
            _, uuid, before = heapq.heappop(queue)
            after = step(journals.segments[uuid], before, None if left is None else min(left, STEP_BYTES))
            if self.target is not None:
                after = min(after, self.target[uuid], key=_order)
            if _order(after) <= _order(before):
                continue
            places[uuid] = after
            if left is not None and after.segment == before.segment:
                left -= max(0, after.offset - before.offset)
            heapq.heappush(queue, self._entry(journals, places, uuid))
        self.finished = {*(self.finished - journals.segments.keys()), *journals.finished(places)}
        return places

    def _entry(self, journals: Journals, places: dict[str, ReadPosition], uuid: str) -> tuple[int, str, ReadPosition]:
        segments = journals.segments[uuid]
        place = places.get(uuid) or ReadPosition(min(segments), 0)
        return clock_at(segments, place), uuid, place

    def _known(self, keys: dict[str, Any]) -> list[str]:
        return [key for key in keys if self.target is None or key in self.target]


def without_beginning(offset: Offset) -> Offset:
    return {key: place for key, place in offset.items() if not key.endswith(BEGAN)}


def _order(place: ReadPosition) -> tuple[int, bool, int]:
    return place.segment, place.offset < 0, place.offset


def _parse_bytes(text: str | None) -> int:
    if text is None:
        return BYTES_MAX
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"Source relay: maxBytesPerTrigger must be a number of bytes above 0, not {text!r}.")
    return int(text)
