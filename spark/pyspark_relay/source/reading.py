"""Partitions of segment files, and their rows; shared by the batch and the streaming reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_relay.source.decoding import decode_problems, decode_segment
from pyspark_relay.source.messages import MessageRow, Missing, decode_messages, problem_row, to_batch
from pyspark_relay.source.retired import Owner, explain
from pyspark_relay.source.selection import Selection
from relay.journal import Problem
from relay.journal.reader import read_header


@dataclass
class SegmentPartition(InputPartition):
    """A part of a segment file, read in one task."""

    file: Path
    start: int = 0
    end: int | None = None
    #: Problems of a missing file or one with an unknown owner; it has no rows.
    problems: tuple[Problem, ...] = ()
    #: Whether earlier segments are missing, so that records still in force are included.
    in_force: bool = False
    #: Messages only: the node has an earlier journal, so it missed messages before this one.
    is_restart: bool = False
    #: Streams only: the journal; and the segment at whose beginning a problem of kind `retired` stands.
    owner: Owner | None = None
    number: int = 0


def read_partition(selection: Selection, schema: StructType, partition: SegmentPartition) -> Iterator[Any]:
    arrow = to_arrow_schema(schema, timezone="UTC")
    if selection.is_messages:
        return _messages(selection, arrow, partition)
    # The time filter needs `wall_ns` even if the schema lacks it.
    is_timed = selection.has_time and "wall_ns" not in schema.names
    read_schema = arrow.append(pa.field("wall_ns", pa.int64())) if is_timed else arrow
    batches = _rows(selection, read_schema, partition)
    return (batch.select(arrow.names) for batch in batches) if is_timed else batches


def _messages(selection: Selection, schema: Any, partition: SegmentPartition) -> Iterator[Any]:
    problems = list(partition.problems)
    has_rows = partition.start != partition.end and not problems
    if has_rows and read_header(partition.file, problems) is None:
        has_rows = False
    gaps = [problem_row(explain(problem, partition.owner)) for problem in problems]
    if partition.in_force:
        gaps.append(MessageRow(gap=Missing(None, None, "retired", f"{partition.file}: the segments before it are not there")))
    if partition.is_restart:
        gaps.append(MessageRow(gap=Missing(None, None, "restarted", "messages before the node joined again")))
    if gaps:
        yield to_batch(gaps, schema)
    if has_rows:
        yield from decode_messages(partition.file, selection, schema, partition.start, partition.end)


def _rows(selection: Selection, schema: Any, partition: SegmentPartition) -> Iterator[Any]:
    problems = list(partition.problems)
    is_empty = partition.start == partition.end and not problems
    header = None if problems or is_empty else read_header(partition.file, problems)
    if header is not None:
        place = partition.start, partition.end, partition.in_force, partition.owner
        yield from decode_segment(partition.file, header, selection, schema, *place)
    elif problems and "problem" in selection.kinds:
        told = [explain(problem, partition.owner) for problem in problems]
        is_retired = any(problem.kind == "retired" for problem in told)
        yield decode_problems(told, schema, partition.owner if is_retired else None, partition.number)
