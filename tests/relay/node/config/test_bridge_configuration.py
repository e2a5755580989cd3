"""The bridge of a site is set up by its configuration alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.gateway.config import RoutesConfig
from relay.node.config.config_file import load_config
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

TEXT = """
site: NYC
relay:
  bridge:
    bind: 127.0.0.1:{port}
    peers:
      SFO: [127.0.0.1:7901, 127.0.0.1:7902]
  grace_s: {grace}
"""


@pytest.mark.conforms("REL-3")
def test_changing_the_bridge_needs_no_code(tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    found = []
    for port, grace in ((7900, 3.0), (7950, 20.0)):
        file.write_text(TEXT.format(port=port, grace=grace))
        config = load_config(file, environment={})
        gateway = config.relay_layer().gateway
        assert gateway.peers == {"SFO": (Physical("127.0.0.1", 7901), Physical("127.0.0.1", 7902))}
        found.append((config.relay.bridge.bind, gateway.grace_s))
    assert found == [(Physical("127.0.0.1", 7900), 3.0), (Physical("127.0.0.1", 7950), 20.0)]


@pytest.mark.conforms("REL-33")
def test_a_route_is_configured_at_its_ends_and_in_between(tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text(
        TEXT.format(port=7900, grace=3.0).replace("  grace_s", "    via: {LON: SFO}\n    forward: [SFO, LON]\n  grace_s")
    )
    config = load_config(file, environment={})
    layer = config.relay_layer()
    assert layer.routes == RoutesConfig({"LON": "SFO"}, ("SFO", "LON"))
    assert list(layer.gateway.peers) == ["SFO"]
    assert layer.sites == ("LON", "SFO")
    assert config.peer_sites() == ("SFO", "LON")


def test_relays_that_meet_at_routers_need_no_port(tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    bridge = "{routers: [router-a:7900, router-b:7900], peers: {SFO: [router-a:7900, router-b:7900], LON: [router-a:7900]}}"
    file.write_text(f"site: NYC\nrelay: {{bridge: {bridge}}}\n")
    config = load_config(file, environment={})
    assert config.has_bridge()
    assert config.relay_layer().gateway.peers["LON"] == (Physical("router-a", 7900),), "a router may be that of several sites"


@pytest.mark.parametrize(
    ("relay", "sentence"),
    [
        ("{bridge: {routers: [a:0]}}", r"relay.bridge.routers\[0\]: the port cannot be 0."),
        ("{bridge: {bind: '0.0.0.0:7900', routers: ['127.0.0.1:7900']}}", "is the address of this site itself"),
        ("{bridge: {routers: [" + ", ".join(f"a:{n}" for n in range(1, 18)) + "]}}", "names 17, but at most 16 are allowed."),
    ],
)
def test_routers_that_cannot_be_meant(relay: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text(f"site: NYC\nrelay: {relay}\n")
    with pytest.raises(ConfigurationError, match=sentence):
        load_config(file, environment={})
