"""One port number for UDP and TCP: free in both, or a sentence that names the used one."""

from __future__ import annotations

import errno
import socket
from functools import partial

import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport import accepting, interfaces
from sitestack.transport.accepting import Admissions, accept_bounded, hold_place, listen_tcp
from sitestack.transport.interfaces import RETRY_S, Names, bind_pair, open_socket
from sitestack.transport.places import NoPlace, Places
from tests.conftest import Zone
from tests.harness.sockets import until

LOOPBACK = "127.0.0.1"


def test_a_free_port_is_free_in_both() -> None:
    udp, tcp = bind_pair(LOOPBACK, 0)
    with udp, tcp:
        assert udp.getsockname() == tcp.getsockname()
        socket.create_connection(tcp.getsockname(), 5).close()


def test_a_number_that_is_taken_in_tcp_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[socket.socket] = []
    others: list[socket.socket] = []

    def draw(host: str, port: int, kind: int, *, again: bool = False) -> socket.socket:
        if kind == socket.SOCK_DGRAM and len(others) < 2:
            drawn.append(_drawn_with_its_number_taken_in_tcp(others))
            return drawn[-1]
        return open_socket(host, port, kind, again=again)

    monkeypatch.setattr(interfaces, "open_socket", draw)
    udp, tcp = bind_pair(LOOPBACK, 0)
    assert [each.fileno() for each in drawn] == [-1, -1]
    for each in (udp, tcp, *others):
        each.close()


def _drawn_with_its_number_taken_in_tcp(others: list[socket.socket]) -> socket.socket:
    """Other processes draw ports meanwhile: the number is taken in TCP first, and only one that is free in UDP counts."""
    while True:
        other = socket.create_server((LOOPBACK, 0))
        try:
            udp = open_socket(LOOPBACK, other.getsockname()[1], socket.SOCK_DGRAM)
        except ConfigurationError:
            other.close()
        else:
            others.append(other)
            return udp


def test_no_port_free_in_both_udp_and_tcp_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: str, port: int, kind: int, **_: object) -> socket.socket:
        if kind == socket.SOCK_DGRAM:
            return open_socket(host, port, kind)
        raise ConfigurationError("taken") from OSError(errno.EADDRINUSE, "taken")

    monkeypatch.setattr(interfaces, "open_socket", refuse)
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
            open_socket(LOOPBACK, port, socket.SOCK_DGRAM).close()


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


async def test_names_keep_their_addresses_while_no_thread_can_look_them_up(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([POD])
    zone.hosts["relay.nyc"] = ["10.0.0.1"]
    await names.find(10.0)
    zone.exhausted = True
    with trio.move_on_after(11.0):
        await names.follow(5.0, lambda addresses: pytest.fail("nothing has changed"))
    assert (zone.asked, names.addresses()) == (3, at("10.0.0.1"))


async def test_addresses_are_not_looked_up_again(autojump_clock: MockClock, zone: Zone) -> None:
    names = Names([Physical("10.0.0.1", 7601)])
    zone.hosts["10.0.0.1"] = ["10.0.0.1"]
    assert await names.find(10.0) == at("10.0.0.1")
    with trio.fail_after(1.0):
        await names.follow(5.0, lambda addresses: pytest.fail("nothing has changed"))


# -- accepting -------------------------------------------------------------------------------------------------------------


ANY_PORT = Physical("127.0.0.1", 0)


async def test_connections_beyond_the_bound_wait_until_one_ends() -> None:
    served: list[trio.SocketStream] = []

    async def serve(stream: trio.SocketStream) -> None:
        served.append(stream)
        async with stream:
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listen_tcp(ANY_PORT, 8, "test")))
        nursery.start_soon(partial(accept_bounded, listener, serve, nursery, name="test", connections_max=2))
        callers = [await trio.open_tcp_stream(*listener.socket.getsockname()) for _ in range(3)]
        await until(lambda: len(served) == 2)
        await trio.sleep(0.05)
        assert len(served) == 2
        await callers[0].aclose()
        await until(lambda: len(served) == 3)
        for each in callers:
            await each.aclose()
        nursery.cancel_scope.cancel()
    await listener.aclose()


async def test_a_row_of_failures_is_logged_once_and_each_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "ACCEPT_PAUSE_S", 0.001)
    ours, theirs = trio.socket.socketpair()
    answers = iter([OSError(errno.EMFILE, "Too many open files")] * 3 + [trio.SocketStream(ours)])
    admissions, relieved = Admissions(), list[int]()

    async def accept(_: trio.SocketListener) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        answer = next(answers, None) or OSError(errno.EMFILE, "Too many open files")
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(trio.SocketListener, "accept", accept)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.aclose()

    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listen_tcp(ANY_PORT, 8, "test")))
    with structlog.testing.capture_logs() as log:
        async with trio.open_nursery() as nursery:
            serving = partial(accept_bounded, listener, serve, nursery, name="test", connections_max=1)
            nursery.start_soon(partial(serving, admissions=admissions, relieve=lambda: relieved.append(1)))
            await until(lambda: admissions.refused >= 5)
            nursery.cancel_scope.cancel()
    theirs.close()
    await listener.aclose()
    lines = [(each["event"], each["listener"], each["why"]) for each in log]
    assert lines == [("cannot accept connections", "test", "Too many open files")] * 2, "one before the connection, one after"
    assert (admissions.trouble, len(relieved)) == ("Too many open files", admissions.refused)


def test_the_oldest_of_the_host_with_the_most_gives_way() -> None:
    places = Places[str](4, 3)
    for holder in ("a1", "b1", "b2", "c1"):
        assert places.enter(holder, holder[0]) == []
    assert places.enter("d1", "d") == ["b1"]
    assert places.enter("d2", "d") == ["a1"], "each host has one"
    assert (sorted(places), places.pushed_out) == (["b2", "c1", "d1", "d2"], 2)
    places.leave("b2")
    places.enter("d3", "d")
    places.leave("c1")
    assert places.enter("d4", "d") == ["d1"], "a host has three places at most"
    assert (places.level().now, places.level().bound) == (3, 4)


def test_a_place_that_is_kept_goes_to_no_other_caller_until_it_is_released() -> None:
    places = Places[str](2, 2)
    places.enter("a", "a")
    places.enter("b", "b")
    places.keep("a")
    assert places.enter("c", "c") == ["b"]
    places.keep("c")
    with pytest.raises(NoPlace, match="there are 2 connections already"):
        places.enter("d", "d")
    assert places.push_out() == []
    places.release("a")
    assert places.enter("d", "d") == ["a"]
    places.keep("a")  # it has gone
    assert sorted(places) == ["c", "d"]


async def test_a_block_ends_when_its_place_goes_to_another_or_its_time_is_over() -> None:
    places, ended = Places[trio.CancelScope](1, 1), list[str]()

    async def hold(name: str, timeout_s: float) -> None:
        with hold_place(places, "", timeout_s):
            await trio.sleep(60)
        ended.append(name)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold, "first", 60.0)
            await until(lambda: len(places) == 1)
            nursery.start_soon(hold, "second", 0.05)
    assert (ended, len(places)) == (["first", "second"], 0)
