"""One Spark session for the whole run: the scheduler in the conftest at the root gives all of this folder to one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_relay.session import open_session

pytest.register_assert_rewrite("tests.spark.promises.auditing")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, as an audit of small journals has it."""
    session = open_session("tests", "local[2]", 0, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
