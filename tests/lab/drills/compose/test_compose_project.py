"""A run's project is the shipped one, changed only where a drill requires it."""

from __future__ import annotations

import ipaddress
import random
from pathlib import Path
from typing import Any

import pytest

from relay.node.config.config_file import fill_in, load
from relay_lab.drills.compose.detours import plan_detours
from relay_lab.drills.compose.project import Topology, derive_configuration, derive_project, draw_subnets, read_topology
from relay_lab.drills.compose.venue import read_sites
from relay_lab.drills.library import find_drill
from relay_lab.drills.plan import Drill, seat_members
from sitestack.model.errors import ConfigurationError

PROJECT = Path(__file__).parents[4]
SEATS = seat_members(("NYC", "SFO"), 3)
SUBNETS = {"nyc": "198.19.1.0/24", "sfo": "198.19.2.0/24", "wan": "198.19.3.0/24"}


def service(site: str, name: str) -> dict[str, Any]:
    return {
        "image": "relay",
        "build": {"context": "."},
        "command": ["node", f"/etc/relay/sites/{site}.yaml", "--publish", "/pipe"],
        "depends_on": {"load": {"condition": "service_healthy"}},
        "environment": {"RELAY_NAME": name},
        "healthcheck": {"test": ["CMD", "true"]},
        "networks": {site: None, "wan": None},
        "cap_drop": ["ALL"],
        "read_only": True,
        "user": "10001:10001",
        "volumes": [
            {"type": "volume", "source": "journals", "target": "/var/lib/relay/journal"},
            {"type": "bind", "source": str(PROJECT / "compose"), "target": "/etc/relay/sites"},
        ],
    }


RESOLVED: dict[str, Any] = {
    "services": {
        "load": {"image": "relay", "networks": None},
        **{f"nyc-{name.lower()}": service("nyc", name) for name in "ABC"},
        **{f"sfo-{name.lower()}": service("sfo", name) for name in "DEF"},
    },
    "networks": {"nyc": {}, "sfo": {}, "wan": {}},
    "volumes": {"journals": {}, "load": {}},
}
CONFIGURATIONS = {str(path): load(path) for path in (PROJECT / "compose" / "nyc.yaml", PROJECT / "compose" / "sfo.yaml")}


@pytest.fixture
def topology() -> Topology:
    return read_topology(RESOLVED, CONFIGURATIONS)


def derive(topology: Topology, **options: Any) -> dict[str, Any]:
    """The project of a run."""
    files = {"NYC": "/run/NYC.json", "SFO": "/run/SFO.json"}
    return derive_project(RESOLVED, topology, "sha256:1", files, SUBNETS, **options)


def test_the_sites_of_members_are_read_from_the_services(topology: Topology) -> None:
    assert list(topology.services.items()) == [(seat, f"{seat.site}-{seat.name}".lower()) for seat in SEATS]
    assert topology.networks == {"NYC": "nyc", "SFO": "sfo"}
    assert topology.wan == "wan"


@pytest.mark.parametrize(
    "resolved",
    [
        {"services": {"web": {"image": "nginx", "networks": {"default": None}}}},
        {"services": {"web": {"image": "nginx", "command": ["node", "/srv/app.js"], "networks": {"default": None}}}},
        {**RESOLVED, "services": {name: each for name, each in RESOLVED["services"].items() if name.startswith("nyc")}},
        {**RESOLVED, "services": {"nyc-a": {**service("nyc", "A"), "networks": {"wan": None}}}},
        {**RESOLVED, "services": {"nyc-a": {**service("nyc", "A"), "environment": None}}},
    ],
    ids=["no command", "another node", "one site", "one network", "no names"],
)
def test_the_file_of_another_project_is_refused_with_one_sentence(resolved: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"/other/docker-compose\.yml does not describe sites of relay\."):
        read_sites(Path("/other/docker-compose.yml"), resolved)


def test_a_drill_with_other_sites_is_refused_with_the_existing_sites(topology: Topology) -> None:
    assert not list(topology.refuse(find_drill("kill-relay")))
    assert list(topology.refuse(Drill(name="mine", sites=("NYC", "LON"), members=2))) == [
        "The drill mine wants 2 members in each of NYC, LON, and the compose file has NYC with A, B, C; SFO with D, E, F."
    ]


def test_members_stay_as_they_are_but_for_their_input_image_and_networks(topology: Topology) -> None:
    derived = derive(topology)
    assert list(derived["services"]) == list(topology.services.values())
    before, after = RESOLVED["services"]["nyc-b"], derived["services"]["nyc-b"]
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert changed == {"build", "command", "configs", "depends_on", "healthcheck", "image", "networks", "stdin_open", "volumes"}
    assert after["networks"] == {"nyc": {"aliases": ["nyc-b", "nyc-members"]}, "wan": {"aliases": ["nyc-b"]}}
    assert derived["networks"]["wan"] == {"ipam": {"config": [{"subnet": "198.19.3.0/24"}]}}
    assert derived["volumes"] == {"journals": {}}
    assert after["configs"] == [{"source": "NYC", "target": "/etc/relay/relay.yaml"}]
    assert derived["configs"]["NYC"] == {"file": "/run/NYC.json"}


def test_a_member_whose_loop_can_be_blocked_is_another_program(topology: Topology) -> None:
    member = derive(topology, blockable=True)["services"]["nyc-b"]
    assert member["entrypoint"] == ["python", "-m", "relay_lab.drills.blockable"]
    assert member["command"][0] == "node"


def test_with_proxies_members_have_fixed_addresses_and_call_the_gateway(topology: Topology) -> None:
    derived = derive(topology, detours=plan_detours(list(topology.services), SUBNETS["wan"]))
    member = derived["services"]["nyc-b"]
    assert member["networks"]["wan"] == {"aliases": ["nyc-b"], "ipv4_address": "198.19.3.17"}
    assert derived["networks"]["wan"]["ipam"]["config"] == [{"subnet": "198.19.3.0/24", "gateway": "198.19.3.1"}]
    peers = member["environment"]["RELAY_PEERS"].split()
    assert len(set(peers)) == 3
    assert all(peer.startswith("SFO=198.19.3.1:") for peer in peers)
    assert "RELAY_PEERS" not in RESOLVED["services"]["nyc-b"]["environment"]


def test_a_site_has_its_shipped_configuration_plus_the_runs_network_and_drill_values(topology: Topology) -> None:
    base = CONFIGURATIONS[topology.files["NYC"]]
    config, problems = fill_in(derive_configuration(base, find_drill("site-down"), "198.19.1.0/24", multicast=True))
    shipped, _ = fill_in(base)
    assert problems == []
    assert config.transport.interface == "198.19.1.0/24"
    assert config.relay.budget.age_s == 10
    assert config.relay.bridge == shipped.relay.bridge
    assert config.transport.multicast
    without, _ = fill_in(derive_configuration(base, find_drill("kill-relay"), "198.19.1.0/24", multicast=False))
    assert not without.transport.multicast
    assert str(without.discovery.dns) == "nyc-members:7601"


def test_drawn_networks_overlap_no_existing_network() -> None:
    taken = ["198.19.0.0/17", "198.19.200.0/24", "fd00::/8", "172.17.0.0/16"]
    for seed in range(50):
        drawn = [
            ipaddress.ip_network(each) for each in draw_subnets(["nyc", "sfo", "wan"], taken, random.Random(seed)).values()
        ]
        assert len(set(drawn)) == 3
        assert not any(each.overlaps(ipaddress.ip_network(other)) for each in drawn for other in taken if ":" not in other)
