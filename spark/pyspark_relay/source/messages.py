"""Rows that are messages: the multicasts that one node delivered, in their order, and gaps.

Messages to one member, and messages between channels, are not rows. A row of a gap stands where
messages are missing: a journal's gap, records that could not be written, damage of a file, a batch
that cannot be decoded, or a start of the node, before which it delivered nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from pyspark_relay.source.bulk import Chunk, read_bulk
from pyspark_relay.source.selection import Selection
from relay.journal import Problem
from relay.journal.store import WHY_LOST
from sitestack.journal import records
from sitestack.model.envelope import BETWEEN_CHANNELS, KEY, NO_ENVELOPE, Envelope
from sitestack.model.errors import ConfigurationError, ProtocolError
from sitestack.model.message import UNICASTS, Batch, Scope

_KINDS = (records.Deliver, records.Gap, records.View, records.Drop)


class Missing(NamedTuple):
    #: Numbers of the first and the last message; None: unknown.
    first: int | None
    last: int | None
    reason: str
    detail: str | None = None


class MessageRow(NamedTuple):
    """A row, in the order of `columns.MESSAGES`."""

    value: bytes | None = None
    key: str | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    site: str | None = None
    sender: str | None = None
    sender_uuid: str | None = None
    scope: str | None = None
    n: int | None = None
    #: Microseconds since 1970.
    time: int | None = None
    gap: Missing | None = None


Arrow: TypeAlias = Any  # pyarrow has no types


def to_batch(rows: Iterable[MessageRow], schema: Arrow) -> Arrow:
    columns = dict(zip(MessageRow._fields, zip(*rows, strict=True), strict=True))
    columns["gap"] = tuple(None if gap is None else gap._asdict() for gap in columns["gap"])
    return pa.RecordBatch.from_arrays([pa.array(columns[each.name], each.type) for each in schema], schema=schema)


def decode_messages(file: Path, selection: Selection, schema: Arrow, start: int, end: int | None) -> Iterator[Arrow]:
    """Yield the rows of the records that begin in `start..end` of a segment.

    Raises ConfigurationError for a journal without payloads.
    """
    for chunk in read_bulk(file, _KINDS, start, end, payloads=True, in_force=True):
        rows = [row for _, row in sorted(_rows(file, selection, chunk), key=lambda each: each[0])]
        if rows:
            yield to_batch(rows, schema)


def problem_row(problem: Problem) -> MessageRow:
    return MessageRow(gap=Missing(None, None, problem.kind, f"{problem.file}: {problem.what}"))


def _rows(file: Path, selection: Selection, chunk: Chunk) -> Iterator[tuple[int, MessageRow]]:
    table = chunk.tables.get(records.Deliver)
    for offset, row in [] if table is None else zip(table.offsets, zip(*table.columns, strict=True), strict=True):
        record = records.Deliver(*row)
        if record.scope in UNICASTS or not selection.has_moment(record.w):
            continue
        if record.payload is None:
            raise ConfigurationError(
                f'{file}: this journal has no payloads; set journal.keep_payloads, or use .option("rows", "records").'
            )
        sender = chunk.names.get(record.origin)
        for each in _messages(record):
            yield offset, each._replace(sender=sender)
    for offset, _, other in chunk.others:
        if isinstance(other, records.Gap) and selection.has_moment(other.w):
            yield offset, _gap(other, other.first, other.last, other.reason)
        if isinstance(other, records.Drop) and other.why == WHY_LOST and selection.has_moment(other.w):
            what = f"{other.n} records could not be written: {other.source}"
            yield offset, MessageRow(time=other.w // 1_000, gap=Missing(None, None, "unwritten", what))
    for problem in chunk.problems:
        yield problem.offset, problem_row(problem)


def _messages(record: records.Deliver) -> list[MessageRow]:
    assert record.payload is not None
    batch = Batch(record.site, record.origin, record.scope, record.first, record.count, record.payload)
    try:
        opened: list[tuple[Envelope, bytes]]
        opened = list(batch.opened()) if batch.has_envelopes else [(NO_ENVELOPE, each) for each in batch.payloads()]
    except ProtocolError:
        return [_gap(record, record.first, record.last, "malformed")]
    uuid, scope, time = batch.origin.hex(), Scope(batch.scope).name.lower(), record.w // 1_000
    return [
        MessageRow(payload, _key(envelope), _headers(envelope), batch.site, None, uuid, scope, n, time)
        for n, (envelope, payload) in enumerate(opened, batch.first)
        if envelope.kind not in BETWEEN_CHANNELS
    ]


def _key(envelope: Envelope) -> str | None:
    return envelope.key.decode("latin-1") or None


def _headers(envelope: Envelope) -> list[tuple[str, bytes]]:
    return [(name, value) for name, value in envelope.headers.items() if name != KEY]


def _gap(record: records.Deliver | records.Gap, first: int, last: int, reason: str) -> MessageRow:
    uuid, scope, gap = record.origin.hex(), Scope(record.scope).name.lower(), Missing(first, last, reason)
    return MessageRow(site=record.site, sender_uuid=uuid, scope=scope, time=record.w // 1_000, gap=gap)
