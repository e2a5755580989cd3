"""UDP on the loopback interface: real sockets, free ports, a new group for every test."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
import trio

from sitestack.config import TransportConfig, lan
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport import interfaces
from sitestack.transport.udp import _IP_MULTICAST_ALL, UdpTransport
from tests.sitestack.transport.conftest import LOOPBACK, Open


async def receive(transport: UdpTransport, count: int) -> list[bytes]:
    arrived: list[bytes] = []
    with trio.fail_after(5):
        while len(arrived) < count:
            await transport.wait()
            arrived += [data for data, _ in transport.receive()]
    return arrived


@pytest.mark.conforms("LA-30")
async def test_a_datagram_reaches_a_physical_address_and_carries_its_source(
    udp: Open,
) -> None:
    a, b = udp(), udp()
    a.send([(b.physical()[0], b"hello")])
    with trio.fail_after(5):
        await b.wait()
        assert b.receive() == [(b"hello", a.physical()[0])]


class _CountsReads:
    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.reads = sock, 0

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        self.reads += 1
        data, source = self.sock.recvfrom(size)
        return data, source


async def test_a_lone_datagram_costs_one_read_and_a_look_without_any_costs_none(
    udp: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = udp(), udp()
    counted = {number: _CountsReads(sock) for number, sock in b._sockets.items()}
    monkeypatch.setattr(b, "_sockets", counted)
    assert b.receive() == []
    assert [each.reads for each in counted.values()] == [0, 0]
    a.send([(b.physical()[0], b"alone")])
    assert await receive(b, 1) == [b"alone"]
    assert [each.reads for each in counted.values()] == [1, 0]
    a.send([(b.physical()[0], b"x")] * 3)
    with trio.fail_after(5):
        await b.wait()
    assert len(b.receive()) == 3  # the fourth failed read ends them
    monkeypatch.undo()
    assert [each.reads for each in counted.values()] == [5, 0]


@pytest.mark.conforms("LA-26")
async def test_a_multicast_of_the_largest_size_reaches_all_members_but_its_sender(udp: Open) -> None:
    a, b, c = udp(), udp(), udp()
    large = os.urandom(LOOPBACK.datagram_bytes_max)
    a.send([(None, large), (None, b"second")])
    assert await receive(b, 2) == [large, b"second"]
    assert await receive(c, 2) == [large, b"second"]
    assert a.receive() == []


async def test_many_datagrams_arrive_in_order_and_a_turn_reads_at_most_its_share(udp: Open) -> None:
    a, b = udp(), udp(replace(LOOPBACK, receive_datagrams_max=10))
    numbers = [b"%d" % i for i in range(25)]
    a.send([(b.physical()[0], number) for number in numbers])
    with trio.fail_after(5):
        await b.wait()
    turns = [[data for data, _ in b.receive()] for _ in range(3)]
    assert [len(turn) for turn in turns] == [10, 10, 5]
    assert list(itertools.chain(*turns)) == numbers


async def test_groups_on_one_machine_do_not_receive_each_other(udp: Open, group: Physical) -> None:
    a, b, stranger = udp(), udp(), udp(of=Physical(f"{group.host.rpartition('.')[0]}.255", group.port))
    stranger.send([(None, b"theirs")])
    a.send([(None, b"ours")])
    assert await receive(b, 1) == [b"ours"]


class FullSocket:
    """Stands before a socket with a full kernel buffer until the test empties it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.full = True

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        if self.full:
            raise BlockingIOError(errno.EAGAIN, "full")
        return self._sock.sendto(data, address)

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)


