"""The writers of the sink, for streams and tables: each task publishes its partition in order.

A repeated task uses the same keys: of a stream by the query id, which the checkpoint keeps, and the batch
number. A table write draws a random name.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_relay.sink.rows import PublishError, read_rows
from pyspark_relay.target import Target
from relay.client import Client, NotPublished
from relay.client.exchange import BATCH_MESSAGES
from sitestack.model.errors import ConfigurationError

_HINT = " (a batch that is repeated must have the same rows in the same order, or a column key)"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Published(WriterCommitMessage):
    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[Any]) -> Published:
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise ConfigurationError("Sink relay: Spark does not name the query and the batch.")
        return _publish(iterator, self.target, f"spark-{query}-{batch}", context.partitionId())


class TableWriter(DataSourceArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = secrets.token_hex(16)

    def write(self, iterator: Iterator[Any]) -> Published:
        return _publish(iterator, self.target, f"spark-{self.name}", _context().partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return context


def _publish(batches: Iterator[Any], target: Target, name: str, partition: int) -> Published:
    """Publish a partition in order. Raises PublishError for the first message that is refused or late."""
    messages = read_rows(batches, f"{name}-{partition}")
    at = partition % len(target.urls)
    with Client([*target.urls[at:], *target.urls[:at]], target.token, give_up_s=target.timeout_s) as client:
        for begin in range(0, len(messages), BATCH_MESSAGES):  # each with the whole time of the option
            for result in client.publish_all(messages[begin : begin + BATCH_MESSAGES]):
                if isinstance(result, NotPublished):
                    raise PublishError(f"Message {result}{_HINT if ': 422: ' in str(result) else ''}")
    return Published(len(messages))
