"""The writers of the sink, for streams and tables: each task publishes its partition in order.

A repeated task uses the same keys. Keys of a stream contain the query id, which the checkpoint
keeps, and the batch number. A table write draws a random name, so a second write publishes again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_relay.sink.publisher import Publisher
from pyspark_relay.sink.rows import read_rows
from pyspark_relay.target import Target
from sitestack.model.errors import ConfigurationError

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Published(WriterCommitMessage):
    """The number of rows that a task published."""

    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the batches of a stream."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[Any]) -> Published:
        """Publish one partition of a batch."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise ConfigurationError("Sink relay: Spark does not name the query and the batch.")
        return _publish(iterator, self.target, f"spark-{query}-{batch}", context.partitionId())


class TableWriter(DataSourceArrowWriter):
    """Publishes a table once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = secrets.token_hex(16)

    def write(self, iterator: Iterator[Any]) -> Published:
        """Publish one partition."""
        return _publish(iterator, self.target, f"spark-{self.name}", _context().partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return context


def _publish(batches: Iterator[Any], target: Target, name: str, partition: int) -> Published:
    messages = read_rows(batches, f"{name}-{partition}")
    publisher = Publisher(target, begin_at=partition)
    try:
        publisher.publish(messages)
    finally:
        publisher.close()
    return Published(len(messages))
