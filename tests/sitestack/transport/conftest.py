"""UDP on the loopback interface, with a new group for every test; and a process that may open nothing any more."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from relay_lab.drills.layout import draw_group
from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.transport.udp import UdpTransport

LOOPBACK = TransportConfig(interface="127.0.0.1")
Open = Callable[..., UdpTransport]


@pytest.fixture
def group() -> Physical:
    return Physical(*draw_group())


@pytest.fixture
def udp(group: Physical) -> Iterator[Open]:
    """Opens transports, in the test's group by default, and closes them after the test."""
    with ExitStack() as stack:

        def make(config: TransportConfig = LOOPBACK, of: Physical | None = group) -> UdpTransport:
            transport = UdpTransport(config, of)
            stack.callback(transport.close)
            return transport

        yield make


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Inside, opening a file or a socket fails with EMFILE; open ones stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
