"""Sites whose members use IPv6: addresses as text, sockets at ::1, and members that use both IP versions."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from relay_lab.drills.wires import has_wires
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig, TransportKind, find_problems
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import ip_version, is_address, parse_place, unfit_host
from sitestack.seal.key_ring import KeyRing
from sitestack.transport import interfaces
from sitestack.transport.accepting import listen_tcp
from sitestack.transport.interfaces import Names, find_interface, is_here, route_to
from sitestack.transport.udp import UdpTransport
from tests.harness.channels import take, wait_for_view
from tests.harness.sockets import free_ports

HERE = TransportConfig(ipv6=True, interface="::1", multicast=False)
#: The kernel's table: an address of the link, one that was found twice, a temporary one, and a permanent one.
TABLE = """\
fe800000000000000000000000000001 02 40 20 80     eth0
fd000000000000000000000000000001 02 40 00 08     eth0
fd000000000000000000000000000002 02 40 00 01     eth0
fd000000000000000000000000000003 02 40 00 80     eth0
fd010000000000000000000000000004 03 40 00 80     eth1
"""

pytestmark = pytest.mark.skipif(not is_here("::1"), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[::1]:7800", Physical("::1", 7800)),
        ("[FD00:0::0001]:0", Physical("fd00::1", 0)),
        ("[::]:80", Physical("::", 80)),
        ("nyc-a:7800", Physical("nyc-a", 7800)),
        ("7800", Physical("anywhere", 7800)),
        ("::1:7800", None),
        ("[::1]", None),
        ("::1", None),
        ("[nyc-a]:1", None),
        ("[::1]:65536", None),
        ("[::1]:\u0661", None),
    ],
)
def test_an_ipv6_address_is_bracketed_and_parses_back_from_its_text(text: str, place: Physical | None) -> None:
    assert parse_place(text, "anywhere") == place
    if place is not None:
        assert parse_place(str(place)) == place


@pytest.mark.parametrize("host", ["fe80::1", "fe80::1%lo", "::ffff:10.0.0.1", "ff02::1", "::g", "1:2"])
def test_an_address_that_no_other_machine_can_use_is_refused(host: str) -> None:
    assert unfit_host(host).endswith(".")
    assert unfit_host("fd00::1") == ""


def test_a_name_has_no_ip_version() -> None:
    assert [ip_version(each) for each in ("nyc-a", "eth0", "", "10.0.0.0/8", "10.0.0.1", "fd00::/64", "::1")] == [
        0,
        0,
        0,
        4,
        4,
        6,
        6,
    ]
    assert (is_address("ff15::1"), is_address("fe80::1%lo"), is_address("nyc-a")) == (True, False, False)


def test_the_group_of_a_site_is_its_own_and_of_the_ip_version_of_the_interface() -> None:
    v6, both = TransportConfig(ipv6=True), TransportConfig(ipv6=True, interface="fd00::1", more_interfaces=("10.0.0.0/8",))
    assert v6.group("NYC") != v6.group("SFO")
    assert v6.group("NYC").host.startswith("ff15::")
    assert TransportConfig().group("NYC") == both.group("NYC", 4) == Physical("239.192.143.239", 7600)
    assert [set(each.ip_versions) for each in (v6, both, TransportConfig())] == [{6}, {4, 6}, {4}]
    assert not find_problems(SiteConfig("NYC", transport=both))


def test_an_interface_by_its_name_or_subnet_is_its_best_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "if_inet6").write_text(TABLE)
    monkeypatch.setattr(interfaces, "_IPV6_TABLE", tmp_path / "if_inet6")
    assert find_interface("eth0", "", ipv6=True) == "fd00::3"
    assert find_interface("fd00::/64", "") == "fd00::3"
    assert find_interface("fd01::/16", "") == "fd01::4"
    assert interfaces.interface_index("fd01::4") == 3
    with pytest.raises(ConfigurationError, match="no address in fd02::/16; it has fd00::3, fd01::4, fd00::2"):
        find_interface("fd02::/16", "")
    with pytest.raises(ConfigurationError, match="'lo' is no network interface with an IPv6 address"):
        find_interface("lo", "", ipv6=True)


def test_a_route_leads_to_an_address_of_this_machine() -> None:
    assert find_interface("0:0::1", "") == "::1"
    assert route_to("::1") == "::1"


async def test_names_are_looked_up_in_the_ip_versions_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(host: str, port: int, family: int, kind: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        known = {socket.AF_INET: "10.0.0.1", socket.AF_INET6: "fd00::1"}
        return [(each, kind, 0, "", (address, port)) for each, address in known.items() if family in (each, socket.AF_UNSPEC)]

    monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
    name = Physical("members.nyc", 7600)
    assert [each.host for each in await Names([name], {4}).find(1.0)] == ["10.0.0.1"]
    assert [each.host for each in await Names([name], {6}).find(1.0)] == ["fd00::1"]
    assert [each.host for each in await Names([name]).find(1.0)] == ["10.0.0.1", "fd00::1"]


@pytest.mark.parametrize("keys", [None, KeyRing.of(bytes(32))])
@pytest.mark.parametrize("kind", ["udp", "tcp"])
async def test_members_at_ipv6_find_each_other_talk_and_see_one_leave(kind: TransportKind, keys: KeyRing | None) -> None:
    ports = free_ports(2)
    hosts = tuple([Physical("::1", port) for port in ports])
    one, other = [
        SiteConfig("NYC", transport=replace(HERE, kind=kind, port=port), discovery=DiscoveryConfig(initial_hosts=hosts))
        for port in ports
    ]
    with trio.fail_after(60):
        async with open_channel(one, name="A", keys=keys) as a:
            async with open_channel(other, name="B", keys=keys) as b:
                await wait_for_view(a, 2)
                await a.send(b"to all")
                await b.send(b"to one", target=a.address)
                assert sorted([each.payload for each in await take(a, 2)]) == [b"to all", b"to one"]
                assert [each.payload for each in await take(b, 1)] == [b"to all"]
                assert a.transport.physical() == (hosts[0],)
            await wait_for_view(a, 1)


async def test_an_address_of_the_other_ip_version_is_counted_and_sent_nothing() -> None:
    transport = UdpTransport(HERE, None)
    try:
        transport.send([(Physical("127.0.0.1", 9), b"x"), (Physical("host.example", 9), b"x")])
        assert transport.statistics().unsent_datagrams == 2
        assert transport.statistics().sent_datagrams == 0
    finally:
        transport.close()


def test_a_server_at_all_addresses_accepts_ipv4_too_and_a_member_does_not() -> None:
    with listen_tcp(Physical("::", 0), 1, "http.bind") as server:
        for host in ("::1", "127.0.0.1"):
            socket.create_connection((host, server.getsockname()[1])).close()
    with interfaces.open_socket("::", 0, socket.SOCK_STREAM) as member, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", member.getsockname()[1]))


#: Members on one interface, with a group of the link and with groups that a process joins later.
IN_A_NAMESPACE = """
import sys, trio
from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.transport.udp import UdpTransport

