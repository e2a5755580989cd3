"""The example configurations are sound, and fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.node.config.config_file import load_config

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_an_example_is_a_configuration(file: Path) -> None:
    load_config(file)


def test_the_two_sites_find_each_other() -> None:
    nyc, sfo = load_config(EXAMPLES / "nyc.yaml"), load_config(EXAMPLES / "sfo.yaml")
    assert nyc.relay.bridge.peers == {"SFO": (sfo.relay.bridge.bind,)}
    assert sfo.relay.bridge.peers == {"NYC": (nyc.relay.bridge.bind,)}
