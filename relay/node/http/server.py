"""HTTP server: hypercorn's protocol inside the node's own event loop, on connections that this file accepts and bounds."""

from __future__ import annotations

import math
import socket
import sys
from collections import Counter
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

from relay.node.http.guard import HEAD_BYTES_MAX, GuardedStream
from relay.node.http.messages import BODY_BYTES_MAX, MESSAGES
from relay.node.status.door import Door
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

SSLStream: TypeAlias = "trio.SSLStream[trio.SocketStream]"

#: Seconds in which a client has to take 64 KiB of an answer, or all that is left, and to send as much of a body: the longest
#: body may take 160 s. The kernel cuts off one that takes no data at all, so that a leaving node does not wait for it.
PIECE_TIMEOUT_S = 5.0
#: Seconds from the last answer, or from the beginning, in which the head of a request must arrive.
IDLE_TIMEOUT_S = 5.0
#: Where bodies are posted to, and how long they may be. Each connection holds one at most.
BODIES = {MESSAGES.encode(): BODY_BYTES_MAX}
#: Requests on one connection at most, so that whoever was let in first does not stay for ever.
REQUESTS_MAX = 100
BACKLOG = 64
#: Connections at a time, of all and of one address: several times the number of programs that usually watch a node.
CONNECTIONS_MAX, CONNECTIONS_EACH_MAX = 32, 16
TOO_MANY = "503 Service Unavailable"
#: Seconds for which a client that is turned away may take to read the answer.
REFUSE_TIMEOUT_S = 1.0
#: Pause (s) after the system could not accept a connection.
RETRY_S = 0.5
#: Seconds between two lines in the log about connections that ended by an error of ours or of the library.
FAILURE_LOG_S = 60.0

#: What comes of a connection that the client, the server or the system has closed, or is closing.
_GONE = trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError


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
    """Accepts up to `CONNECTIONS_MAX` connections at a time, fewer of one address, and turns away more.

    Answers are made in the member's own event loop, so those to all connections together must take much less time than other
    members wait for a heartbeat.
    """

    def __init__(self, app: Starlette, door: Door) -> None:
        self._door = door
        #: Open connections, by the host of the client.
        self._open: Counter[str] = Counter()
        self._refusing = 0
        self._guarded: set[GuardedStream] = set()
        #: Connections that ended by an error, and when the log may tell the next one.
        self._failures = 0
        self._failure_log_at = -math.inf
        self._config = _Config()
        self._context = WorkerContext(None)
        # Both follow the ASGI standard, each with types of its own.
        self._app = wrap_app(cast(ASGIFramework, app), self._config.wsgi_max_body_size, "asgi")

    async def accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        """Let in whoever comes, until cancelled."""
        try:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    self._door.fail(error)
                    await trio.sleep(RETRY_S)
                    continue
                await self._let_in(stream, nursery)
        finally:
            for each in self._guarded:
                each.scope.cancel()

    async def _let_in(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        try:
            host = stream.socket.getpeername()[0]
        except OSError:  # the client is gone already
            await trio.aclose_forcefully(stream)
            return
        if why := self._why_full(host):
            self._door.refuse(why)
            if self._refusing < CONNECTIONS_MAX:
                self._refusing += 1
                nursery.start_soon(self._refuse, stream)
            else:
                await trio.aclose_forcefully(stream)
        else:
            self._door.admit()
            self._open[host] += 1
            nursery.start_soon(self._serve, stream, host)

    def _why_full(self, host: str) -> str:
        """Why there is no room for another connection of this host; empty when there is."""
        if self._open.total() >= CONNECTIONS_MAX:
            return f"there are {CONNECTIONS_MAX} connections already"
        if self._open[host] >= CONNECTIONS_EACH_MAX:
            return f"there are {CONNECTIONS_EACH_MAX} connections of {host} already"
        return ""

    async def _serve(self, stream: trio.SocketStream, host: str) -> None:
        guarded = GuardedStream(stream, PIECE_TIMEOUT_S, BODIES)
        self._guarded.add(guarded)
        try:
            with guarded.scope:
                await self._run(guarded)
            if guarded.refused:
                await self._turn_away(stream, guarded.refused)
        finally:
            stream.socket.close()  # hypercorn does not close it when it is cancelled
            self._guarded.discard(guarded)
            self._open[host] -= 1
            self._open += Counter()  # forgets hosts without connections

    async def _run(self, guarded: GuardedStream) -> None:
        """Answer one connection. Whatever a client does to the library, it ends this connection and not the node."""
        # TCPServer takes connections without TLS too, although its types do not say so.
        server = TCPServer(self._app, self._config, self._context, ConnectionState({}), cast(SSLStream, guarded))
        try:
            await server.run()
        except* Exception as errors:
            # The library, cancelled before the head of an answer, sends the end of it all the same, and raises.
            if trio.current_effective_deadline() != -math.inf:
                self._tell(errors)

    def _tell(self, errors: BaseExceptionGroup) -> None:
        """Log the first of many: whoever can cause one can cause more, and must not fill the log."""
        self._failures += 1
        if trio.current_time() >= self._failure_log_at:
            self._failure_log_at = trio.current_time() + FAILURE_LOG_S
            structlog.get_logger().error("http", failures=self._failures, exc_info=errors)

    async def _refuse(self, stream: trio.SocketStream) -> None:
        try:
            await self._turn_away(stream, TOO_MANY)
        finally:
            self._refusing -= 1

    async def _turn_away(self, stream: trio.SocketStream, status: str) -> None:
        """Answer with this status, then read the request: closing with unread data would make the system discard the answer."""
        with trio.move_on_after(REFUSE_TIMEOUT_S), suppress(*_GONE):
            async with stream:
                await stream.send_all(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                await stream.send_eof()
                async for _ in stream:
                    pass


class _Config(Config):
    """Makes hypercorn serve on a given socket. The caller closes the socket, since a cancelled hypercorn does not."""

    include_server_header = False
    #: None, because errors of the application are in the node's own log.
    errorlog = None

    def __init__(self) -> None:
        super().__init__()
        self.keep_alive_timeout = IDLE_TIMEOUT_S
        self.keep_alive_max_requests = REQUESTS_MAX
        self.h11_max_incomplete_size = 2 * HEAD_BYTES_MAX
        self.wsgi_max_body_size = 0


def _open(bind: Physical) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":  # accepted connections inherit the option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PIECE_TIMEOUT_S * 1000))
        sock.bind(bind)
        # Listening here makes a port that is in use fail now, not at the first request.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigurationError(f"http.bind: cannot listen on {bind}: {error.strerror or error}.") from error
    return sock
