"""The sink in Spark: a batch that failed half way and is repeated publishes each row once, and so does a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sink.scripted_door import ScriptedDoor, scripted_door


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
