"""docs/reference/spark.md says what the code says."""

from __future__ import annotations

from pathlib import Path

from pyspark_relay.source.columns import COLUMNS
from pyspark_relay.source.selection import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spark.md").read_text(encoding="utf-8")


def test_every_column_stands_there_with_its_meaning() -> None:
    lines = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    documented = {cells[0].removeprefix("| ").strip("`"): cells[2].removesuffix(" |") for cells in lines if len(cells) == 3}
    assert {column.name: column.meaning for column in COLUMNS}.items() <= documented.items()


def test_every_option_stands_there() -> None:
    named = PAGE.lower()
    assert [option for option in OPTIONS if f"`{option}`" not in named] == []
