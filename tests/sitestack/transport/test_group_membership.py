"""An interface that vanishes and comes back: the kernel has forgotten the group, and the member joins it again."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.transport.udp import RENEW_INTERVAL_S, UdpTransport

LOOPBACK = TransportConfig(interface="127.0.0.1")


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
def group() -> Physical:
    rng = random.Random(os.getpid() ^ random.SystemRandom().getrandbits(32))
    return Physical(f"239.251.{rng.randrange(256)}.{rng.randrange(1, 255)}", rng.randrange(20_000, 30_000))


@pytest.fixture
def members(group: Physical) -> Iterator[tuple[UdpTransport, UdpTransport]]:
    one, other = UdpTransport(LOOPBACK, group), UdpTransport(LOOPBACK, group)
    yield one, other
    one.close()
    other.close()


@pytest.mark.parametrize("sending_says", [errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH])
async def test_a_member_whose_interface_came_back_hears_the_group_again(
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
