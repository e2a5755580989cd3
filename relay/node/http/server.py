"""HTTP server: hypercorn in the node's event loop, on connections that this module bounds."""

from __future__ import annotations

import math
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import TypeAlias, cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, ConnectionState, Scope
from hypercorn.utils import wrap_app
from starlette.applications import Starlette

from relay.node.http.access import KEEP_PLACE
from relay.node.http.guard import HEAD_BYTES_MAX, GuardedStream
from relay.node.http.messages import BODY_BYTES_MAX, MESSAGES
from sitestack.model.address import Physical
from sitestack.transport.accepting import Admissions, accept_bounded, listen_tcp, peer_host
from sitestack.transport.places import NoPlace, Places

SSLStream: TypeAlias = "trio.SSLStream[trio.SocketStream]"

#: Seconds for each 64 KiB of an answer or body; the longest body may take 160 s. The kernel drops a
#: connection without progress, so that a leaving node does not wait for it.
PIECE_TIMEOUT_S = 5.0
#: Seconds for the head of a request, from the connection or the last answer.
IDLE_TIMEOUT_S = 5.0
#: Path -> maximum bytes of a body. Each connection holds at most one.
BODIES = {MESSAGES.encode(): BODY_BYTES_MAX}
#: Maximum requests on one connection, so that early clients do not stay forever.
REQUESTS_MAX = 100
BACKLOG = 64
#: Maximum connections, in total and of one address: several times the usual number of clients. A
#: connection without an authorized request gives way to newer ones.
CONNECTIONS_MAX, CONNECTIONS_EACH_MAX = 32, 16
TOO_MANY = "503 Service Unavailable"
#: Seconds for a rejected client to read the answer.
REFUSE_TIMEOUT_S = 1.0
#: Minimum seconds between log lines about internal errors.
FAILURE_LOG_S = 60.0

#: Errors of a closed or closing connection.
_GONE = trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError


async def serve_http(
    app: Starlette, bind: Physical, admissions: Admissions, task_status: trio.TaskStatus[Physical] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; report the address once the socket listens.

    Raises ConfigurationError if it cannot listen.
    """
    # Listen first, so that a port in use fails at the start.
    with listen_tcp(bind, BACKLOG, "http.bind") as sock:
        if sys.platform == "linux":  # accepted connections inherit the option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PIECE_TIMEOUT_S * 1000))
        address = Physical(*sock.getsockname())
        structlog.get_logger().info("http listening", address=str(address))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        async with trio.open_nursery() as nursery:
            task_status.started(address)
            await _Server(app, admissions).accept(listener, nursery)


class _Server:
    """Server with bounded connections, in total and of one address.

    At the bound, the oldest connection without an authorized request closes, or else the new one.
    Strangers therefore exclude neither probes nor clients.

    Answers run in the member's event loop. All connections together must take much less time than
    the heartbeat timeout.
    """

    def __init__(self, app: Starlette, admissions: Admissions) -> None:
        self._admissions = admissions
        self._places = Places[GuardedStream](CONNECTIONS_MAX, CONNECTIONS_EACH_MAX)
        #: Number of connections that ended by an error, and the time (s) of the next log line.
        self._failures = 0
        self._failure_log_at = -math.inf
        self._config = _Config()
        self._context = WorkerContext(None)
        # Both follow the ASGI standard, with separate types.
        self._app = cast(ASGIFramework, app)

    async def accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        """Serve connections until cancelled."""
        bound = 2 * CONNECTIONS_MAX
        try:
            await accept_bounded(
                listener, self._serve, nursery, name="http", connections_max=bound, admissions=self._admissions
            )
        finally:
            for each in self._places:
                each.scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        guarded = GuardedStream(stream, PIECE_TIMEOUT_S, BODIES)
        try:
            if not self._give_place(guarded, peer_host(stream)):
                await self._turn_away(stream, TOO_MANY)
                return
            with guarded.scope:
                await self._run(guarded)
            if guarded.refused:
                await self._turn_away(stream, guarded.refused)
        finally:
            stream.socket.close()  # a cancelled hypercorn does not close it
            self._places.leave(guarded)

    def _give_place(self, guarded: GuardedStream, host: str) -> bool:
        try:
            for each in self._places.enter(guarded, host):
                each.push_out()
        except NoPlace as error:
            self._admissions.refuse(str(error))
            return False
        self._admissions.admit()
        return True

    async def _run(self, guarded: GuardedStream) -> None:
        """Answer one connection. An error in the library ends this connection, not the node."""

        async def answer(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            try:
                await self._app(scope, receive, send)
            finally:
                self._places.release(guarded)

        state = ConnectionState({KEEP_PLACE: partial(self._places.keep, guarded)})
        app = wrap_app(answer, self._config.wsgi_max_body_size, "asgi")
        # TCPServer accepts connections without TLS, contrary to its types.
        server = TCPServer(app, self._config, self._context, state, cast(SSLStream, guarded))
        try:
            await server.run()
        except* Exception as errors:
            # A cancelled library still sends the end of an unstarted answer, and raises.
            if trio.current_effective_deadline() != -math.inf:
                self._tell(errors)

    def _tell(self, errors: BaseExceptionGroup) -> None:
        """Log an error at a limited rate, since clients may cause many."""
        self._failures += 1
        if trio.current_time() >= self._failure_log_at:
            self._failure_log_at = trio.current_time() + FAILURE_LOG_S
            structlog.get_logger().error("http connection failed", failures=self._failures, exc_info=errors)

    async def _turn_away(self, stream: trio.SocketStream, status: str) -> None:
        """Answer with this status, then read: closing with unread data could discard the answer."""
        with trio.move_on_after(REFUSE_TIMEOUT_S), suppress(*_GONE):
            async with stream:
                await stream.send_all(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                await stream.send_eof()
                async for _ in stream:
                    pass


class _Config(Config):
    """Configuration of hypercorn for one given socket, which the caller closes."""

    include_server_header = False
    #: None, since the node's log has the application's errors.
    errorlog = None

    def __init__(self) -> None:
        super().__init__()
        self.keep_alive_timeout = IDLE_TIMEOUT_S
        self.keep_alive_max_requests = REQUESTS_MAX
        self.h11_max_incomplete_size = 2 * HEAD_BYTES_MAX
        self.wsgi_max_body_size = 0
