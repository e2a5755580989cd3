"""What the batch reader and the streaming reader share: a part of a segment file, and its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from relay.instruments.analytics.source.decoding import decode_problems, decode_segment
from relay.instruments.analytics.source.selection import Selection
from relay.journal import Problem
from relay.journal.reader import read_header


@dataclass
class SegmentPartition(InputPartition):
    """A part of a segment file, read in one task."""

    file: Path
    start: int = 0
    #: None is the end of the file.
    end: int | None = None
    #: In the place of rows: the problems of a file whose owner is unknown, or that is missing.
    problems: tuple[Problem, ...] = ()
    #: Whether the segments before it are not there, so that it has to say what was in force.
    in_force: bool = False


def read_partition(selection: Selection, schema: StructType, partition: SegmentPartition) -> Iterator[Any]:
    """The rows as Arrow record batches with the columns of the schema."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    # A selection of time needs the column `wall_ns`, also when the schema does not ask for it.
    is_timed = selection.has_time and "wall_ns" not in schema.names
    read_schema = arrow.append(pa.field("wall_ns", pa.int64())) if is_timed else arrow
    problems = list(partition.problems)
    header = None if problems else read_header(partition.file, problems)
    if header is not None:
        place = partition.start, partition.end, partition.in_force
        batches = decode_segment(partition.file, header, selection, read_schema, *place)
    else:
        batches = iter([decode_problems(problems, read_schema)] if "problem" in selection.kinds else [])
    return (batch.select(arrow.names) for batch in batches) if is_timed else batches
