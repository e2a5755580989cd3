"""Helpers of tests with real sockets and real time: free ports, and waiting for conditions that have no event."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

import trio

#: The last ones: the kernel may give a port again at once, and two places of one configuration must differ.
_GIVEN = deque[int](maxlen=256)


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that no process listened on a moment ago."""
    ports: list[int] = []
    with ExitStack() as stack:
        while len(ports) < count:
            sock = stack.enter_context(socket.socket())
            sock.bind(("", 0))
            if (port := sock.getsockname()[1]) not in _GIVEN:
                ports.append(port)
    _GIVEN.extend(ports)
    return ports


def free_port() -> int:
    """A port of this machine that no process listened on a moment ago."""
    return free_ports(1)[0]


async def until(condition: Callable[[], bool], *turns: Callable[[], object]) -> None:
    """Wait for a condition, with a turn between two looks. Raises TooSlowError after a minute."""
    with trio.fail_after(60):
        while not condition():
            for turn in turns:
                turn()
            await trio.sleep(0.005)
