"""One Spark session for the whole run: all tests of this folder belong to one group, so that one worker has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.analytics.session import open_session

HERE = Path(__file__).parent
pytest.register_assert_rewrite("tests.analytics.auditing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` a group stays together."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, as an audit of small journals has it."""
    session = open_session("tests", "local[2]", 0, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
