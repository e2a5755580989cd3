"""A reader opens only the files that its query needs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_relay.audit_command import main
from pyspark_relay.source import read_positions
from pyspark_relay.source.columns import SCHEMA, select_schema
from pyspark_relay.source.data_source import CLOCK_STEP_NS, RelayDataSource
from pyspark_relay.source.places import local_path
from pyspark_relay.source.reading import SegmentPartition
from relay.journal import JournalOptions, JournalStore, Problem
from relay.journal.encoding import Header
from relay.journal.reader import read_header
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.errors import ConfigurationError
from tests.spark.source.test_source import WRITTEN, rows_in, write

MINUTE = 60 * 1_000_000_000
#: Segments of a journal begin so far apart.
APART = 5 * MINUTE
assert APART > 2 * CLOCK_STEP_NS


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    """Two sites of two processes, each with three segments of two records, five minutes apart."""
    for number, (site, node) in enumerate([("NYC", "A"), ("NYC", "B"), ("SFO", "C"), ("SFO", "D")]):
        store = JournalStore(JournalOptions(tmp_path / site), site, Address(bytes([number]) * 16), node)
        for segment in range(3):
            wall = segment * APART
            store.write(records.Reject(wall, wall, "a"))
            store.write(records.Reject(wall + MINUTE, wall + MINUTE, "b"))
            store.close()  # the next record begins a segment
    assert len(list(tmp_path.rglob("*.rlj"))) == 12
    return tmp_path


def opened(path: Path, **options: str) -> list[tuple[str, int]]:
    """The segments that get a partition: name of the node, and number."""
    names = []
    for part in RelayDataSource({"rows": "records", "path": str(path), **options}).reader(SCHEMA).partitions():
        assert isinstance(part, SegmentPartition)
        names.append((part.file.name[0], int(part.file.name.split(".")[1])))
    return names


def moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, tz=UTC)


def test_without_a_choice_every_segment_is_a_partition(journals: Path) -> None:
    assert sorted(opened(journals)) == [(node, number) for node in "ABCD" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ({"site": "NYC"}, "AB"),
        ({"node": "B,C"}, "BC"),
        ({"site": "NYC", "node": "C"}, ""),
        ({"site": "LON"}, ""),
    ],
)
def test_options_choose_sites_and_nodes(journals: Path, options: dict[str, str], nodes: str) -> None:
    assert {node for node, _ in opened(journals, **options)} == set(nodes)


@pytest.mark.parametrize(
    ("since", "until", "segments"),
    [
        (0, APART // 2, {1}),
        (APART + 2 * MINUTE, APART + 3 * MINUTE, {2}),
        (2 * APART + 2 * MINUTE, None, {3}),
        (None, MINUTE, {1}),
        (APART + 2 * MINUTE, None, {2, 3}),
        (30 * APART, None, {3}),
    ],
)
def test_time_chooses_segments_and_the_last_one_may_still_grow(
    journals: Path, since: int | None, until: int | None, segments: set[int]
) -> None:
    options = {}
    if since is not None:
        options["since"] = moment(since).isoformat()
    if until is not None:
        options["until"] = moment(until).isoformat()
    assert {number for _, number in opened(journals, **options)} == segments


def test_a_clock_that_was_set_back_by_less_than_a_minute_costs_no_rows(journals: Path) -> None:
    just_before = APART - MINUTE // 2
    assert {number for _, number in opened(journals, since=moment(just_before).isoformat())} == {1, 2, 3}


def test_a_segment_that_retention_deletes_meanwhile_is_no_error_of_a_query_by_time(
    journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = min((journals / "NYC").glob("A*.rlj"))

    def read_and_delete(file: Path, problems: list[Problem]) -> Header | None:
        header = read_header(file, problems)
        if file == first:
            file.unlink()
        return header

    monkeypatch.setattr(read_positions, "read_header", read_and_delete)
    assert ("A", 2) in opened(journals, since=moment(APART).isoformat())


def test_only_rows_of_the_time_come_out_though_the_time_is_no_column(journals: Path) -> None:
    options = {"rows": "records", "path": str(journals), "since": moment(APART).isoformat(), "until": moment(APART).isoformat()}
    reader = RelayDataSource(options).reader(select_schema("kind", "reason"))
    rows = rows_in(reader, reader.partitions())
    assert [row for row in rows if row["kind"] != "segment"] == [{"kind": "reject", "reason": "a"}] * 4


def test_kinds_that_are_not_asked_for_do_not_come_out(journals: Path) -> None:
    reader = RelayDataSource({"rows": "records", "path": str(journals), "kinds": "segment, problem"}).reader(SCHEMA)
    rows = rows_in(reader, reader.partitions())
    assert [row["kind"] for row in rows] == ["segment"] * 12


@pytest.mark.long
def test_a_table_gives_all_its_rows_again_after_it_was_filtered(spark: SparkSession, journals: Path) -> None:
    table = spark.read.format("relay").option("rows", "records").load(str(journals))
    parts = [table.where("site = 'NYC'"), table.where("site = 'SFO'")]
    assert [part.count() for part in parts] == [18, 18]
    assert parts[0].unionByName(parts[1]).count() == table.count() == 36
    assert table.rdd.getNumPartitions() == 12


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sites": "NYC"}, "no option sites"),
        ({"kinds": "deliver,sent"}, "sent is no kind of row"),
        ({"since": "yesterday"}, "'yesterday' is not a time"),
    ],
)
def test_a_wrong_option_is_a_sentence(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        RelayDataSource({"rows": "records", "path": str(tmp_path), **options}).reader(SCHEMA)


def test_a_column_that_it_has_not_is_a_sentence(tmp_path: Path) -> None:
    from_elsewhere: Any = select_schema("kind").add("colour", "string")
    with pytest.raises(ConfigurationError, match="no column colour"):
        RelayDataSource({"rows": "records", "path": str(tmp_path)}).reader(from_elsewhere)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("journals/", "journals"),
        ("a:b/journals", "a:b/journals"),
        ("/mnt/journals", "/mnt/journals"),
        ("file:///mnt/journals", "/mnt/journals"),
        ("FILE:///mnt/journals/", "/mnt/journals"),
        ("file:/mnt/journals", "/mnt/journals"),
        ("file://localhost/mnt/journals", "/mnt/journals"),
        ("file:///mnt/day%201/a b#c?", "/mnt/day 1/a b#c?"),
    ],
)
def test_a_path_is_a_path_and_so_is_the_address_of_a_file(place: str, path: str) -> None:
    assert local_path(place) == Path(path)


@pytest.mark.parametrize("place", ["s3a://bucket/journals", "hdfs://name:8020/journals", "s3://bucket"])
def test_a_path_outside_a_file_system_is_refused_with_the_reason(place: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        local_path(place)
    assert str(refused.value) == (f"{place}: Relay's own reader of journals needs a file system: mount or copy the journals.")


@pytest.mark.parametrize("place", ["file://elsewhere/journals", "file:journals", "file://", "file:////host/share"])
def test_the_file_of_another_machine_is_no_file_here(place: str) -> None:
    with pytest.raises(ConfigurationError, match="is file:///path"):
        local_path(place)


@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_the_source_accepts_file_urls_and_refuses_others(tmp_path: Path, reader: str) -> None:
    write(tmp_path, WRITTEN)
    assert getattr(RelayDataSource({"rows": "records", "path": tmp_path.as_uri()}), reader)(SCHEMA) is not None
    with pytest.raises(ConfigurationError, match="needs a file system"):
        getattr(RelayDataSource({"rows": "records", "paths": '["hdfs://name/journals"]'}), reader)(SCHEMA)


def test_the_job_refuses_a_path_with_the_same_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hdfs://name/journals", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("hdfs://name/journals: Relay's own reader of journals needs a file system")
