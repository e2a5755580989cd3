"""The reader of plain values, where each mistake is reported once, and values that need a package."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from relay.gateway.wire import State, encode
from relay.node.config.config_values import Reader, with_value
from relay.node.config.settings import NodeConfig, find_problems
from relay.replica.entries import SiteVector
from relay.replica.vectors import ORIGINS_MAX
from sitestack.model.address import Address
from sitestack.wire.schema import INT_MAX


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
    config = with_value(NodeConfig(site="NYC"), "relay.link.compress", "zstd")
    assert find_problems(config) == []
    monkeypatch.setattr("relay.node.config.settings.find_spec", lambda name: None)
    [problem] = find_problems(config)
    assert problem.startswith("relay.link.compress: needs the package zstandard;")


def link_problems(config: NodeConfig, frame_bytes_max: int) -> list[str]:
    return find_problems(
        with_value(with_value(config, "relay.link.chunk_bytes", 8_000), "relay.link.frame_bytes_max", frame_bytes_max)
    )


def test_a_frame_between_sites_can_hold_the_numbers_of_all_senders() -> None:
    """STATE is never cut into pieces, so each link of a site with many senders would end with `bridge_length`."""
    config = NodeConfig(site="NYC")
    for name in ("message_bytes_max", "batch_bytes_max"):
        config = with_value(config, f"protocols.batching.{name}", 8_000)
    assert link_problems(config, 524_288) == []
    [problem] = link_problems(config, 524_287)
    assert problem.startswith("relay.link.frame_bytes_max: must be at least 524288, ")
    state = SiteVector({Address(n.to_bytes(16, "big")): INT_MAX for n in range(2 * ORIGINS_MAX)})
    assert len(encode(State({"S" * 64: state}))) < 524_288


def test_a_message_that_no_spill_file_takes_is_refused() -> None:
    """It would become a gap, and its reason would blame a healthy disk."""
    config = with_value(NodeConfig(site="NYC"), "protocols.batching.message_bytes_max", 67_000_000)
    before = find_problems(config)
    spilling = with_value(config, "relay.budget.spill.directory", "x")
    [problem] = [each for each in find_problems(spilling) if each not in before]
    assert problem.startswith("protocols.batching.message_bytes_max: must be at most 66060288 ")
