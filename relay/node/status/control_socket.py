"""Control socket of a running node: each order and each answer is one JSON line.

It belongs to one user (mode 0600). HTTP accepts no orders. The log names each order with its answer
and the process that gave it.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
import trio

from relay.node.status.status_socket import PATH_BYTES_MAX, SUFFIX, ask, listen_privately, parse_answer, remove
from sitestack.model.errors import ConfigurationError, LocalError
from sitestack.transport.accepting import Admissions, accept_bounded

#: Bytes of an order.
LINE_BYTES_MAX = 4_096
#: Seconds for receiving an order, and again for sending its answer.
LINE_TIMEOUT_S = 2.0
#: Seconds that a client waits.
ORDER_TIMEOUT_S = 30.0

#: Process, user and group of the other end, from the kernel.
_CREDENTIALS = struct.Struct("3i")

#: Carries out an order and returns the answer. Raises LocalError if it cannot.
Obey = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def control_path(status: Path) -> Path:
    return status.with_name(f"{status.name.removesuffix(SUFFIX)}.ctl")


@asynccontextmanager
async def open_control_socket(status: Path) -> AsyncIterator[trio.SocketListener]:
    """Listen while the block runs, inside that of the status socket.

    Raises ConfigurationError if the socket cannot be made.
    """
    path = control_path(status)
    if len(bytes(path)) > PATH_BYTES_MAX:
        raise ConfigurationError(f"{path}: too long for a socket ({PATH_BYTES_MAX} bytes); give a shorter one with --status.")
    remove(path)
    async with listen_privately(path, "control") as listener:
        yield listener


async def obey_orders(listener: trio.SocketListener, obey: Obey, admissions: Admissions) -> None:
    """Carry out one order after the other, until cancelled."""

    async def answer(connection: trio.SocketStream) -> None:
        async with connection:
            with suppress(trio.BrokenResourceError):
                await _answer(connection, obey)

    async with trio.open_nursery() as nursery:
        await accept_bounded(listener, answer, nursery, name="control socket", connections_max=1, admissions=admissions)


async def _answer(connection: trio.SocketStream, obey: Obey) -> None:
    order: Any = None
    with trio.move_on_after(LINE_TIMEOUT_S), suppress(ValueError, RecursionError):
        order = json.loads(await _line(connection))
    try:
        answer = await obey(order) if isinstance(order, dict) else {"error": "this is not an order."}
    except LocalError as error:
        answer = {"error": str(error)}
    pid, uid, _ = _CREDENTIALS.unpack(connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    structlog.get_logger().warning("operator order", order=order, answer=answer, uid=uid, pid=pid)
    with trio.move_on_after(LINE_TIMEOUT_S):
        await connection.send_all(json.dumps(answer).encode() + b"\n")


async def _line(stream: trio.SocketStream) -> bytes:
    line = b""
    while b"\n" not in line and len(line) <= LINE_BYTES_MAX and (data := await stream.receive_some(LINE_BYTES_MAX)):
        line += data
    return line


async def give_order(status: Path, order: dict[str, Any]) -> dict[str, Any]:
    """Send an order to the node with this status socket, and return the answer.

    Raises OSError without an answer, and LocalError if the node rejects the order.
    """
    path = control_path(status)
    answer = parse_answer(await ask(path, ORDER_TIMEOUT_S, json.dumps(order).encode() + b"\n"), str(path), "is malformed")
    if "error" in answer:
        raise LocalError(str(answer["error"]))
    return answer
