"""The Spark data source `relay`: `spark.read.format("relay").load(path)`, and the same with `readStream`; and the sink.

One partition a segment file. A reader that is given a schema of some of the columns (`select_schema`) decodes and moves
only these. Options, all optional: `site`, `node`, `kinds` (names with commas), `since`, `until` (ISO 8601), `payloads`, and for
streams `maxBytesPerTrigger`. Segments that they rule out are not opened, but for their headers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_relay.sink.rows import require_columns
from pyspark_relay.sink.target import parse_target
from pyspark_relay.sink.writing import StreamWriter, TableWriter
from pyspark_relay.source.columns import SCHEMA
from pyspark_relay.source.places import local_path
from pyspark_relay.source.reading import SegmentPartition, read_partition
from pyspark_relay.source.selection import Selection, parse_selection
from pyspark_relay.source.streaming import SegmentStreamReader
from relay.journal import Problem
from relay.journal.frames import wall_ns_at
from relay.journal.reader import read_header, segment_files
from sitestack.model.errors import ConfigurationError

#: By how much a journal's wall clock may be set back without a query for a part of the time losing rows.
CLOCK_STEP_NS = 60 * 1_000_000_000


def register(spark: SparkSession) -> None:
    """Make the source known to a session."""
    spark.dataSource.register(RelayDataSource)


class RelayDataSource(DataSource):
    """Journals of processes as one table; written to, messages of a running site."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "relay"

    def schema(self) -> StructType:
        """All columns; `spark.read.schema` may ask for fewer."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads what is there now."""
        _require_known(schema)
        return SegmentReader(source_paths(self.options), parse_selection(self.options), schema)

    def streamReader(self, schema: StructType) -> SegmentStreamReader:
        """Reads what is there and what comes."""
        _require_known(schema)
        limit = self.options.get("maxbytespertrigger")
        return SegmentStreamReader(source_paths(self.options), parse_selection(self.options), schema, limit)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Publishes the rows of a table."""
        if overwrite:
            raise ConfigurationError('Sink relay: messages cannot be overwritten; use mode("append").')
        require_columns(schema)
        return TableWriter(parse_target(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Publishes the rows of a stream."""
        if overwrite:
            raise ConfigurationError('Sink relay: messages cannot be overwritten; use outputMode("append").')
        require_columns(schema)
        return StreamWriter(parse_target(self.options))


class SegmentReader(DataSourceReader):
    """Reads segment files, each in one task."""

    def __init__(self, paths: list[Path], selection: Selection, schema: StructType) -> None:
        self.paths = paths
        self.selection = selection
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """A partition for every segment that may hold rows of the selection."""
        found: list[InputPartition] = []
        journals: dict[tuple[str, str, bytes], list[tuple[int, Path]]] = {}
        for file in segment_files(self.paths):
            problems: list[Problem] = []
            header = read_header(file, problems)
            if header is None:
                found.append(SegmentPartition(file, problems=tuple(problems)))
            elif self.selection.has_journal(header.site, header.name):
                key = (header.site, header.name, header.uuid)
                journals.setdefault(key, []).append((header.number, file))
        for _, segments in sorted(journals.items()):
            number, beginning = min(segments)
            for file in self._in_time([file for _, file in sorted(segments)]):
                found.append(SegmentPartition(file, in_force=number > 1 and file == beginning))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one segment."""
        assert isinstance(partition, SegmentPartition)
        return read_partition(self.selection, self.schema, partition)

    def _in_time(self, segments: list[Path]) -> list[Path]:
        """Without the segments of a journal that end before the time that is asked for or begin after it."""
        if not self.selection.has_time:
            return segments
        begins = [wall_ns_at(file, 0) for file in segments]
        low, high = self.selection.since_ns - CLOCK_STEP_NS, self.selection.until_ns + CLOCK_STEP_NS
        return [
            file
            for file, begin, end in zip(segments, begins, [*begins[1:], None], strict=True)
            if (begin is None or begin <= high) and (end is None or end >= low)
        ]


def source_paths(options: Mapping[str, str]) -> list[Path]:
    """The paths that `load` was given, or the addresses of files: one, or a list."""
    paths = json.loads(options["paths"]) if "paths" in options else [options["path"]] if "path" in options else []
    if not paths:
        raise ConfigurationError('Source relay needs a path: spark.read.format("relay").load("journals/").')
    return [local_path(path) for path in paths]


def _require_known(schema: StructType) -> None:
    wrong = [field.name for field in schema if field.name not in SCHEMA.names or SCHEMA[field.name].dataType != field.dataType]
    if wrong:
        raise ConfigurationError(f"Source relay has no column {', '.join(wrong)}, or not of that type.")
