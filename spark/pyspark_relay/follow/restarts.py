"""Keeps the streams of `relay audit --follow` running: restarts those that fail, and tells of rows that come too late."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_relay.follow.judge import FollowError

#: Failures without a batch in between after which a stream is given up.
FAILURES_MAX = 8


class RestartedStream:
    """A query that is restarted from its checkpoint when it fails, as when a worker does not come up on a busy machine."""

    def __init__(self, name: str, start: Callable[[], StreamingQuery]) -> None:
        self.name = name
        self._start = start
        self._query = start()
        self._failures = 0

    @property
    def is_active(self) -> bool:
        """Whether the query runs. One that takes only what is there ends by itself."""
        return bool(self._query.isActive)

    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way."""
        return bool(self._query.status["isTriggerActive"])

    def watch(self) -> None:
        """Restart the query if it has failed. Raises FollowError when restarts do not help, or cannot."""
        failure = self._query.exception()
        if failure is None:
            return
        self._failures = 1 if self._query.lastProgress is not None else self._failures + 1
        if self._failures >= FAILURES_MAX or FollowError.__name__ in str(failure):
            lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
            why = next((line for line in lines if FollowError.__name__ in line), lines[0])
            raise FollowError(f"The stream {self.name} of the audit ended: {why.rpartition(f'{FollowError.__name__}: ')[2]}")
        self._query = self._start()

    def stop(self) -> None:
        """End the query; an unfinished batch is aborted, and repeated by the next run."""
        self._query.stop()


class LateRows(StreamingQueryListener):
    """Tells of rows that come too late for a table and are left out of it, with a sentence for every such batch."""

    def __init__(self, horizon_s: int, tell: Callable[[str], None]) -> None:
        self.horizon_s = horizon_s
        self.tell = tell

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        progress = event.progress
        late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
        if late:
            where = f"table {progress.name} (batch {progress.batchId})"
            self.tell(f"{late} rows came more than {self.horizon_s} s late and are not in {where}.")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to say."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to say."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The stream itself is asked."""
