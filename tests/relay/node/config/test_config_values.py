"""The reader of plain values, where each mistake is reported once, and values that need a package."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from relay.gateway.wire import State, encode
from relay.node.config.config_values import Reader
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
    config = NodeConfig(site="NYC")
    config = replace(config, relay=replace(config.relay, link=replace(config.relay.link, compress="zstd")))
    assert find_problems(config) == []
    monkeypatch.setattr("relay.node.config.settings.find_spec", lambda name: None)
    [problem] = find_problems(config)
    assert problem.startswith("relay.link.compress: needs the package zstandard;")


def link_problems(config: NodeConfig, frame_bytes_max: int) -> list[str]:
    link = replace(config.relay.link, chunk_bytes=8_000, frame_bytes_max=frame_bytes_max)
    return find_problems(replace(config, relay=replace(config.relay, link=link)))


def test_a_frame_between_sites_can_hold_the_numbers_of_all_senders() -> None:
    """STATE is never cut into pieces, so each link of a site with many senders would end with `bridge_length`."""
    config = NodeConfig(site="NYC")
    batching = replace(config.protocols.batching, message_bytes_max=8_000, batch_bytes_max=8_000)
    config = replace(config, protocols=replace(config.protocols, batching=batching))
    assert link_problems(config, 524_288) == []
    [problem] = link_problems(config, 524_287)
    assert problem.startswith("relay.link.frame_bytes_max: must be at least 524288, ")
    state = SiteVector({Address(n.to_bytes(16, "big")): INT_MAX for n in range(2 * ORIGINS_MAX)})
    assert len(encode(State({"S" * 64: state}))) < 524_288


def test_a_message_that_no_spill_file_takes_is_refused() -> None:
    """It would become a gap, and its reason would blame a healthy disk."""
    config = NodeConfig(site="NYC")
    batching = replace(config.protocols.batching, message_bytes_max=67_000_000)
    config = replace(config, protocols=replace(config.protocols, batching=batching))
    before = find_problems(config)
    spill = replace(config.relay.budget.spill, directory="x")
    spilling = replace(config, relay=replace(config.relay, budget=replace(config.relay.budget, spill=spill)))
    [problem] = [each for each in find_problems(spilling) if each not in before]
    assert problem.startswith("protocols.batching.message_bytes_max: must be at most 66060288 ")
