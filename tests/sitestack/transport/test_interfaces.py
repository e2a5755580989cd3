"""The default address of a member: right after the machine's start there may be none yet."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock

from relay_lab.drills.wires import has_wires
from sitestack.channel.presence.sockets import open_sockets
from sitestack.config import (
    ANY_INTERFACE,
    ANY_IPV6,
    ChannelConfig,
    SiteConfig,
    TransportConfig,
    TransportKind,
    lan,
    local,
    named_hosts,
)
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError, NoNetwork
from sitestack.transport import accepting, interfaces
from sitestack.transport.interfaces import not_bound, route_towards
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.udp import RENEW_INTERVAL_S, GroupMembership, UdpTransport
from tests.harness.addresses import local_of
from tests.sitestack.transport.conftest import Open, no_descriptors

GROUP, SEED = "239.192.0.1", "10.9.0.2"
#: Where there are routes to, and by which address of this machine; from when on.
Routes = Callable[[dict[str, str], float], None]


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Routes:
    """A machine that has exactly these routes, as soon as this many seconds have gone by."""

    def give(addresses: dict[str, str], after_s: float) -> None:
        def route(host: str) -> str | None:
            return addresses.get(host) if trio.current_time() >= up_at else None

        up_at = trio.current_time() + after_s
        monkeypatch.setattr(interfaces, "route_to", route)

    return give


async def test_a_member_waits_for_its_network(autojump_clock: MockClock, routes: Routes) -> None:
    routes({GROUP: "10.9.0.1"}, 4.0)
    began = trio.current_time()
    assert await route_towards([GROUP], 10.0) == "10.9.0.1"
    assert trio.current_time() - began == pytest.approx(4.0, abs=interfaces.RETRY_S)


async def test_a_route_to_a_seed_will_do_and_the_group_comes_first(autojump_clock: MockClock, routes: Routes) -> None:
    routes({SEED: "10.9.0.1"}, 0.0)
    assert await route_towards([GROUP, SEED], 10.0) == "10.9.0.1"
    routes({SEED: "10.9.0.1", GROUP: "10.8.0.1"}, 0.0)
    assert await route_towards([GROUP, SEED], 10.0) == "10.8.0.1"


@pytest.mark.parametrize("config", [lan("NYC"), named_hosts("NYC", (Physical(SEED, 7600),), 0)], ids=["multicast", "seeds"])
async def test_opening_sockets_without_a_network_raises_after_the_resolve_timeout(
    autojump_clock: MockClock, routes: Routes, config: SiteConfig
) -> None:
    routes({"127.0.0.1": "127.0.0.1"}, 0.0)
    began = trio.current_time()
    with pytest.raises(ConfigurationError, match=r"^transport\.interface: this machine has no route to .*127\.0\.0\.1.*\.$"):
        await open_sockets(local_of("A"), config)
    assert trio.current_time() - began == pytest.approx(ChannelConfig().resolve_timeout_s)


async def test_a_site_on_this_machine_needs_no_network(autojump_clock: MockClock, routes: Routes) -> None:
    routes({}, 0.0)
    transport = await open_sockets(local_of("A"), local("NYC"))
    assert transport.physical()[0].host == "127.0.0.1"
    transport.close()


def test_the_kernel_route_gives_the_interface_address_and_a_missing_route_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interfaces.find_interface("127.0.0.1", GROUP) == "127.0.0.1"
    assert interfaces.route_to("127.0.0.1") == "127.0.0.1"
    monkeypatch.setattr(interfaces, "route_to", lambda host: None)
    with pytest.raises(ConfigurationError, match=r"transport\.interface: this machine has no route to 239\.192\.0\.1"):
        interfaces.find_interface("", GROUP)


async def test_a_subnet_selects_a_further_address_of_an_interface() -> None:
    if not await has_wires():
        pytest.skip("no rights to make network namespaces")
    add = 'ip link set lo up; ip addr add 198.18.9.7/24 dev lo; exec "$0" -c "$1"'
    find = "from sitestack.transport.interfaces import find_interface; print(find_interface('198.18.9.0/24', ''))"
    alone = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", add, sys.executable, find]
    assert (await trio.run_process(alone, capture_stdout=True)).stdout == b"198.18.9.7\n"


def test_which_addresses_a_machine_has() -> None:
    """Without descriptors it cannot be asked; then nothing has changed."""
    elsewhere = "203.0.113.1"
    assert interfaces.is_here("127.0.0.1")
    assert not interfaces.is_here(elsewhere)
    with no_descriptors():
        assert interfaces.is_here(elsewhere)


class Interface:
    """Stands before the sockets of a member and behaves as if the interface were away."""

    def __init__(self, transport: UdpTransport, group: Physical, monkeypatch: pytest.MonkeyPatch) -> None:
        membership = transport._memberships[group]
        self.away: int | None = None
        self.attempts = 0
        self._sock = transport._unicast
        self._group = group
        monkeypatch.setattr(transport, "_unicast", self)
        monkeypatch.setattr(membership, "_sender", self)
        self._listener = membership._listener

    def vanish(self, sending_says: int) -> None:
        self.away = sending_says
        request = socket.inet_aton(self._group.host) + socket.inet_aton("127.0.0.1")
        self._listener.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, request)

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        if self.away is not None and address == self._group:
            raise OSError(self.away, os.strerror(self.away))
        return self._sock.sendto(data, address)

    def setsockopt(self, level: int, option: int, value: bytes | int) -> None:
        if option == socket.IP_MULTICAST_IF:
            self.attempts += 1
            if self.away is not None:
                raise OSError(errno.EADDRNOTAVAIL, "no such address")
        self._sock.setsockopt(level, option, value)

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)


@pytest.fixture
def members(udp: Open) -> tuple[UdpTransport, UdpTransport]:
    return udp(), udp()


@pytest.mark.parametrize("sending_says", [errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH])
async def test_a_member_whose_interface_returns_receives_the_group_again(
    members: tuple[UdpTransport, UdpTransport],
    group: Physical,
    sending_says: int,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    other, member = members
    interface = Interface(member, group, monkeypatch)
    interface.vanish(sending_says)
    member.send([(None, b"lost")])
    other.send([(None, b"not heard")])
    assert member.receive() == []
    member.send([(None, b"lost too")])
    await trio.sleep(RENEW_INTERVAL_S)
    interface.away = None
    member.send([(None, b"back")])
    other.send([(None, b"heard")])
    assert [data for data, _ in other.receive()] == [b"back"]
    assert [data for data, _ in member.receive()] == [b"heard"]
    assert member.statistics().unsent_datagrams == 2


@pytest.mark.parametrize(("host", "any_group"), [(ANY_INTERFACE, "239.251.0.1"), (ANY_IPV6, "ff15::1")])
async def test_a_member_of_all_interfaces_joins_the_group_again(host: str, any_group: str) -> None:
    sock = Mock(spec=socket.socket)
    membership = GroupMembership(sock, sock, Physical(any_group, 7_600), host)
    membership.join()
    membership.failed(OSError(errno.ENETUNREACH, "no route"))
    membership.renew(0)
    assert not membership.lost
    _, join, leave, _, rejoin = [call.args[1] for call in sock.setsockopt.call_args_list]
    assert join == rejoin != leave


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_an_address_without_a_socket_for_it_is_refused_with_one_sentence(
    kind: TransportKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TransportConfig(kind=kind, interface="::1", ipv6=True, multicast=False)
    missing = Mock(side_effect=OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol"))
    for module in (interfaces, accepting):
        monkeypatch.setattr(module, "make_socket", missing)
    with pytest.raises(ConfigurationError, match=r"cannot listen on \[::1\]:0 in (UDP|TCP) \(Address family"):
        (TcpTransport if kind == "tcp" else UdpTransport)(config, None)
    with pytest.raises(ConfigurationError, match=r"a server: cannot listen on \[::1\]:0: Address family"):
        accepting.listen_tcp(Physical("::1", 0), 1, "a server")


#: One member at each end of a wire. The address of one moves to a bridge over its end, as a virtual machine host does it.
BRIDGED = """
import sys, trio
from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.transport.udp import UdpTransport

