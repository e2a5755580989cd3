"""One port number for UDP and TCP: free in both, or a sentence that names the used one."""

from __future__ import annotations

import errno
import socket

import pytest
import trio
from trio.testing import MockClock

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport import interfaces
from sitestack.transport.interfaces import RETRY_S, Names, bind_pair, bind_udp
from tests.conftest import Zone

LOOPBACK = "127.0.0.1"


def test_a_free_port_is_free_in_both() -> None:
    udp, tcp = bind_pair(LOOPBACK, 0)
    with udp, tcp:
        assert udp.getsockname() == tcp.getsockname()
        socket.create_connection(tcp.getsockname(), 5).close()


def test_a_number_that_is_taken_in_tcp_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[socket.socket] = []
    others: list[socket.socket] = []

    def draw(host: str, port: int) -> socket.socket:
        drawn.append(bind_udp(host, port) if len(others) == 2 else _drawn_with_its_number_taken_in_tcp(others))
        return drawn[-1]

    monkeypatch.setattr(interfaces, "bind_udp", draw)
    udp, tcp = bind_pair(LOOPBACK, 0)
    assert len(drawn) >= 3
    assert [each.fileno() for each in drawn[:2]] == [-1, -1]
    assert udp is drawn[-1]
    for each in (udp, tcp, *others):
        each.close()


def _drawn_with_its_number_taken_in_tcp(others: list[socket.socket]) -> socket.socket:
    """Other processes draw ports meanwhile: the number is taken in TCP first, and only one that is free in UDP counts."""
    while True:
        other = socket.create_server((LOOPBACK, 0))
        try:
            udp = bind_udp(*other.getsockname())
        except ConfigurationError:
            other.close()
        else:
            others.append(other)
            return udp


def test_no_port_free_in_both_udp_and_tcp_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> socket.socket:
        raise ConfigurationError("taken") from OSError(errno.EADDRINUSE, "taken")

    monkeypatch.setattr(interfaces, "listen", refuse)
    with pytest.raises(ConfigurationError, match=r"found no port of 127\.0\.0\.1 that is free in UDP and in TCP"):
        bind_pair(LOOPBACK, 0)


@pytest.mark.parametrize(("kind", "protocol"), [(socket.SOCK_DGRAM, "UDP"), (socket.SOCK_STREAM, "TCP")])
def test_a_configured_port_that_is_taken_is_one_sentence_and_leaves_nothing_open(
    kind: socket.SocketKind, protocol: str
) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind((LOOPBACK, 0))
        port = other.getsockname()[1]
        sentence = rf"^transport\.port: port {port} of 127\.0\.0\.1 is already in use in {protocol}; choose another one"
        with pytest.raises(ConfigurationError, match=sentence):
            bind_pair(LOOPBACK, port)
        if kind == socket.SOCK_STREAM:
            bind_udp(LOOPBACK, port).close()


@pytest.mark.conforms("LA-4")
def test_a_configured_port_can_be_had_again_while_old_connections_wind_up() -> None:
    udp, tcp = bind_pair(LOOPBACK, 0)
    port = tcp.getsockname()[1]
    with udp, tcp:
        pass
    udp, tcp = bind_pair(LOOPBACK, port)
    with socket.create_connection((LOOPBACK, port), 5) as watcher:
        accepted, _ = tcp.accept()
        for each in (accepted, udp, tcp):
            each.close()
        again = bind_pair(LOOPBACK, port)
        assert watcher.recv(1) == b""
    for each in again:
        each.close()


POD = Physical("relay.nyc", 7601)


def at(*hosts: str) -> tuple[Physical, ...]:
    return tuple(Physical(host, POD.port) for host in hosts)


@pytest.mark.conforms("LA-13")
async def test_a_name_resolves_to_all_its_addresses_in_a_stable_order(autojump_clock: MockClock, zone: Zone) -> None:
    zone.hosts["relay.nyc"] = ["10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1"]
    assert await Names([POD]).find(10.0) == at("10.0.0.1", "10.0.0.2", "10.0.0.3")


async def test_as_long_as_no_name_is_known_it_is_asked_again(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([POD])
    with trio.fail_after(RETRY_S * 3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names.find, 10.0)
            await trio.sleep(RETRY_S * 1.5)
            zone.hosts["relay.nyc"] = ["10.0.0.1"]
    assert names.addresses() == at("10.0.0.1")


@pytest.mark.parametrize("silent", [False, True])
async def test_a_member_does_not_wait_for_names_for_ever(autojump_clock: MockClock, zone: Zone, silent: bool) -> None:
    zone.silent = silent
    began = trio.current_time()
    assert await Names([POD]).find(10.0) == ()
    assert trio.current_time() - began == pytest.approx(10.0)


async def test_names_that_are_not_known_do_not_hide_those_that_are(autojump_clock: MockClock, zone: Zone) -> None:
    zone.hosts["relay.nyc"] = ["10.0.0.1"]
    impossible = Physical(f"{'x' * 70}..nyc", 1)
    assert await Names([Physical("gone.nyc", 1), impossible, POD]).find(10.0) == at("10.0.0.1")


async def test_moved_pods_are_reported_and_a_failed_name_server_changes_no_address(
    autojump_clock: MockClock, zone: Zone
) -> None:
    told: list[tuple[Physical, ...]] = []
    names = Names([POD])
    zone.hosts["relay.nyc"] = ["10.0.0.1"]
    await names.find(10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(names.follow, 5.0, told.append)
        await trio.sleep(11.0)
        assert (told, zone.asked) == ([], 3)
        del zone.hosts["relay.nyc"]
        await trio.sleep(5.0)
        assert (told, names.addresses()) == ([], at("10.0.0.1"))
        zone.hosts["relay.nyc"] = ["10.0.0.7", "10.0.0.8"]
        await trio.sleep(5.0)
        assert told == [at("10.0.0.7", "10.0.0.8")]
        nursery.cancel_scope.cancel()


async def test_addresses_are_not_looked_up_again(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([Physical("10.0.0.1", 7601)])
    zone.hosts["10.0.0.1"] = ["10.0.0.1"]
    assert await names.find(10.0) == at("10.0.0.1")
    with trio.fail_after(1.0):
        await names.follow(5.0, lambda addresses: pytest.fail("nothing has changed"))
