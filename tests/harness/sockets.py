"""Helpers of tests with real sockets and real time: free ports, and waiting for conditions that have no event."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import trio


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that no process listened on a moment ago."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("", 0))
        return [sock.getsockname()[1] for sock in socks]


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
