"""The readers of a running site: its messages as a table, or as a stream.

A micro-batch is fetched by the driver when it is planned. A batch that is repeated by a restarted
query is fetched again, from any node of the site.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_relay.source.event_cursor import ANOTHER_PROCESS, EventCursor
from pyspark_relay.source.event_follower import EventFollower, SourceError
from pyspark_relay.source.messages import MessageRow, Missing, to_batch
from pyspark_relay.source.selection import BEGAN, Offset
from pyspark_relay.target import Target

BATCH_EVENTS_MAX = 10_000
#: Time (s) for which an event is waited for.
PATIENCE_S = 0.1


@dataclass
class MessagesPartition(InputPartition):
    rows: list[MessageRow]


class SiteReader(DataSourceReader):
    def __init__(self, target: Target, schema: StructType, since: str | Offset, until: str | Offset) -> None:
        self.target = target
        self.schema = schema
        self.since = since if isinstance(since, dict) else {}
        self.until = until

    def partitions(self) -> list[InputPartition]:
        rows = fetch(self.target, EventCursor(self.since), self.until) if isinstance(self.until, dict) else None
        return [MessagesPartition(fetch_held(self.target, EventCursor(self.since)) if rows is None else rows)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.schema, partition)


class SiteStreamReader(DataSourceStreamReader):
    def __init__(self, target: Target, schema: StructType, since: str | Offset) -> None:
        self.target = target
        self.schema = schema
        self.since = since
        #: The offset of `latest` when the query began.
        self._began: Offset | None = None
        self._follower: EventFollower | None = None
        self._cursor = EventCursor({})
        #: The offset that the cursor continues, and the rows of planned micro-batches by offsets.
        self._at: Offset | None = None
        self._planned: list[tuple[Offset, Offset, list[MessageRow]]] = []

    def initialOffset(self) -> Offset:
        if isinstance(self.since, dict):
            return self.since
        if self.since != "latest":
            return EventCursor({}).offset()
        if self._began is None:
            cursor = EventCursor({})
            fetch_held(self.target, cursor)
            self._began = cursor.offset()
        return self._began

    def latestOffset(self, start: Offset, _limit: Any = None) -> Offset:
        """Fetch the next micro-batch; return its end. Raises SourceError."""
        if self._follower is None or start != self._at:
            self._restart(start)
        assert self._follower is not None
        rows: list[MessageRow] = []
        for event_id, event, _ in self._follower.take(BATCH_EVENTS_MAX, PATIENCE_S):
            rows += self._cursor.accept(event_id, event)
        self._cursor.site = self._follower.site
        if not rows:
            return start
        self._at = {**self._cursor.offset(), BEGAN: start} if start == self._began else self._cursor.offset()
        self._planned.append((start, self._at, rows))
        return self._at

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the rows of a micro-batch. Raises SourceError."""
        start = end.get(BEGAN, start)
        for begin, finish, rows in self._planned:
            if (begin, finish) == (start, end):
                return [MessagesPartition(rows)]
        return [MessagesPartition(fetch(self.target, EventCursor(start), end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.schema, partition)

    def commit(self, end: Offset) -> None:
        ends = [finish for _, finish, _ in self._planned]
        del self._planned[: ends.index(end) + 1 if end in ends else 0]

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.close()

    def _restart(self, start: Offset) -> None:
        self.stop()
        self._cursor, self._at, self._planned = EventCursor(start), start, []
        self._follower = EventFollower(self.target, self._cursor.id, self._cursor.site)


def fetch_held(target: Target, cursor: EventCursor) -> list[MessageRow]:
    """Return the rows of all events that a node holds now after the cursor. Raises SourceError."""
    follower = EventFollower(target, cursor.id, cursor.site, finds_newest=True)
    rows: list[MessageRow] = []
    try:
        while not _has_reached(cursor.id, follower.newest):
            for event_id, event, _ in follower.take(BATCH_EVENTS_MAX, PATIENCE_S):
                rows += cursor.accept(event_id, event)
        cursor.site = follower.site
    finally:
        follower.close()
    return rows


def fetch(target: Target, cursor: EventCursor, end: Offset) -> list[MessageRow]:
    """Return the rows between the cursor and an offset again.

    Messages that no node shows within the target's timeout are gaps. Raises SourceError.
    """
    follower = EventFollower(target, cursor.id, cursor.site)
    rows: list[MessageRow] = []
    known: Mapping[str, int] = end["known"]
    gives_up = time.monotonic() + target.timeout_s

    def lacks_some() -> bool:
        return bool(_missing(cursor, known)) or _is_before(cursor.id, end["id"])

    try:
        while lacks_some() and time.monotonic() < gives_up:
            for event_id, event, _ in follower.take(1, PATIENCE_S):
                rows += [row for row in cursor.accept(event_id, event) if _is_within(row, known)]
        if lacks_some() and not follower.is_connected:
            raise SourceError(f"No events within {target.timeout_s:g} s of a batch that is repeated: no node answers.")
    finally:
        follower.close()
    return [*rows, *_missing(cursor, known)]


def _has_reached(at: str, newest: str) -> bool:
    """Return whether a reader has the newest event of the present node."""
    return bool(newest) and (
        newest.endswith("-0") or (at.partition("-")[0] == newest.partition("-")[0] and not _is_before(at, newest))
    )


def _is_before(at: str, end: str) -> bool:
    """Return whether an event precedes another one of the same process, as a gap after the last message may."""
    run, _, number = at.partition("-")
    ends_run, _, ends_number = end.partition("-")
    return run == ends_run and int(number or 0) < int(ends_number or 0)


def _missing(cursor: EventCursor, known: Mapping[str, int]) -> list[MessageRow]:
    found = []
    for stream, last in known.items():
        if (first := cursor.known.get(stream, 0) + 1) <= last:
            site, uuid, scope = stream.rsplit("/", 2)
            found.append(MessageRow(site=site, sender_uuid=uuid, scope=scope, gap=Missing(first, last, ANOTHER_PROCESS)))
    return found


def _is_within(row: MessageRow, known: Mapping[str, int]) -> bool:
    n = row.n if row.gap is None else row.gap.first
    return n is None or n <= known.get(f"{row.site}/{row.sender_uuid}/{row.scope}", 0)


def _read(schema: StructType, partition: InputPartition) -> Iterator[Any]:
    assert isinstance(partition, MessagesPartition)
    if partition.rows:
        yield to_batch(partition.rows, to_arrow_schema(schema, timezone="UTC"))
