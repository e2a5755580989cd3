"""The Spark data source and sink `relay`: `spark.read.format("relay").load(path)`, `readStream`.

Rows are messages, or records of journals with option `rows`. They come from segment files, each a
partition, or with option `url` from running nodes. A reader decodes only the selected columns
(`select_schema`), and reads only the headers of excluded segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from pyspark_relay.sink.rows import require_columns
from pyspark_relay.sink.writing import StreamWriter, TableWriter
from pyspark_relay.source.columns import MESSAGES, SCHEMA
from pyspark_relay.source.places import local_path
from pyspark_relay.source.read_positions import Finder
from pyspark_relay.source.reading import SegmentPartition, read_partition
from pyspark_relay.source.selection import Offset, Selection, has_messages, parse_offsets, parse_selection
from pyspark_relay.source.site_reader import SiteReader, SiteStreamReader
from pyspark_relay.source.streaming import SegmentStreamReader, without_beginning
from pyspark_relay.target import SOURCE_OPTIONS, Target, parse_target
from relay.journal import Problem
from relay.journal.reader import wall_ns_at
from sitestack.model.errors import ConfigurationError

#: Tolerated backward step of a journal's wall clock (ns): queries by time then miss no rows.
CLOCK_STEP_NS = 60 * 1_000_000_000


def register(spark: SparkSession) -> None:
    spark.dataSource.register(RelayDataSource)


class RelayDataSource(DataSource):
    """Reads journals as a table; writes rows as messages of a running site."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name.lower(): value for name, value in options.items()})

    @classmethod
    def name(cls) -> str:
        return "relay"

    def schema(self) -> StructType:
        return MESSAGES if has_messages(self.options) else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        self._require_known(schema)
        since = parse_offsets(self.options, "startingOffsets", "earliest")
        until = parse_offsets(self.options, "endingOffsets", "latest")
        if (site := parse_site(self.options)) is not None:
            return SiteReader(site, schema, since, until)
        if since == "earliest" and until == "latest":
            return SegmentReader(source_paths(self.options), parse_selection(self.options), schema)
        return SegmentRangeReader(self._stream(schema, "earliest"), since, until)

    def streamReader(self, schema: StructType) -> SegmentStreamReader | SiteStreamReader:
        self._require_known(schema)
        since = parse_offsets(self.options, "startingOffsets", "earliest", "latest")
        if (site := parse_site(self.options)) is not None:
            return SiteStreamReader(site, schema, since)
        return self._stream(schema, since)

    def _stream(self, schema: StructType, since: str | Offset) -> SegmentStreamReader:
        limit = self.options.get("maxbytespertrigger")
        return SegmentStreamReader(source_paths(self.options), parse_selection(self.options), schema, limit, since)

    def _require_known(self, schema: StructType) -> None:
        known = self.schema()
        wrong = [
            field.name for field in schema if field.name not in known.names or known[field.name].dataType != field.dataType
        ]
        if wrong:
            raise ConfigurationError(f"Source relay has no column {', '.join(wrong)}, or not of that type.")

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        if overwrite:
            raise ConfigurationError('Sink relay: messages cannot be overwritten; use mode("append").')
        require_columns(schema)
        return TableWriter(parse_target(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        if overwrite:
            raise ConfigurationError('Sink relay: messages cannot be overwritten; use outputMode("append").')
        require_columns(schema)
        return StreamWriter(parse_target(self.options))


class SegmentRangeReader(DataSourceReader):
    def __init__(self, stream: SegmentStreamReader, since: str | Offset, until: str | Offset) -> None:
        self.stream = stream
        self.since = since if isinstance(since, dict) else {}
        self.until = without_beginning(until) if isinstance(until, dict) else None

    def partitions(self) -> list[InputPartition]:
        until = self.stream.latestOffset(self.since, ReadAllAvailable()) if self.until is None else self.until
        return self.stream.partitions(self.since, until)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.stream.read(partition)


class SegmentReader(DataSourceReader):
    def __init__(self, paths: list[Path], selection: Selection, schema: StructType) -> None:
        self.paths = paths
        self.selection = selection
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        journals = Finder(self.paths, self.selection, grows=False).find()
        found: list[InputPartition]
        found = [SegmentPartition(problem.file, problems=(problem,)) for problem in journals.strays.values()]
        for uuid, files in sorted(journals.segments.items()):
            begins = min(files)
            is_restart = self.selection.is_messages and journals.is_restart(uuid)
            selected = set(self._in_time([file for _, file in sorted(files.items())]))
            for number, file in sorted(files.items()):
                if file not in selected:
                    continue
                is_first = number == begins
                if not is_first and number - 1 not in files:
                    what = f"segment {number - 1} is not there, this is {number}"
                    found.append(SegmentPartition(file, problems=(Problem(file, 0, "missing", what),)))
                found.append(SegmentPartition(file, in_force=begins > 1 and is_first, is_restart=is_restart and is_first))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SegmentPartition)
        return read_partition(self.selection, self.schema, partition)

    def _in_time(self, segments: list[Path]) -> list[Path]:
        """Return the segments that overlap the selected time, with tolerance CLOCK_STEP_NS."""
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
    """Return the paths or `file:` addresses given to `load`. Raises ConfigurationError for none."""
    paths = json.loads(options["paths"]) if "paths" in options else [options["path"]] if "path" in options else []
    if not paths:
        raise ConfigurationError('Source relay needs a path, .load("journals/"), or the url of nodes.')
    return [local_path(path) for path in paths]


def parse_site(options: Mapping[str, str]) -> Target | None:
    """Return the nodes of option `url`; None without it. Raises ConfigurationError."""
    if "url" not in options:
        return None
    if not has_messages(options):
        raise ConfigurationError("Source relay: rows that are records need the path of journals, not a url.")
    return parse_target(options, "Source relay", SOURCE_OPTIONS)
