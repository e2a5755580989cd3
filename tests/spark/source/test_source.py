"""Source `relay` as a table: its columns, and damage as rows."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_relay.source.columns import MESSAGES, SCHEMA, select_schema
from pyspark_relay.source.data_source import RelayDataSource
from pyspark_relay.source.decoding import Schema
from pyspark_relay.source.selection import ALL_KINDS, OPTIONS
from relay.journal import JournalOptions, JournalStore
from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.harness.addresses import address

A, B = map(address, "AB")
VID, NEXT = ViewId(1, A), ViewId(2, A)
SIZES = struct.pack("<2I", 10, 20)
DIGEST = bytes(range(32))
W = 1_700_000_000_123_456_789

#: One of each kind, in the order of a journal.
WRITTEN: list[records.Record] = [
    records.Start(1, W, "NYC", A, "A", 7, 8, "1.0", 9),
    records.View(2, W, VID, VID, (A, B), ("A", "B")),
    records.GlobalView(3, W, {"NYC": VID}, (("NYC", A), ("NYC", B)), ("SFO",)),
    records.Role(4, W, "relay", VID, ("SFO",)),
    records.Send(5, W, "NYC", A, Scope.ALL, 1, 2, None, "", SIZES, DIGEST, b"body"),
    records.Send(6, W, "NYC", A, Scope.UNICAST, 1, 2, B, "SFO", SIZES, DIGEST),
    records.Deliver(7, W, "NYC", A, Scope.ALL, 1, 2, "local", 5, VID, {"NYC": VID}, SIZES, DIGEST, b"body"),
    records.View(8, W, NEXT, VID, (A, B), ("A", "B"), "merge", ((VID, (A,)),)),
    records.Deliver(9, W, "SFO", B, Scope.SITE, 3, 2, "relay", None, NEXT, {}, SIZES, DIGEST),
    records.Gap(10, W, "SFO", B, 5, 7, "budget", Scope.SITE),
    records.Baseline(11, W, "SFO", B, 8, True),
    records.Unreach(12, W, "NYC", A, Scope.UNICAST, 1, 2, B, "SFO", "down", "unknown"),
    records.Reject(13, W, "full"),
    records.Drop(14, W, "stale", "SFO", 3),
    records.Stop(15, W, "left"),
]


def write(directory: Path, written: Iterable[records.Record], name: str = "A", segment_bytes: int = 1 << 20) -> list[Path]:
    """A journal of process A; its segments."""
    store = JournalStore(JournalOptions(directory, segment_bytes=segment_bytes, keep_payloads=True), "NYC", A, name)
    for record in written:
        store.write(record)
    store.close()
    return sorted(directory.glob("*.rlj"))


def read(path: Path, schema: Schema = SCHEMA, **options: str) -> list[dict[str, Any]]:
    """The rows of the source as Spark's workers make them, by journal and position."""
    reader = RelayDataSource({"rows": "records", "path": str(path), **options}).reader(schema)
    return sorted(rows_in(reader, reader.partitions()), key=lambda row: (row.get("position") or 0, row["kind"] != "segment"))


def rows_in(reader: DataSourceReader, parts: Iterable[InputPartition]) -> list[dict[str, Any]]:
    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def rows_of(path: Path, kind: str, **options: str) -> list[dict[str, Any]]:
    return [row for row in read(path, **options) if row["kind"] == kind]