async def test_datagrams_wait_in_order_for_a_full_kernel_and_overflow_is_counted(
    udp: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = udp(replace(LOOPBACK, send_queue_bytes_max=20)), udp()
    full = FullSocket(a._unicast)
    monkeypatch.setattr(a, "_unicast", full)
    a.send([(b.physical()[0], b"0123456789"), (b.physical()[0], b"abcdefghij"), (b.physical()[0], b"too much")])
    assert (a.levels()["queued_bytes"].now, a.statistics().unsent_datagrams) == (20, 1)

    full.full = False
    a.send([(b.physical()[0], b"!")])
    with trio.fail_after(5):
        await a.wait()
    a.receive()
    a.send([(b.physical()[0], b"later")])
    assert await receive(b, 3) == [b"0123456789", b"abcdefghij", b"later"], "nothing overtakes what waits"
    assert (a.levels()["queued_bytes"].now, a.levels()["queued_bytes"].high) == (0, 20)

    with trio.move_on_after(0.05) as waited:
        await a.wait()
    assert waited.cancelled_caught, "with an empty queue there is nothing to wake up for"


async def test_errors_that_the_network_reports_are_counted_and_nothing_else(udp: Open) -> None:
    a, b, gone = udp(), udp(), udp()
    nobody = gone.physical()[0]
    gone.close()
    unreachable = Physical("255.255.255.255", 9)
    a.send([(nobody, b"x"), (unreachable, b"y"), (b.physical()[0], b"z")])
    assert await receive(b, 1) == [b"z"]
    assert a.receive() == []
    assert a.statistics().unsent_datagrams == 1


async def test_a_name_in_place_of_an_address_is_never_looked_up(udp: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = udp(), udp()
    monkeypatch.setattr("sitestack.transport.udp.NUMERIC_MAX", 1)
    a.send([(Physical("localhost", b.physical()[0].port), b"x"), (Physical("127.0.0.2", 9), b"y"), (b.physical()[0], b"z")])
    assert await receive(b, 1) == [b"z"]
    assert (a.statistics().unsent_datagrams, len(a._numeric)) == (1, 1)


async def test_without_multicast_one_socket_is_opened_and_a_multicast_is_counted_as_unsent(udp: Open) -> None:
    a = udp(replace(LOOPBACK, multicast=False))
    a.send([(None, b"x")])
    assert (a.statistics().unsent_datagrams, len(a._sockets)) == (1, 1)


def test_the_granted_kernel_buffer_sizes_are_reported(udp: Open) -> None:
    numbers = udp(replace(LOOPBACK, receive_buffer_bytes=100_000)).statistics()
    assert numbers.receive_buffer_bytes == 100_000
    assert numbers.send_buffer_bytes > 0


@pytest.mark.conforms("LA-8")
def test_the_external_address_is_advertised_first(udp: Open) -> None:
    a = udp(replace(LOOPBACK, external_host="198.51.100.7", external_port=7000))
    b = udp(replace(LOOPBACK, external_host="198.51.100.7"))
    c, d = udp(), udp(replace(LOOPBACK, interface="0.0.0.0", external_host="198.51.100.7", multicast=False))
    assert a.physical()[0] == Physical("198.51.100.7", 7000)
    assert [place.host for place in a.physical()] == ["198.51.100.7", "127.0.0.1"]
    assert [len(each.physical()) for each in (c, d)] == [1, 1]
    assert b.physical()[0].host == "198.51.100.7"
    assert b.physical()[0].port not in (0, 7000)


def test_a_busy_port_raises_one_sentence_and_leaves_no_socket(udp: Open) -> None:
    port = udp().physical()[0].port
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigurationError, match=rf"transport\.port: port {port} of 127\.0\.0\.1 is already in use"):
        udp(replace(LOOPBACK, port=port))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("interface", "says"),
    [
        ("198.51.100.1", "198.51.100.1 is no address of this machine"),
        ("nonesuch0", "'nonesuch0' is neither an IPv4 address nor a network interface"),
        ("a name that is much too long", "is neither an address nor a network interface"),
        ("198.51.100.0/24", "this machine has no address in 198.51.100.0/24; it has 127.0.0.1"),
        ("127.0.0.1/240", "'127.0.0.1/240' is no subnet"),
    ],
)
def test_a_missing_interface_raises_one_sentence(udp: Open, interface: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        udp(TransportConfig(interface=interface))


def test_a_group_that_is_no_multicast_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="transport"):
        UdpTransport(LOOPBACK, Physical("127.0.0.1", 0))


def test_an_interface_may_be_given_by_name_or_subnet_or_left_open(udp: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    assert udp(TransportConfig(interface="127.0.0.0/8")).physical()[0].host == "127.0.0.1"
    assert udp(TransportConfig(interface="127.0.0.1/32")).physical()[0].host == "127.0.0.1"
    assert udp(TransportConfig(interface="lo")).physical()[0].host == "127.0.0.1"
    monkeypatch.setattr(interfaces, "route_to", lambda group: "127.0.0.2")
    assert udp(TransportConfig(multicast=False)).physical()[0].host == "127.0.0.2"


async def test_closing_gives_back_every_descriptor_and_may_be_repeated(udp: Open) -> None:
    before = len(os.listdir("/proc/self/fd"))
    a = udp()
    assert len(os.listdir("/proc/self/fd")) > before
    a.close()
    a.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert a.statistics().receive_buffer_bytes == 0


# -- how far multicasts go, and which are heard (C24): the own group, through the own interface, no router away ------------


INTERFACE = socket.inet_aton("127.0.0.1")


def test_a_multicast_is_passed_on_by_no_router_unless_that_is_configured(udp: Open) -> None:
    assert lan("NYC").transport.multicast_ttl_hops == 1
    for transport, hops in ((udp(), 1), (udp(replace(LOOPBACK, multicast_ttl_hops=3)), 3)):
        assert transport._unicast.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == hops
        assert transport._unicast.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4) == INTERFACE


def test_the_sockets_are_bound_to_the_interface_and_to_the_group_and_not_to_everything(udp: Open, group: Physical) -> None:
    own, heard = udp()._sockets.values()
    assert own.getsockname()[0] == "127.0.0.1"
    assert heard.getsockname() == tuple(group)
    assert heard.getsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL) == 0


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    """A socket that sends multicasts through the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, INTERFACE)
        yield sock


async def test_datagrams_to_another_group_or_to_the_port_itself_are_not_received(
    udp: Open, group: Physical, sender: socket.socket
) -> None:
    """A neighbour on this machine has joined the other group, so the system does deliver its datagrams here."""
    other = Physical(f"{group.host.rpartition('.')[0]}.{(int(group.host.rpartition('.')[2]) + 1) % 255}", group.port)
    transport, neighbour = udp(), udp(of=other)
    for place in (other, Physical("127.0.0.1", group.port), group):
        sender.sendto(f"to {place}".encode(), place)
    assert await receive(transport, 1) == [f"to {group}".encode()]
    assert await receive(neighbour, 1) == [f"to {other}".encode()]


@pytest.mark.conforms("LA-24")
async def test_a_socket_of_several_sites_receives_only_the_groups_that_it_has_joined(
    udp: Open, group: Physical, sender: socket.socket
) -> None:
    """The socket is bound to no group, so the system also delivers datagrams for the port itself."""
    one, two, foreign = (Physical(f"239.194.7.{n}", group.port) for n in range(1, 4))
    transport = udp(replace(LOOPBACK, multicast_port=group.port), None)
    udp(of=foreign)
    transport.join(one)
    transport.join(two)
    for place in (foreign, Physical("127.0.0.1", one.port), one, two):
        sender.sendto(f"to {place}".encode(), place)
    assert await receive(transport, 2) == [f"to {one}".encode(), f"to {two}".encode()]
    transport.leave(one)
    for place in (one, two):
        sender.sendto(f"to {place}".encode(), place)
    assert await receive(transport, 1) == [f"to {two}".encode()]
