"""The streaming reader: journals as they grow.

An offset says for every journal which segment and which byte come next. It is the only state, so that a query can go on
from its checkpoint in another process, after any number of new segments. It never forgets a journal, which costs about
80 bytes each. The bytes between two offsets do not change, so that a repeated batch has the same rows, and a sink that
knows batches by their numbers holds every record once.

A micro-batch is at most `maxBytesPerTrigger` of journals, and one record more. The journals advance together by their wall
clocks, the one that is furthest behind first, so that a query that catches up sees all of a minute before the next one and
watermarks do not run ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_relay.source.read_positions import REPORTED, Finder, Journals, ReadPosition, clock_at, parts, step
from pyspark_relay.source.reading import SegmentPartition, read_partition
from pyspark_relay.source.selection import Selection
from sitestack.model.errors import ConfigurationError

#: Default size of a micro-batch: some 100,000 records.
BYTES_MAX = 32 << 20
#: Bytes by which a journal advances at a time.
STEP_BYTES = 64 << 10

#: Journal, as its uuid in hex, or the path of a file that belongs to none -> {"segment": number, "offset": bytes or BROKEN}.
Offset = dict[str, dict[str, int]]


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the segment files under some paths."""

    def __init__(self, paths: list[Path], selection: Selection, schema: StructType, bytes_max: str | None) -> None:
        self.finder = Finder(paths, selection)
        self.selection = selection
        self.schema = schema
        self.bytes_max = _parse_bytes(bytes_max)
        self.target: dict[str, ReadPosition] | None = None

    def initialOffset(self) -> Offset:
        """Before everything."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the option says."""
        return ReadMaxBytes(self.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember where the journals end now."""
        self.target = self._advance({}, None)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far whole records reach, or as many bytes as the limit allows."""
        places = {key: ReadPosition(**place) for key, place in start.items()}
        after = self._advance(places, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)
        return {key: after[key]._asdict() for key in sorted(after)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """A partition for each segment that has something between the two offsets."""
        found: list[InputPartition] = []
        journals = self.finder.find()
        for key, place in end.items():
            since, until = ReadPosition(**start.get(key, {"segment": 0, "offset": 0})), ReadPosition(**place)
            if since == until:
                continue
            if until == REPORTED:
                problem = journals.strays.get(key)
                found.extend([] if problem is None else [SegmentPartition(problem.file, problems=(problem,))])
            else:
                found.extend(parts(key, journals, since, until))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one segment between two offsets."""
        assert isinstance(partition, SegmentPartition)
        return read_partition(self.selection, self.schema, partition)

    def _advance(self, start: dict[str, ReadPosition], bytes_max: int | None) -> dict[str, ReadPosition]:
        """From `start` on by this many bytes, or to the end."""
        journals = self.finder.find()
        places = {**start, **dict.fromkeys(self._known(journals.strays), REPORTED)}
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
        return places

    def _entry(self, journals: Journals, places: dict[str, ReadPosition], uuid: str) -> tuple[int, str, ReadPosition]:
        segments = journals.segments[uuid]
        place = places.get(uuid) or ReadPosition(min(segments), 0)
        return clock_at(segments, place), uuid, place

    def _known(self, keys: dict[str, Any]) -> list[str]:
        """The keys, without those that are newer than a query which takes only what is there."""
        return [key for key in keys if self.target is None or key in self.target]


def _order(place: ReadPosition) -> tuple[int, bool, int]:
    return place.segment, place.offset < 0, place.offset


def _parse_bytes(text: str | None) -> int:
    if text is None:
        return BYTES_MAX
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"Source relay: maxBytesPerTrigger must be a number of bytes above 0, not {text!r}.")
    return int(text)
