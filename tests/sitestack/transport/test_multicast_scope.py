"""How far multicasts of a member go, and which it hears (C24): its own group, through its own interface, no router away."""

from __future__ import annotations

import socket
import sys

import pytest

from relay_lab.drills.layout import draw_group
from sitestack.config import TransportConfig, lan
from sitestack.model.address import Physical
from sitestack.transport.udp import _IP_MULTICAST_ALL, UdpTransport
from tests.sitestack.transport.test_udp import receive

LOOPBACK = socket.inet_aton("127.0.0.1")


def opened(group: Physical) -> UdpTransport:
    return UdpTransport(TransportConfig(interface="127.0.0.1"), group)


def test_a_multicast_is_passed_on_by_no_router_unless_that_is_configured() -> None:
    assert lan("NYC").transport.multicast_ttl_hops == 1
    group = Physical(*draw_group())
    for config, hops in (
        (TransportConfig(interface="127.0.0.1"), 1),
        (TransportConfig(interface="127.0.0.1", multicast_ttl_hops=3), 3),
    ):
        transport = UdpTransport(config, group)
        try:
            assert transport._unicast.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == hops
            assert transport._unicast.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4) == LOOPBACK
        finally:
            transport.close()


def test_the_sockets_are_bound_to_the_interface_and_to_the_group_and_not_to_everything() -> None:
    group = Physical(*draw_group())
    transport = opened(group)
    try:
        own, heard = transport._sockets
        assert own.getsockname()[0] == "127.0.0.1"
        assert heard.getsockname() == tuple(group)
        if sys.platform == "linux":
            assert heard.getsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL) == 0
    finally:
        transport.close()


async def test_datagrams_to_another_group_or_to_the_port_itself_are_not_received() -> None:
    """A neighbour on this machine has joined the other group, so the system does deliver its datagrams here."""
    group = Physical(*draw_group())
    other = Physical(f"{group.host.rpartition('.')[0]}.{(int(group.host.rpartition('.')[2]) + 1) % 255}", group.port)
    transport, neighbour = opened(group), opened(other)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, LOOPBACK)
        try:
            for place in (other, Physical("127.0.0.1", group.port), group):
                sender.sendto(f"to {place}".encode(), place)
            assert await receive(transport, 1) == [f"to {group}".encode()]
            assert await receive(neighbour, 1) == [f"to {other}".encode()]
        finally:
            transport.close()
            neighbour.close()


@pytest.mark.conforms("LA-24")
async def test_a_socket_of_several_sites_receives_only_the_groups_that_it_has_joined() -> None:
    """The socket is bound to no group, so the system also delivers datagrams for the port itself."""
    one, two, foreign = (Physical(f"239.194.7.{n}", draw_group()[1]) for n in range(1, 4))
    two, foreign = two._replace(port=one.port), foreign._replace(port=one.port)
    transport = UdpTransport(TransportConfig(interface="127.0.0.1", multicast_port=one.port), None)
    neighbour = opened(foreign)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, LOOPBACK)
        try:
            transport.join(one)
            transport.join(two)
            for place in (foreign, Physical("127.0.0.1", one.port), one, two):
                sender.sendto(f"to {place}".encode(), place)
            assert await receive(transport, 2) == [f"to {one}".encode(), f"to {two}".encode()]
            assert transport.statistics().misdirected_datagrams == 1
            transport.leave(one)
            for place in (one, two):
                sender.sendto(f"to {place}".encode(), place)
            assert await receive(transport, 1) == [f"to {two}".encode()]
        finally:
            transport.close()
            neighbour.close()
