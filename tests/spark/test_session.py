"""The session of a job: settings that fit the journals, and one sentence when Spark does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_relay.session import (
    PARTITION_BYTES,
    SMALL_BYTES,
    count_partitions,
    find_cause,
    measure_bytes,
    settings,
)
from relay.journal import JournalError


def test_small_journals_are_one_partition_and_large_ones_have_one_for_every_so_many_bytes() -> None:
    assert count_partitions(SMALL_BYTES) == 1
    assert count_partitions(10 * PARTITION_BYTES) == 10
    assert count_partitions(10 * PARTITION_BYTES + 1) == 11
    assert settings(10 * PARTITION_BYTES)["spark.sql.shuffle.partitions"] == "10"
    assert settings(SMALL_BYTES)["spark.sql.shuffle.partitions"] == "1"


def test_the_cause_of_a_java_error_is_found_in_its_message_or_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        'WARN: x\nException in thread "main" org.apache.spark.SparkException: Master must either be yarn or local\n\tat a.b\n'
    )
    assert (
        find_cause(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited."), log)
        == "Master must either be yarn or local"
    )
    log.write_text("")
    words = "An error occurred.\n: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n\tat a.b"
    assert find_cause(RuntimeError(words), log) == "Could not parse Master URL: 'local[x]'"
    assert find_cause(RuntimeError("gone\nsomewhere"), log) == "gone"


def test_a_folder_without_journals_raises_a_journal_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal in"):
        measure_bytes([tmp_path])
    with pytest.raises(JournalError, match="no such file or directory"):
        measure_bytes([tmp_path / "nowhere"])
