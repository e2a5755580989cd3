"""docker-compose.yml: its members are configured alike, belong together, and have no rights."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay.keys.directory import read_key_ring
from relay.node.bridge.credentials import Credentials
from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig
from relay.node.http.token import required_tokens

PROJECT = Path(__file__).parent.parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MEMBERS = [name for name in SERVICES if name.startswith(("nyc-", "sfo-"))]


def site_of(member: str) -> str:
    return member.partition("-")[0]


def configuration(member: str, routers: str = "") -> NodeConfig:
    [config] = SERVICES[member]["configs"]
    environment = {key: str(value) for key, value in SERVICES[member].get("environment", {}).items()}
    environment["RELAY_ROUTERS"] = environment.get("RELAY_ROUTERS", "").replace("${RELAY_ROUTERS:-}", routers)
    return load_config(PROJECT / COMPOSE["configs"][config["source"]]["file"], environment=environment)


def test_two_sites_of_three() -> None:
    assert MEMBERS == ["nyc-a", "nyc-b", "nyc-c", "sfo-d", "sfo-e", "sfo-f"]
    assert [configuration(member).name for member in MEMBERS] == list("ABCDEF")
    assert [configuration(member).site for member in MEMBERS] == ["NYC"] * 3 + ["SFO"] * 3


@pytest.mark.parametrize("service", list(SERVICES))
def test_nobody_has_rights_or_writes_to_the_image(service: str) -> None:
    restricted = SERVICES[service]
    assert restricted["read_only"] is True
    assert restricted["cap_drop"] == ["ALL"]
    assert restricted["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in restricted
    assert "cap_add" not in restricted
    if "build" in restricted:
        assert restricted["user"] == "10001:10001"


@pytest.mark.parametrize("service", list(SERVICES))
def test_nobody_takes_the_machine(service: str) -> None:
    limited = SERVICES[service]
    assert limited["restart"] == ("no" if service == "audit" else "unless-stopped")
    assert limited["mem_limit"] in ("1g", "3g")
    assert 0 < limited["pids_limit"] <= 512
    assert limited["cpus"] == 1, "one that no machine lacks, and that does not throttle what runs in one thread"
    assert limited["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}


@pytest.mark.parametrize("service", list(SERVICES))
def test_ports_are_published_on_loopback_alone_each_once(service: str) -> None:
    published = SERVICES[service].get("ports", [])
    assert all(each.startswith("127.0.0.1:") for each in published)
    everywhere = [each.rpartition(":")[0] for other in SERVICES.values() for each in other.get("ports", [])]
    assert len(set(everywhere)) == len(everywhere)


@pytest.mark.parametrize("member", MEMBERS)
def test_journals_are_limited(member: str) -> None:
    assert configuration(member).journal.retained_bytes_max == 1 << 30


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_takes_its_own_network_for_its_site(member: str) -> None:
    site = site_of(member)
    # A member's name may mean its address on either network; the name for all of them is known to the site's only.
    assert SERVICES[member]["networks"] == {site: {"aliases": [f"{site}-members"]}, "wan": {}}
    [pool] = COMPOSE["networks"][site]["ipam"]["config"]
    assert configuration(member).transport.interface == pool["subnet"]
    assert "internal" not in COMPOSE["networks"][site]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_calls_all_members_of_the_other_site(member: str) -> None:
    config = configuration(member)
    [(site, places)] = config.relay.bridge.peers.items()
    others = [other for other in MEMBERS if site_of(other) != site_of(member)]
    assert site == configuration(others[0]).site
    assert [place.host for place in places] == others
    bind = configuration(others[0]).relay.bridge.bind
    assert bind is not None
    assert {place.port for place in places} == {bind.port}


@pytest.mark.parametrize("member", MEMBERS)
def test_healthy_means_that_all_six_are_seen(member: str) -> None:
    *_, url = SERVICES[member]["healthcheck"]["test"]
    bind = configuration(member).http.bind
    assert bind is not None
    assert url == f"http://127.0.0.1:{bind.port}/readyz?members={len(MEMBERS)}"


def test_the_audit_reads_the_journals_of_all_members_and_changes_nothing() -> None:
    audit = SERVICES["audit"]
    journals, tables = audit["volumes"]
    volume, directory, mode = journals.split(":")
    assert mode == "ro"
    assert audit["command"] == ["audit", directory, "--out", tables.partition(":")[2]]
    for member in MEMBERS:
        assert (volume, directory) in [(each["source"], each["target"]) for each in SERVICES[member]["volumes"]]
        assert configuration(member).journal.directory == directory


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_is_secured_and_sees_the_keys_of_its_own_site_alone(member: str) -> None:
    config = configuration(member)
    assert not config.security.insecure
    parts = {each["target"]: each["volume"]["subpath"] for each in SERVICES[member]["volumes"] if each["source"] == "keys"}
    assert parts == {config.security.keys: config.site, str(Path(config.http.token).parent): "http"}
    assert all(each.get("read_only") for each in SERVICES[member]["volumes"] if each["source"] == "keys")
    assert "keys" in SERVICES[member]["depends_on"]


def test_keys_and_token_are_made_once_and_are_what_a_member_wants(tmp_path: Path) -> None:
    maker = SERVICES["keys"]
    [script] = [line for line in maker["command"] if "keygen" in line]
    script = script.replace("$$", "$").replace("exec sleep infinity", "")
    place = maker["working_dir"]
    assert maker["volumes"] == [f"keys:{place}"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    made = []
    for _ in range(2):
        subprocess.run([*maker["entrypoint"], script], cwd=tmp_path, env=environment, check=True, capture_output=True)
        made.append({path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()})
    assert made[0] == made[1]
    *_, waited_for = maker["healthcheck"]["test"]
    assert (tmp_path / Path(waited_for).relative_to(place)).stat().st_size
    for member in MEMBERS:
        config = configuration(member)
        ours = replace(config, http=replace(config.http, token=str(tmp_path / "http" / "token")))
        assert required_tokens(ours) is not None
        assert read_key_ring(tmp_path / config.site).keys
        Credentials(tmp_path / config.site, config.site)  # raises for an unusable configuration


@pytest.mark.parametrize("site", ["nyc", "sfo"])
def test_a_router_is_on_the_network_of_its_site_alone_and_is_the_one_that_members_are_told_of(site: str) -> None:
    [usage] = [line for line in (PROJECT / "docker-compose.yml").read_text().splitlines() if "RELAY_ROUTERS=" in line]
    told = usage.partition("RELAY_ROUTERS=")[2].split()[0]
    router = SERVICES[f"router-{site}"]
    assert router["profiles"] == ["router"]
    assert list(router["networks"]) == [site]
    [place] = configuration(f"{site}-{'a' if site == 'nyc' else 'd'}", told).discovery.routers
    assert [place.host] == router["networks"][site]["aliases"]
    assert router["command"][router["command"].index("--bind") + 1] == str(place.port)
    config = configuration(f"router-{site}")
    assert (config.site, config.security.insecure) == (site.upper(), False)
    parts = {each["target"]: each["volume"]["subpath"] for each in router["volumes"]}
    assert parts == {config.security.keys: config.site, str(Path(config.http.token).parent): "http"}


def test_the_docs_say_where_members_are_reached_from_outside_and_with_which_token() -> None:
    page = " ".join((PROJECT / "docs" / "how-to" / "compose.md").read_text(encoding="utf-8").split())
    ports = [port.rpartition(":")[0] for member in MEMBERS for port in SERVICES[member]["ports"]]
    assert ports == [f"127.0.0.1:{number}" for number in range(7801, 7807)]
    assert f"http://{ports[0]} to {ports[-1].rpartition(':')[2]}" in page
    assert f"`docker compose exec {MEMBERS[0]} cat {configuration(MEMBERS[0]).http.token}`" in page


def test_prometheus_scrapes_every_member_with_the_token() -> None:
    source, rules = SERVICES["prometheus"]["configs"]
    assert COMPOSE["configs"][rules["source"]]["file"] == "deploy/prometheus/alerts.yaml"
    scraped = yaml.safe_load((PROJECT / COMPOSE["configs"][source["source"]]["file"]).read_text(encoding="utf-8"))
    [job] = scraped["scrape_configs"]
    assert scraped["rule_files"] == [Path(rules["target"]).name]
    assert job["authorization"] == {"credentials_file": configuration("nyc-a").http.token}
    assert SERVICES["prometheus"]["user"] == SERVICES["keys"]["user"], "nobody else can read the token"
    assert [target for group in job["static_configs"] for target in group["targets"]] == [f"{name}:7800" for name in MEMBERS]