async def hears(one, other):
    heard = []
    while b"there" not in heard:
        other.send([(None, b"there")])
        one.send([(None, b"here")])
        await trio.sleep(0.05)
        heard += [data for data, _ in one.receive()]

async def main():
    group, hosts, (bits, add) = Physical(sys.argv[1], 7600), sys.argv[2:4], sys.argv[4:]
    one, other = [UdpTransport(TransportConfig(ipv6=":" in host, interface=host), group) for host in hosts]
    other._unicast.setsockopt(other._options.level, other._options.loop, 0)  # by the wire only
    with trio.fail_after(8):
        await hears(one, other)
        bridge = "ip link add b0 type bridge mcast_snooping 0 forward_delay 0 && ip link set b0 up && ip link set d0 master b0"
        await trio.run_process(["sh", "-ec", f"{bridge} && ip addr del {hosts[0]}/{bits} dev d0 && {add} dev b0"])
        one.receive()
        await hears(one, other)

trio.run(main)
"""


@pytest.mark.parametrize(
    ("group", "hosts", "bits"),
    [("239.192.0.1", ["198.18.0.1", "198.18.0.2"], 24), ("ff15::1", ["2001:2::1", "2001:2::2"], 64)],
)
async def test_a_member_whose_address_moves_to_a_bridge_receives_the_group_there(
    group: str, hosts: list[str], bits: int
) -> None:
    if not await has_wires():
        pytest.skip("no rights to make network namespaces")
    once = " nodad" if bits == 64 else ""
    here, there = [f"ip addr add {host}/{bits}{once}" for host in hosts]
    links = "ip link add d0 type veth peer name d1; ip link set d0 up; ip link set d1 up; ip link set lo up"
    own = "cd /proc/sys/net/ipv4/conf; echo 1 >default/accept_local; echo 0 >all/rp_filter; echo 0 >default/rp_filter; cd -"
    script = f'{own}; {links}; {here} dev d0; {there} dev d1; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", script, "sh", sys.executable]
    await trio.run_process([*command, "-c", BRIDGED, group, *hosts, str(bits), here])


async def test_while_the_interface_is_away_the_group_is_tried_at_intervals_and_afterwards_not_at_all(
    members: tuple[UdpTransport, UdpTransport], group: Physical, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    _, member = members
    interface = Interface(member, group, monkeypatch)
    interface.vanish(errno.ENODEV)
    for _ in range(100):
        member.send([(None, b"x"), (None, b"y")])
        await trio.sleep(RENEW_INTERVAL_S / 10)
    assert interface.attempts == pytest.approx(10, abs=1)
    interface.away = None
    await trio.sleep(RENEW_INTERVAL_S)
    before = interface.attempts
    for _ in range(100):
        member.send([(None, b"x")])
        await trio.sleep(RENEW_INTERVAL_S / 10)
    assert interface.attempts == before + 1


async def test_a_multicast_that_fails_for_another_reason_leaves_the_group_alone(
    members: tuple[UdpTransport, UdpTransport], group: Physical, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, member = members
    interface = Interface(member, group, monkeypatch)
    interface.away = errno.EPERM
    for _ in range(3):
        member.send([(None, b"x")])
    assert interface.attempts == 0


@pytest.mark.parametrize(("number", "may_pass"), [(errno.EADDRNOTAVAIL, 1), (socket.EAI_AGAIN, 1), (errno.EADDRINUSE, 0)])
def test_a_missing_address_or_name_server_may_appear_later(number: int, may_pass: int) -> None:
    assert isinstance(not_bound(OSError(number, "why"), "a sentence."), NoNetwork) is bool(may_pass)