async def said(transport, count):
    heard = []
    with trio.fail_after(10):
        while len(heard) < count:
            await transport.wait()
            heard += [data for data, _ in transport.receive()]
    return heard

async def main():
    config, group = TransportConfig(ipv6=True, interface="2001:2::1"), Physical(sys.argv[1], 7600)
    one, two, shared = UdpTransport(config, group), UdpTransport(config, group), UdpTransport(config, None)
    shared.join(group)
    one.send([(None, b"first"), (Physical("ff15::99", 7600), b"of another group"), (two.physical()[0], b"alone")])
    assert sorted(await said(two, 2)) == [b"alone", b"first"]
    assert await said(shared, 1) == [b"first"]
    shared.leave(group)
    one.send([(None, b"second")])
    assert await said(two, 1) == [b"second"]
    assert shared.receive() == []
    former = two.move("2001:2::2")
    former.close()
    one.send([(None, b"third")])
    two.send([(None, b"joins again")])
    assert await said(one, 1) == [b"joins again"]
    assert two.physical()[0].host == "2001:2::2"
    await trio.run_process(["sh", "-c", f"ip link del d0 && {sys.argv[2]}"])  # the new one has another index
    heard = []
    with trio.fail_after(10):
        while b"back" not in heard:
            one.send([(None, b"back")])
            two.send([(None, b"too")])
            await trio.sleep(0.1)
            heard += [data for data, _ in two.receive()]

trio.run(main)
"""


@pytest.mark.parametrize("group", ["ff15::1", "ff12::1"])
async def test_multicasts_of_ipv6_stay_in_their_group_and_interface_also_a_recreated_one(group: str) -> None:
    if not await has_wires():
        pytest.skip("no rights to make network namespaces")
    add = "ip addr add 2001:2::{}/64 dev d0 nodad"
    links = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up"
    wire = f"{links} && {add.format(1)} && {add.format(2)}"
    script = f'ip link set lo up && {wire} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script, "sh", sys.executable]
    await trio.run_process([*command, "-c", IN_A_NAMESPACE, group, wire])
