"""The server: hypercorn inside the node's own event loop, on a socket that this file opens."""

from __future__ import annotations

import socket
import sys
from typing import cast

import structlog
import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.applications import Starlette

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

#: Seconds after which the kernel cuts off a client that takes no data, so that a leaving node does not wait for it.
UNTAKEN_TIMEOUT_S = 5.0
BACKLOG = 64


async def serve_http(app: Starlette, bind: Physical, task_status: trio.TaskStatus[Physical] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until cancelled; started once the socket listens, with its address.

    Raises ConfigurationError when it cannot be had.
    """
    with _open(bind) as sock:
        address = Physical(*sock.getsockname())
        structlog.get_logger().info("http", address=str(address))
        # Both follow the ASGI standard, each with types of its own.
        framework, config = cast(ASGIFramework, app), _Config(sock)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: serve(framework, config, task_status=task_status, mode="asgi"))
            task_status.started(address)


class _Config(Config):
    """Makes hypercorn serve on a given socket. The caller closes it, since hypercorn does not when it is cancelled early."""

    backlog = BACKLOG
    include_server_header = False
    #: What goes wrong in the application is in the node's own log.
    errorlog = None

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def create_sockets(self) -> Sockets:
        return Sockets([], [self._socket], [])


def _open(bind: Physical) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":  # connections inherit it
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNTAKEN_TIMEOUT_S * 1000))
        sock.bind(bind)
        # Another node on this port is found out here, not by the first request.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigurationError(f"http.bind: cannot listen on {bind}: {error.strerror or error}.") from error
    return sock
