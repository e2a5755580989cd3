"""docker-compose.yml: its members are configured alike, belong together, and have no rights."""

from __future__ import annotations

import os
import re
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
from tests.harness.messages import present

PROJECT = Path(__file__).parent.parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MEMBERS = [name for name in SERVICES if name.startswith(("nyc-", "sfo-"))]


def site_of(member: str) -> str:
    return member.partition("-")[0]


def mounts(service: str) -> dict[str, dict[str, Any]]:
    """What a service mounts, by the place."""
    return {each["target"]: each for each in SERVICES[service]["volumes"]}


def configuration(member: str, routers: str = "") -> NodeConfig:
    file = Path(SERVICES[member]["command"][1])
    environment = {key: str(value) for key, value in SERVICES[member].get("environment", {}).items()}
    environment["RELAY_ROUTERS"] = environment.get("RELAY_ROUTERS", "").replace("${RELAY_ROUTERS:-}", routers)
    mounted = mounts(member)[str(file.parent)]
    assert mounted["type"] == "bind", "a directory: a mounted file stays the old one when an editor replaces it"
    return load_config(PROJECT / mounted["source"] / file.name, environment=environment)


def test_two_sites_of_three() -> None:
    assert MEMBERS == ["nyc-a", "nyc-b", "nyc-c", "sfo-d", "sfo-e", "sfo-f"]
    assert [configuration(member).name for member in MEMBERS] == list("ABCDEF")
    assert [configuration(member).site for member in MEMBERS] == ["NYC"] * 3 + ["SFO"] * 3


