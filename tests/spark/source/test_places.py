"""Where journals are: paths and addresses of files, and nothing that is no file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_relay.audit_command import main
from pyspark_relay.source.columns import SCHEMA
from pyspark_relay.source.data_source import RelayDataSource
from pyspark_relay.source.places import local_path
from sitestack.model.errors import ConfigurationError
from tests.spark.source.test_source import WRITTEN, read, rows_in, write


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
def test_what_is_no_file_system_is_refused_with_the_reason(place: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        local_path(place)
    assert str(refused.value) == (f"{place}: Relay's own reader of journals needs a file system: mount or copy the journals.")


@pytest.mark.parametrize("place", ["file://elsewhere/journals", "file:journals", "file://", "file:////host/share"])
def test_the_file_of_another_machine_is_no_file_here(place: str) -> None:
    with pytest.raises(ConfigurationError, match="is file:///path"):
        local_path(place)


@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_the_source_takes_addresses_of_files_and_refuses_others(tmp_path: Path, reader: str) -> None:
    write(tmp_path, WRITTEN)
    assert getattr(RelayDataSource({"rows": "records", "path": tmp_path.as_uri()}), reader)(SCHEMA) is not None
    with pytest.raises(ConfigurationError, match="needs a file system"):
        getattr(RelayDataSource({"rows": "records", "paths": '["hdfs://name/journals"]'}), reader)(SCHEMA)


def test_rows_name_the_file_as_if_its_path_had_been_given(tmp_path: Path) -> None:
    [file] = write(tmp_path, WRITTEN)
    reader = RelayDataSource({"rows": "records", "path": tmp_path.as_uri()}).reader(SCHEMA)
    rows = rows_in(reader, reader.partitions())
    assert [row["file"] for row in rows if row["kind"] == "segment"] == [str(file)] == [read(tmp_path)[0]["file"]]
    assert len(rows) == len(WRITTEN) + 1


def test_the_job_refuses_in_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hdfs://name/journals", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("hdfs://name/journals: Relay's own reader of journals needs a file system")