def said(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_there_is_a_row_a_record_and_one_a_segment(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    rows = read(tmp_path)
    kinds = ["start", "view", "gview", "role", "send", "send", "deliver", "view", "deliver", "gap", "baseline", "unreach"]
    assert [row["kind"] for row in rows] == ["segment", *kinds, "reject", "drop", "stop"]
    assert {said(row, "site", "node", "uuid", "segment") for row in rows} == {("NYC", "A", "41" * 16, 1)}
    assert [row["mono_ns"] for row in rows[1:]] == list(range(1, 16))
    assert {row["wall_ns"] for row in rows[1:]} == {W}
    assert {row["time"] for row in rows[1:]} == {datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)}
    assert [row["views"] for row in rows[1:]] == [0, *[1] * 6, *[2] * 8]


def test_messages_have_their_batch_in_columns(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    multicast, unicast = rows_of(tmp_path, "send")
    batch = ("origin_site", "origin", "scope", "first", "last", "bytes", "sizes", "digest")
    assert said(multicast, *batch) == ("NYC", "41" * 16, "all", 1, 2, 30, [10, 20], DIGEST)
    assert said(multicast, "target", "target_site") == (None, "")
    assert said(unicast, "scope", "target", "target_site") == ("unicast", "42" * 16, "SFO")
    local, relayed = rows_of(tmp_path, "deliver")
    assert said(local, *batch, "via", "gseq") == ("NYC", "41" * 16, "all", 1, 2, 30, [10, 20], DIGEST, "local", 5)
    assert said(relayed, "origin_site", "scope", "first", "last", "via", "gseq") == ("SFO", "site", 3, 4, "relay", None)
    assert relayed["vid"] == {"counter": 2, "creator": "41" * 16}


def test_records_of_other_kinds_have_their_fields_in_columns(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    vid = {"counter": 1, "creator": "41" * 16}
    [start] = rows_of(tmp_path, "start")
    assert said(start, "pid", "incarnation", "version", "seed") == (7, 8, "1.0", 9)
    _, merge = rows_of(tmp_path, "view")
    members = [{"site": "NYC", "uuid": letter * 16, "name": name} for letter, name in (("41", "A"), ("42", "B"))]
    subs = [{"vid": vid, "members": ["41" * 16]}]
    assert said(merge, "lineage", "members", "view_kind", "subs") == (vid, members, "merge", subs)
    [whole] = rows_of(tmp_path, "gview")
    assert said(whole, "gvec", "down") == ([("NYC", vid)], ["SFO"])
    [role] = rows_of(tmp_path, "role")
    assert said(role, "role", "epoch", "to_sites") == ("relay", vid, ["SFO"])
    [gap] = rows_of(tmp_path, "gap")
    assert said(gap, "origin_site", "origin", "scope", "first", "last", "reason") == ("SFO", "42" * 16, "site", 5, 7, "budget")
    [baseline] = rows_of(tmp_path, "baseline")
    assert said(baseline, "first", "last", "reason") == (8, None, "in_state")
    [unreach] = rows_of(tmp_path, "unreach")
    named = ("scope", "first", "last", "target", "target_site", "reason", "certainty")
    assert said(unreach, *named) == ("unicast", 1, 2, "42" * 16, "SFO", "down", "unknown")
    [drop] = rows_of(tmp_path, "drop")
    assert said(drop, "reason", "source", "times") == ("stale", "SFO", 3)


def test_bodies_are_there_only_when_they_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    assert {row["payload"] for row in read(tmp_path)} == {None}
    assert [row["payload"] for row in rows_of(tmp_path, "send", payloads="true")] == [b"body", None]


def test_only_the_columns_that_are_asked_for_are_made(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    rows = read(tmp_path, select_schema("kind", "first", "wall_ns"))
    assert {tuple(row) for row in rows} == {("kind", "first", "wall_ns")}
    whole = [said(row, "kind", "first", "wall_ns") for row in read(tmp_path)]
    assert sorted(map(repr, whole)) == sorted(repr(tuple(row.values())) for row in rows)


def test_positions_order_the_rows_of_a_journal_over_its_segments(tmp_path: Path) -> None:
    segments = write(tmp_path, WRITTEN, segment_bytes=300)
    rows = read(tmp_path)
    assert len(segments) == max(row["segment"] for row in rows) > 2
    assert [row["mono_ns"] for row in rows if row["kind"] != "segment"] == list(range(1, 16))


def test_a_torn_tail_is_a_row_with_its_place(tmp_path: Path) -> None:
    [file] = write(tmp_path, WRITTEN)
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    rows = read(tmp_path)
    [problem] = [row for row in rows if row["kind"] == "problem"]
    assert said(problem, "site", "node", "reason", "file") == ("NYC", "A", "torn", str(file))
    assert problem["detail"].endswith("are no whole record")
    assert len([row for row in rows if row["kind"] not in ("problem", "segment")]) == len(WRITTEN) - 1


def test_a_corrupt_record_is_a_row_and_all_others_are_read(tmp_path: Path) -> None:
    [file] = write(tmp_path, WRITTEN)
    at = rows_of(tmp_path, "gap")[0]["offset"]
    data = bytearray(file.read_bytes())
    data[at + 14] ^= 1
    file.write_bytes(data)
    rows = read(tmp_path)
    assert [said(row, "offset", "reason") for row in rows if row["kind"] == "problem"] == [(at, "corrupt")]
    assert len([row for row in rows if row["kind"] not in ("problem", "segment")]) == len(WRITTEN) - 1


@pytest.mark.parametrize("contents", [b"", b"x", b"no journal at all, but long enough to be one"])
def test_a_file_that_is_no_segment_is_a_problem_row_without_a_process(tmp_path: Path, contents: bytes) -> None:
    write(tmp_path, WRITTEN)
    stray = tmp_path / "stray.000001.rlj"
    stray.write_bytes(contents)
    [problem] = rows_of(tmp_path, "problem")
    assert said(problem, "site", "uuid", "file", "offset") == (None, None, str(stray), 0)
    assert len(rows_of(tmp_path, "deliver")) == 2


def test_a_segment_that_goes_between_plan_and_task_is_a_row(tmp_path: Path) -> None:
    [file] = write(tmp_path, WRITTEN)
    reader = RelayDataSource({"rows": "records", "path": str(tmp_path)}).reader(SCHEMA)
    parts = reader.partitions()
    file.unlink()
    rows = rows_in(reader, parts)
    assert [said(row, "kind", "reason", "file") for row in rows] == [("problem", "unreadable", str(file))]


def test_spark_gives_the_rows_that_the_reader_makes(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, WRITTEN, segment_bytes=300)
    table = spark.read.format("relay").option("rows", "records").load(str(tmp_path))
    assert table.schema == SCHEMA
    rows = {(row["kind"], row["position"]): row.asDict(recursive=True) for row in table.collect()}
    assert {kind for kind, _ in rows} == ALL_KINDS - {"problem"}
    for expected in read(tmp_path):
        found = rows.pop((expected["kind"], expected["position"]))
        gvec = expected["gvec"] and dict(expected["gvec"])
        when = expected["time"] and expected["time"].replace(tzinfo=None)
        assert {**found, "time": None} == {**expected, "gvec": gvec, "time": None}
        assert when is None or abs((found["time"].astimezone(UTC).replace(tzinfo=None) - when).total_seconds()) < 1e-6
    assert rows == {}


PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("title", "schema"), [("messages", MESSAGES), ("records", SCHEMA)])
def test_the_page_lists_every_column_in_order_with_its_type(title: str, schema: StructType) -> None:
    section = PAGE.partition(f"## Columns of {title}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| (\S+) \| .+ \|$", section, re.MULTILINE)
    assert [name for name, _ in documented] == schema.names
    assert all(schema[name].dataType.simpleString().startswith(kind) for name, kind in documented)


def test_the_page_lists_every_option() -> None:
    named = PAGE.lower()
    assert [option for option in OPTIONS if f"`{option}`" not in named] == []
