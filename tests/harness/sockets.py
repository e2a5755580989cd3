"""What tests of real sockets and real time share: ports that nobody has, and waiting for what has no event."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import trio


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listened on a moment ago, each another one."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


async def until(condition: Callable[[], bool], *turns: Callable[[], object]) -> None:
    """Wait for this, and take these turns meanwhile. Raises TooSlowError when it takes longer than anything may."""
    with trio.fail_after(60):
        while not condition():
            for turn in turns:
                turn()
            await trio.sleep(0.005)
