"""Two sites of nodes at IPv6 addresses: links with certificates, HTTP, a killed relay, the doctor, a gossip router."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from relay.keys.directory import make_key_directory
from relay.node.http.probe import ask, parse
from relay_lab.drills.tether import tie
from relay_lab.drills.wires import _OWN_USERS
from sitestack.model.address import Physical
from sitestack.transport.interfaces import is_here
from tests.harness.node_sites import LIMIT_S, NodeSites, node_sites, until
from tests.harness.sockets import free_ports

#: Runs a command where the loopback interface is the only one and has the address ::1 alone.
WITHOUT_IPV4 = [*_OWN_USERS, "sh", "-c", 'ip link set lo up && ip -4 address flush dev lo && exec "$@"', "sh"]

pytestmark = pytest.mark.skipif(not is_here("::1"), reason="this machine has no IPv6")


@pytest.mark.long
def test_a_killed_relay_loses_nothing_between_two_sites_at_ipv6_addresses(tmp_path: Path) -> None:
    make_key_directory(tmp_path / "keys", ["NYC", "SFO"])
    options = ("--events", str(tmp_path / "{name}.events"))
    with node_sites(tmp_path, {"NYC": "AB", "SFO": "D"}, *options, keys=tmp_path / "keys", ipv6=True) as sites:
        assert ask(*parse(f"{sites.urls['A']}/healthz"))[0] == 200
        sites.post("B", "before")
        until(lambda: _heard(tmp_path, "D", "before"))
        sites.kill("A")
        sites.post("B", "after")
        until(lambda: _heard(tmp_path, "D", "after"))
        examined = _examine(tmp_path, sites)
        assert "a relay answers at [::1]:" in examined
        assert "answer this host directly: B" in examined


def _heard(directory: Path, name: str, text: str) -> bool:
    return text in (directory / f"{name}.events").read_text()


def _examine(directory: Path, sites: NodeSites) -> str:
    command = [sys.executable, "-m", "relay", "doctor", str(directory / "B.yaml"), "--keys", str(directory / "keys" / "NYC")]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S).stdout


@pytest.mark.long
def test_a_gossip_router_at_an_ipv6_address_serves_members_and_http(tmp_path: Path) -> None:
    port, http = free_ports(2)
    config = {
        "site": "NYC",
        "transport": {"kind": "tunnel", "ipv6": True},
        "discovery": {"routers": [f"[::1]:{port}"]},
        "security": {"insecure": True},
    }
    file = tmp_path / "nyc.yaml"
    file.write_text(json.dumps(config))
    relay, url = [sys.executable, "-m", "relay"], f"http://{Physical('::1', http)}"
    started = [
        subprocess.Popen(tie([*relay, *command]), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (
            ["router", str(file), "--insecure", "--bind", f"[::1]:{port}", "--http", f"[::1]:{http}"],
            *[["node", str(file), "--name", name, "--status", str(tmp_path / f"{name}.sock")] for name in "AB"],
        )
    ]
    try:
        until(lambda: _registered(url) == ["A", "B"])
    finally:
        for process in started:
            process.kill()
            process.wait()


def _registered(url: str) -> list[str]:
    try:
        with urlopen(f"{url}/status", timeout=LIMIT_S) as answer:
            return sorted(json.load(answer)["sites"]["NYC"])
    except OSError:
        return []


@pytest.mark.long
def test_these_tests_and_the_demo_pass_on_a_machine_without_ipv4() -> None:
    if subprocess.run([*WITHOUT_IPV4, "true"], capture_output=True).returncode:
        pytest.skip("no rights to make network namespaces")
    demo = Path(__file__).parents[2] / "lab" / "test_demo.py"
    tests = [
        f"{__file__}::{test_a_killed_relay_loses_nothing_between_two_sites_at_ipv6_addresses.__name__}",
        f"{__file__}::{test_a_gossip_router_at_an_ipv6_address_serves_members_and_http.__name__}",
        f"{demo}::test_killing_the_relay_half_way_loses_nothing[ipv6]",
    ]
    command = [*WITHOUT_IPV4, sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=10 * LIMIT_S)
    assert ran.stdout.splitlines()[-1].startswith("3 passed"), ran.stdout + ran.stderr
