"""Converts the rows of a partition to messages with keys.

A partition is read completely before it is published, so invalid or excessive rows are rejected
before any message is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from pyspark_relay.source.columns import MESSAGES
from relay.client import Outgoing
from sitestack.model.envelope import KEY_BYTES_MAX
from sitestack.model.errors import ConfigurationError

#: Maximum rows of a partition: half of a member's known keys, which then cover a repeated
#: partition.
ROWS_MAX = 32_768
#: Maximum bytes of a partition, which is held in memory.
BYTES_MAX = 64 << 20
#: Maximum bytes of a message: a line in base64 fits a body of `POST /messages`.
VALUE_BYTES_MAX = 1_500_000

_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "value": (StringType, BinaryType),
    "key": (StringType,),
    "scope": (StringType,),
    "headers": (MapType,),
}
#: Columns of the source that describe how a message came; a new message has its own.
_OF_SOURCE = {"site", "sender", "sender_uuid", "n", "time", "gap"}


class PublishError(Exception):
    """A message was rejected, or not accepted in time; the argument is a sentence."""


def require_columns(schema: StructType) -> None:
    """Raise ConfigurationError unless rows of this schema are messages."""
    if "value" not in schema.names:
        raise ConfigurationError(f"Sink relay needs a column value, a string or binary; there are {', '.join(schema.names)}.")
    for field in schema:
        if field.name in _OF_SOURCE and MESSAGES[field.name].dataType == field.dataType:
            continue
        kinds = _COLUMNS.get(field.name)
        if kinds is None:
            raise ConfigurationError(
                f"Sink relay publishes the columns value, key, headers and scope; drop column {field.name}."
            )
        if field.name == "headers" and field.dataType != MESSAGES["headers"].dataType:
            raise ConfigurationError("Sink relay: column headers must be map<string,binary>.")
        if not isinstance(field.dataType, kinds):
            expected = " or ".join(kind().simpleString() for kind in kinds)
            raise ConfigurationError(
                f"Sink relay: column {field.name} must be {expected}, not {field.dataType.simpleString()}."
            )


def read_rows(batches: Iterable[Any], prefix: str) -> list[Outgoing]:
    """Return the messages of Arrow record batches; a row without key gets `prefix` and its number.

    Rows of the source that are gaps are no messages. Raises PublishError for an invalid row or an oversized partition.
    """
    found: list[Outgoing] = []
    number = size = 0
    for batch in batches:
        if number + batch.num_rows > ROWS_MAX:
            raise PublishError(f"A partition has more than {ROWS_MAX:,} rows; have the source give fewer in a batch.")
        for outgoing in _read_batch(batch, prefix, number):
            size += len(outgoing.payload)
            if size > BYTES_MAX:
                raise PublishError(f"A partition has more than {BYTES_MAX:,} bytes; have the source give fewer in a batch.")
            found.append(outgoing)
        number += batch.num_rows
    return found


def _read_batch(batch: Any, prefix: str, begin: int) -> Iterator[Outgoing]:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in {*_COLUMNS, "gap"}}
    nothing = [None] * batch.num_rows
    rows = zip(*[columns.get(name, nothing) for name in ("value", "key", "scope", "headers", "gap")], strict=True)
    for number, (value, key, scope, headers, gap) in enumerate(rows, begin):
        if value is None and gap is not None:
            continue
        yield _outgoing(value, f"{prefix}-{number}" if key is None else key, scope or "all", dict(headers or ()), number)


def _outgoing(value: str | bytes | None, key: str, scope: str, headers: Mapping[str, bytes], number: int) -> Outgoing:
    if value is None:
        raise PublishError(f"Row {number} of the partition has no value.")
    payload = value.encode() if isinstance(value, str) else value
    if len(payload) > VALUE_BYTES_MAX:
        raise PublishError(f"Row {number} of the partition has {len(payload):,} bytes, of at most {VALUE_BYTES_MAX:,}.")
    if not 0 < len(key) <= KEY_BYTES_MAX or not all("!" <= each <= "~" for each in key):
        raise PublishError(
            f"Row {number} of the partition: a key has 1 to {KEY_BYTES_MAX} ASCII characters without white space."
        )
    if scope not in ("all", "site"):
        raise PublishError(f"Row {number} of the partition: scope must be all or site, not {scope!r}.")
    return Outgoing(payload, key, "all" if scope == "all" else "site", headers)
