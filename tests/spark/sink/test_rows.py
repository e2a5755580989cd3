"""Valid and invalid rows of the sink, without Spark's Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, LongType, MapType, StringType

from pyspark_relay.sink import rows
from pyspark_relay.sink.rows import PublishError, read_rows, require_columns
from pyspark_relay.source.columns import MESSAGES, struct
from pyspark_relay.source.data_source import RelayDataSource
from pyspark_relay.source.messages import MessageRow, Missing, to_batch
from pyspark_relay.target import OPTIONS, TIMEOUT_S, Target, parse_target
from relay.client import Outgoing
from relay.client.exchange import _next_lines
from relay.node.http.messages import BODY_BYTES_MAX
from sitestack.channel.sending.message_keys import KEYS_MAX
from sitestack.model.errors import ConfigurationError
from tests.spark.sink.scripted_door import ScriptedDoor, scripted_door


def batch(*values: Any, **columns: list[Any]) -> Any:
    return pa.record_batch({"value": list(values), **columns})


def test_rows_are_messages_with_keys_that_are_their_places_in_the_partition() -> None:
    batches = [
        batch("Grüße", "", key=["mine", None], scope=[None, "site"]),
        batch(b"\xff", key=pa.nulls(1, pa.string()), scope=["all"]),
    ]
    assert read_rows(batches, "q-7-0") == [
        Outgoing("Grüße".encode(), "mine", "all"),
        Outgoing(b"", "q-7-0-1", "site"),
        Outgoing(b"\xff", "q-7-0-2", "all"),
    ]
    assert read_rows([batch(b"x")], "q") == [Outgoing(b"x", "q-0", "all")]
    assert read_rows([], "q") == []


def test_rows_of_the_source_are_published_without_a_transformation_or_the_gaps() -> None:
    require_columns(MESSAGES)
    message = MessageRow(b"\xff", "mine", [("trace", b"\x01")], "SFO", "D", "41" * 16, "site", 7, 5)
    gap = MessageRow(site="SFO", gap=Missing(1, 3, "budget"))
    found = read_rows([to_batch([gap, message, message._replace(key=None)], to_arrow_schema(MESSAGES, timezone="UTC"))], "q")
    headers = {"trace": b"\x01"}
    assert found == [Outgoing(b"\xff", "mine", "site", headers), Outgoing(b"\xff", "q-2", "site", headers)]


@pytest.mark.parametrize(
    ("of_batch", "why"),
    [
        (batch("x", None), "Row 1 of the partition has no value"),
        (batch("x", key=["a b"]), "Row 0 of the partition: a key has 1 to 128 ASCII"),
        (batch("x", key=[""]), "a key has 1 to 128 ASCII"),
        (batch("x", key=["k" * 129]), "a key has 1 to 128 ASCII"),
        (batch("x", scope=["B"]), "scope must be all or site, not 'B'"),
        (batch(b"x" * 1_500_001), "1,500,001 bytes, of at most 1,500,000"),
    ],
)
def test_an_invalid_row_is_refused_before_any_row_is_published(of_batch: Any, why: str) -> None:
    with pytest.raises(PublishError, match=why):
        read_rows([of_batch], "q")


def test_a_partition_is_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 * rows.ROWS_MAX <= KEYS_MAX
    largest = Outgoing(bytes(rows.VALUE_BYTES_MAX), "k" * 128, "site", {"h": bytes(1_000)})
    assert len(_next_lines([largest], [0])[1]) < BODY_BYTES_MAX
    monkeypatch.setattr(rows, "ROWS_MAX", 3)
    monkeypatch.setattr(rows, "BYTES_MAX", 10)
    assert len(read_rows([batch("a", "b"), batch("c")], "q")) == 3
    with pytest.raises(PublishError, match="more than 3 rows"):
        read_rows([batch("a", "b"), batch("c", "d")], "q")
    with pytest.raises(PublishError, match="more than 10 bytes"):
        read_rows([batch("abcdef"), batch("ghijk")], "q")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"id": LongType()}, "needs a column value, a string or binary; there are id"),
        ({"value": LongType()}, "column value must be string or binary, not bigint"),
        ({"value": StringType(), "key": LongType()}, "column key must be string, not bigint"),
        ({"value": StringType(), "target": StringType()}, "drop column target"),
        ({"value": StringType(), "n": StringType()}, "drop column n"),
        ({"value": StringType(), "headers": MapType(StringType(), StringType())}, "headers must be map<string,binary>"),
    ],
)
def test_a_schema_that_is_no_message_is_one_sentence(columns: dict[str, DataType], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        require_columns(struct(**columns))


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_nothing_is_overwritten_and_the_schema_and_options_are_looked_at_first(kind: str) -> None:
    fit = struct(value=StringType())
    source = RelayDataSource({"url": "http://127.0.0.1:7800"})
    assert getattr(source, kind)(fit, False).target == Target(("http://127.0.0.1:7800",))
    with pytest.raises(ConfigurationError, match="cannot be overwritten"):
        getattr(source, kind)(fit, True)
    with pytest.raises(ConfigurationError, match="column value"):
        getattr(source, kind)(struct(id=LongType()), False)
    with pytest.raises(ConfigurationError, match="needs the HTTP addresses"):
        getattr(RelayDataSource({}), kind)(fit, False)


def test_options_are_parsed_and_invalid_ones_are_refused_without_the_token() -> None:
    target = parse_target({"url": "http://a:7800/, https://b/relay", "Token": "secret", "timeout": "2.5", "queryName": "q"})
    assert target == Target(("http://a:7800", "https://b/relay"), "secret", 2.5)
    assert "secret" not in repr(target)
    assert parse_target({"url": "http://a"}).timeout_s == TIMEOUT_S
    for options in (
        *(
            {"url": url}
            for url in ("", "a:7800", "ftp://a", "http://", "http://u@a", "http://a?b", "http://a:x", "http://[", "http://a b")
        ),
        *({"url": "http://a", "timeout": text} for text in ("soon", "0", "-1", "nan", "inf", "86401")),
        {"url": "http://a", "retries": "3"},
        {"url": "http://a", "token": "secret\r\nX: y"},
    ):
        with pytest.raises(ConfigurationError) as told:
            parse_target(options)
        assert "secret" not in str(told.value), options


def test_every_option_of_the_sink_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
    assert [option for option in OPTIONS if f"| `{option}` |" not in page] == []


@pytest.fixture
def door() -> Iterator[ScriptedDoor]:
    with scripted_door() as door:
        yield door


def lines(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(directory))


def publish(rows: DataFrame, door: ScriptedDoor, checkpoint: Path) -> None:
    """Until everything that is there is published."""
    writer = rows.writeStream.format("relay").option("url", door.url).option("token", "secret")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.long
def test_a_batch_that_failed_half_way_has_the_same_keys_when_it_is_repeated(
    tmp_path: Path, spark: SparkSession, door: ScriptedDoor
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    (source / "one.txt").write_text("".join([f"line {n}\n" for n in range(5)]))
    door.script = lambda post: 400 if len(door.posts) >= 3 else None
    with pytest.raises(PySparkException, match=r"Message spark-.*: 400: told 400"):
        publish(lines(spark, source), door, checkpoint)
    assert len(door.posts) == 3
    door.script = lambda _: None
    publish(lines(spark, source), door, checkpoint)
    assert door.payloads() == [f"line {n}".encode() for n in range(5)]
    assert len(door.posts) == 8
    assert {each.token for each in door.posts} == {"Bearer secret"}


def test_a_table_is_published_once_for_each_time_it_is_written(spark: SparkSession, door: ScriptedDoor) -> None:
    table = spark.sql("select concat('row ', id) as value, if(id = 1, 'mine', null) as key, 'site' as scope from range(3)")
    for _ in range(2):
        table.coalesce(1).write.format("relay").mode("append").option("url", door.url).save()
    assert [each.payload for each in door.posts] == [b"row 0", b"row 1", b"row 2"] * 2
    assert len(door.payloads()) == 5
    assert {each.scope for each in door.posts} == {"site"}
    with pytest.raises(PySparkException, match="needs a column value"):
        spark.range(1).write.format("relay").mode("append").option("url", door.url).save()
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        table.write.format("relay").mode("overwrite").option("url", door.url).save()
