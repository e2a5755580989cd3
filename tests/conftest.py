"""Fixtures of tests in several rooms."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
from hypothesis import settings

from tests.harness.command_line import run

__all__ = ["run"]

# A busy machine makes examples slow, which is no fault of the code.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A folder with a short path, since the path of a socket has little room."""
    with TemporaryDirectory(prefix="relay-") as name:
        yield Path(name)


class Zone(trio.abc.HostnameResolver):
    """A resolver that finds the hosts which a test gives it."""

    def __init__(self) -> None:
        self.hosts: dict[str, Sequence[str]] = {}
        #: Number of queries.
        self.asked = 0
        #: True: no query is answered.
        self.silent = False
        #: True: the system starts no thread for a query.
        self.exhausted = False

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        self.asked += 1
        if self.silent:
            await trio.sleep_forever()
        if self.exhausted:
            raise RuntimeError("can't start new thread")
        name = (host or b"").decode()
        if name not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, type or socket.SOCK_STREAM, 0, "", (address, port)) for address in self.hosts[name]]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError


@pytest.fixture
async def zone() -> Zone:
    """The resolver of all trio sockets of a test."""
    zone = Zone()
    trio.socket.set_custom_hostname_resolver(zone)
    return zone
