"""One port number for UDP and TCP: free in both, or a sentence that names the used one."""

from __future__ import annotations

import errno
import socket

import pytest

from sitestack.model.errors import ConfigurationError
from sitestack.transport import interfaces
from sitestack.transport.interfaces import bind_pair, bind_udp

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


def test_when_none_is_free_in_both_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
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
