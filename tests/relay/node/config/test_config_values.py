"""The reader of plain values, where each mistake is reported once, and values that need a package."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from relay.node.config.config_values import Reader
from relay.node.config.settings import NodeConfig, find_problems


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


def test_compression_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    config = NodeConfig(site="NYC")
    config = replace(config, relay=replace(config.relay, link=replace(config.relay.link, compress="zstd")))
    assert find_problems(config) == []
    monkeypatch.setattr("relay.node.config.settings.find_spec", lambda name: None)
    [problem] = find_problems(config)
    assert problem.startswith("relay.link.compress: needs the package zstandard;")
