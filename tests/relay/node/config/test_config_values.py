"""The reader of plain values: each mistake is reported once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from relay.node.config.config_values import Reader


@dataclass
class _Required:
    host: str
    port: int
    name: str | None


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({}, ["at.host: is missing.", "at.port: is missing.", "at.name: is missing."]),
        ({"host": None, "port": 7, "name": None}, ["at.host: is missing."]),
        ({"host": "a", "port": "x", "name": None}, ["at.port: must be a whole number, not 'x'."]),
        ({"host": "a", "port": 7, "name": None}, []),
    ],
)
def test_a_required_value_is_reported_once_as_missing_or_wrong(value: object, problems: list[str]) -> None:
    reader = Reader({})
    read, good = reader.read(_Required, value, "at")
    assert (reader.problems, good) == (problems, not problems)
    assert read == (None if problems else _Required("a", 7, None))