@pytest.mark.parametrize("service", list(SERVICES))
def test_each_service_has_no_privileges_a_read_only_image_and_resource_limits(service: str) -> None:
    restricted = SERVICES[service]
    assert restricted["read_only"] is True
    assert restricted["cap_drop"] == ["ALL"]
    assert restricted["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in restricted
    assert "cap_add" not in restricted
    assert restricted["user"] == "10001:10001"
    assert restricted["restart"] == ("no" if service == "audit" else "unless-stopped")
    assert restricted["mem_limit"] in ("1g", "3g")
    assert 0 < restricted["pids_limit"] <= 512
    assert restricted["cpus"] == 1, "one that no machine lacks, and that does not throttle what runs in one thread"
    assert restricted["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}


def test_the_image_is_built_once_by_a_service_on_which_all_others_depend() -> None:
    ours = {name: service for name, service in SERVICES.items() if service["image"] == "relay"}
    assert [name for name, service in ours.items() if "build" in service] == ["keys-nyc"]
    assert all(service["pull_policy"] == "never" for service in ours.values())
    waiting = {name for name, service in ours.items() if "keys-sfo" in service.get("depends_on", {})}
    assert set(ours) - waiting == {"keys-nyc", "keys-sfo", "load"}
    assert list(SERVICES["keys-sfo"]["depends_on"]) == ["keys-nyc"]


def test_ports_are_published_on_loopback_alone_each_once() -> None:
    published = [each for service in SERVICES.values() for each in service.get("ports", [])]
    assert all(each.startswith("127.0.0.1:") for each in published)
    assert len({each.rpartition(":")[0] for each in published}) == len(published)


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_uses_the_network_of_its_site_as_its_interface(member: str) -> None:
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
    assert {place.port for place in places} == {present(configuration(others[0]).relay.bridge.bind).port}


@pytest.mark.parametrize("member", MEMBERS)
def test_health_is_of_this_process_and_of_no_other(member: str) -> None:
    *_, url = SERVICES[member]["healthcheck"]["test"]
    assert url == f"http://127.0.0.1:{present(configuration(member).http.bind).port}/healthz"


def test_no_service_that_a_command_waits_for_ends_by_itself() -> None:
    """For `up --wait` a service that has ended is a failure, whatever its exit code."""
    lines = [line for line in (PROJECT / "docker-compose.yml").read_text().splitlines() if " up " in line and "--wait" in line]
    waited = {profile for line in lines for profile in re.findall(r"--profile (\w+)", line)}
    ends = {profile for each in SERVICES.values() if each["restart"] == "no" for profile in each["profiles"]}
    assert waited
    assert ends.isdisjoint(waited)


def test_the_audit_reads_the_journals_of_all_members_and_changes_nothing() -> None:
    audit = SERVICES["audit"]
    journals, tables = audit["volumes"]
    volume, directory, mode = journals.split(":")
    assert mode == "ro"
    assert audit["command"] == ["audit", directory, "--out", tables.partition(":")[2]]
    for member in MEMBERS:
        assert (volume, directory) in [(each["source"], each["target"]) for each in SERVICES[member]["volumes"]]
        assert configuration(member).journal.directory == directory


@pytest.mark.parametrize("service", [*MEMBERS, "router-nyc", "router-sfo"])
def test_each_process_mounts_the_key_volume_of_its_own_site_read_only(service: str) -> None:
    """A part of a volume would not do: engines before 26 ignore `subpath`, and show every member all keys."""
    config, mounted = configuration(service), mounts(service)
    assert not config.security.insecure
    secret = {target: each["source"] for target, each in mounted.items() if each["source"].startswith(("keys", "token"))}
    site = config.site.lower()
    assert secret == {config.security.keys: f"keys-{site}", str(Path(config.http.token).parent): "token"}
    assert all(mounted[target]["read_only"] for target in secret)
    assert "subpath" not in (PROJECT / "docker-compose.yml").read_text()


@pytest.mark.parametrize("service", [name for name in SERVICES if not name.startswith("keys-")])
def test_only_key_makers_mount_the_key_of_the_authority(service: str) -> None:
    sources = [
        each["source"] if isinstance(each, dict) else each.partition(":")[0] for each in SERVICES[service].get("volumes", [])
    ]
    assert "keys" not in sources


def test_keys_and_token_are_made_once_and_are_valid_for_members(tmp_path: Path) -> None:
    """The script of both makers, with places of the test in place of the volumes."""
    places = {"/var/lib/relay/keys": tmp_path / "made", "/etc/relay/http": tmp_path / "http"}
    for place in places.values():
        place.mkdir()
    [script] = SERVICES["keys-nyc"]["command"]
    assert [script] == SERVICES["keys-sfo"]["command"]
    script = script.replace("$$", "$").replace("exec sleep infinity", "")
    states = []
    for again in (False, True):
        for maker in ("keys-nyc", "keys-sfo"):
            site = SERVICES[maker]["environment"]["SITE"]
            mounted = dict(each.split(":") for each in SERVICES[maker]["volumes"])
            assert mounted == {"keys": "/var/lib/relay/keys", maker: "/etc/relay/keys", "token": "/etc/relay/http"}
            (tmp_path / site).mkdir(exist_ok=True)
            own, (_, *health) = script, SERVICES[maker]["healthcheck"]["test"]
            for target, there in {**places, "/etc/relay/keys": tmp_path / site}.items():
                own, health = own.replace(target, str(there)), [each.replace(target, str(there)) for each in health]
            assert (subprocess.run(health).returncode == 0) is again, "members of the site wait for its keys, not for others"
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "SITE": site}
            subprocess.run([*SERVICES[maker]["entrypoint"], own], env=environment, check=True, capture_output=True)
        states.append({path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()})
    assert states[0] == states[1]
    for member in MEMBERS:
        config = configuration(member)
        ours = replace(config, http=replace(config.http, token=str(tmp_path / "http" / "token")))
        assert required_tokens(ours) is not None
        assert read_key_ring(tmp_path / config.site).keys
        Credentials(tmp_path / config.site, config.site)  # raises for what a relay could not use
        assert not (tmp_path / config.site / "authority.key").exists()


@pytest.mark.parametrize("site", ["nyc", "sfo"])
def test_a_router_is_only_on_its_sites_network_at_the_address_given_to_members(site: str) -> None:
    [usage] = [line for line in (PROJECT / "docker-compose.yml").read_text().splitlines() if "RELAY_ROUTERS=" in line]
    told = usage.partition("RELAY_ROUTERS=")[2].split()[0]
    router = SERVICES[f"router-{site}"]
    assert router["profiles"] == ["router"]
    assert list(router["networks"]) == [site]
    [place] = configuration(f"{site}-{'a' if site == 'nyc' else 'd'}", told).discovery.routers
    assert [place.host] == router["networks"][site]["aliases"]
    assert router["command"][router["command"].index("--bind") + 1] == str(place.port)
    assert configuration(f"router-{site}").site == site.upper()


def test_the_docs_state_the_ports_and_the_token_of_members() -> None:
    page = " ".join((PROJECT / "docs" / "how-to" / "compose.md").read_text(encoding="utf-8").split())
    ports = [port.rpartition(":")[0] for member in MEMBERS for port in SERVICES[member]["ports"]]
    assert ports == [f"127.0.0.1:{number}" for number in range(7801, 7807)]
    assert f"http://{ports[0]} to {ports[-1].rpartition(':')[2]}" in page
    assert f"`docker compose exec {MEMBERS[0]} cat {configuration(MEMBERS[0]).http.token}`" in page


def bound(service: str) -> dict[str, Path]:
    """The files that a service of the monitoring profile mounts, by the place there."""
    assert SERVICES[service]["profiles"] == ["monitoring"]
    pairs = [each.split(":") for each in SERVICES[service]["volumes"] if isinstance(each, str)]
    assert all(mode == "ro" for _, _, mode in pairs)
    return {target: PROJECT / source for source, target, _ in pairs}


def test_prometheus_scrapes_every_member_with_the_token_and_alerts() -> None:
    files = bound("prometheus")
    scraped = yaml.safe_load(files["/etc/prometheus/prometheus.yml"].read_text(encoding="utf-8"))
    [job] = scraped["scrape_configs"]
    assert [files[f"/etc/prometheus/{rules}"] for rules in scraped["rule_files"]] == [PROJECT / "deploy/prometheus/alerts.yaml"]
    assert job["authorization"] == {"credentials_file": configuration("nyc-a").http.token}
    assert SERVICES["prometheus"]["user"] == SERVICES["keys-nyc"]["user"], "nobody else can read the token"
    assert [target for group in job["static_configs"] for target in group["targets"]] == [f"{name}:7800" for name in MEMBERS]
    assert scraped["alerting"] == {"alertmanagers": [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]}
    routes = yaml.safe_load(bound("alertmanager")["/etc/alertmanager/alertmanager.yml"].read_text(encoding="utf-8"))
    assert routes["route"]["receiver"] in [each["name"] for each in routes["receivers"]]


def test_grafana_shows_our_board_with_the_numbers_of_prometheus() -> None:
    files, settings = bound("grafana"), SERVICES["grafana"]["environment"]
    provisioning = files["/etc/grafana/provisioning"]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    [boards] = yaml.safe_load((provisioning / "dashboards" / "relay.yml").read_text())["providers"]
    home = Path(settings["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == boards["options"]["path"]
    assert (files[str(home.parent)] / home.name).is_file()
    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true", "there is no default password"
