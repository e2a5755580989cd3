"""HTTP server: hypercorn's protocol inside the node's own event loop, on connections that this file accepts and bounds."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TypeAlias, cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from hypercorn.utils import wrap_app
from starlette.applications import Starlette

from relay.node.door import Door
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

SSLStream: TypeAlias = "trio.SSLStream[trio.SocketStream]"

#: Seconds after which the kernel cuts off a client that takes no data, so that a leaving node does not wait for it.
UNTAKEN_TIMEOUT_S = 5.0
BACKLOG = 64
#: Connections at a time: several times the number of programs that usually watch a node.
CONNECTIONS_MAX = 32
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
#: Seconds for which a client that is turned away may take to read the answer.
REFUSE_TIMEOUT_S = 1.0
#: Pause (s) after the system could not accept a connection.
RETRY_S = 0.5


async def serve_http(
    app: Starlette, bind: Physical, door: Door, task_status: trio.TaskStatus[Physical] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; started once the socket listens, with its address.

    Raises ConfigurationError when it cannot be had.
    """
    with _open(bind) as sock:
        address = Physical(*sock.getsockname())
        structlog.get_logger().info("http", address=str(address))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        async with trio.open_nursery() as nursery:
            task_status.started(address)
            await _Server(app, door).accept(listener, nursery)


class _Server:
    """Accepts up to `CONNECTIONS_MAX` connections at a time, and turns away more.

    Answers are made in the member's own event loop, so those to all connections together must take much less time than other
    members wait for a heartbeat.
    """

    def __init__(self, app: Starlette, door: Door) -> None:
        self._door = door
        self._open = self._refusing = 0
        self._config = _Config()
        self._context = WorkerContext(None)
        # Both follow the ASGI standard, each with types of its own.
        self._app = wrap_app(cast(ASGIFramework, app), self._config.wsgi_max_body_size, "asgi")

    async def accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        """Let in whoever comes, until cancelled."""
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                self._door.fail(error)
                await trio.sleep(RETRY_S)
                continue
            if self._open < CONNECTIONS_MAX:
                self._door.admit()
                self._open += 1
                nursery.start_soon(self._serve, stream)
            else:
                self._door.refuse(f"there are {CONNECTIONS_MAX} connections already")
                if self._refusing < CONNECTIONS_MAX:
                    self._refusing += 1
                    nursery.start_soon(self._refuse, stream)
                else:
                    await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        # TCPServer takes connections without TLS too, although its types do not say so.
        server = TCPServer(self._app, self._config, self._context, ConnectionState({}), cast(SSLStream, stream))
        try:
            await server.run()
        finally:
            stream.socket.close()  # hypercorn does not close it when it is cancelled
            self._open -= 1

    async def _refuse(self, stream: trio.SocketStream) -> None:
        """Turn a client away, then read its request: closing with unread data would make the system discard the answer."""
        try:
            with trio.move_on_after(REFUSE_TIMEOUT_S), suppress(trio.BrokenResourceError):
                async with stream:
                    await stream.send_all(TOO_MANY)
                    await stream.send_eof()
                    async for _ in stream:
                        pass
        finally:
            self._refusing -= 1


class _Config(Config):
    """Makes hypercorn serve on a given socket. The caller closes the socket, since a cancelled hypercorn does not."""

    include_server_header = False
    #: None, because errors of the application are in the node's own log.
    errorlog = None


def _open(bind: Physical) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":  # accepted connections inherit the option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNTAKEN_TIMEOUT_S * 1000))
        sock.bind(bind)
        # Listening here makes a port that is in use fail now, not at the first request.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigurationError(f"http.bind: cannot listen on {bind}: {error.strerror or error}.") from error
    return sock
