"""Spark finds the source by its name in a session without preparation, in Python and in SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pyspark_relay.java import find_java
from tests.spark.source import plain_session
from tests.spark.source.test_source import WRITTEN, write

#: A busy machine starts Java in a minute.
LIMIT_S = 300.0


@pytest.mark.long
@pytest.mark.slow
def test_the_source_is_known_without_registering_and_in_sql(tmp_path: Path) -> None:
    write(tmp_path / "journals", WRITTEN)
    # In another directory and not with `-m`, so that Python finds installed packages only.
    ran = subprocess.run(
        [sys.executable, str(Path(plain_session.__file__)), str(tmp_path / "journals")],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    expected = Counter(type(record).__name__.lower() for record in WRITTEN)
    expected["gview"] = expected.pop("globalview")
    assert found["format"] == {**expected, "segment": 1}
    assert found["view"] == {"send": 2, "deliver": 2}
    assert "table" not in found, "PySpark hands options of a table on now; docs/how-to/spark.md says that it does not"
    assert "Source relay needs a path" in found["refused"]
    assert found["imported"] == []
