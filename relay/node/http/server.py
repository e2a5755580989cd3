"""HTTP server: hypercorn's protocol inside the node's own event loop, on connections that this file accepts and bounds."""

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
#: Connections at a time, of all and of one address: several times the number of programs that usually watch a node. One that
#: waits for no answer, or for one that anybody may have, gives way to newer ones.
CONNECTIONS_MAX, CONNECTIONS_EACH_MAX = 32, 16
TOO_MANY = "503 Service Unavailable"
#: Seconds for which a client that is turned away may take to read the answer.
REFUSE_TIMEOUT_S = 1.0
#: Seconds between two lines in the log about connections that ended by an error of ours or of the library.
FAILURE_LOG_S = 60.0

#: What comes of a connection that the client, the server or the system has closed, or is closing.
_GONE = trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError


async def serve_http(
    app: Starlette, bind: Physical, admissions: Admissions, task_status: trio.TaskStatus[Physical] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; started once the socket listens, with its address.

    Raises ConfigurationError when it cannot be had.
    """
    # Listening here makes a port that is in use fail now, not at the first request.
    with listen_tcp(bind, BACKLOG, "http.bind") as sock:
        if sys.platform == "linux":  # accepted connections inherit the option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PIECE_TIMEOUT_S * 1000))
        address = Physical(*sock.getsockname())
        structlog.get_logger().info("http", address=str(address))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        async with trio.open_nursery() as nursery:
            task_status.started(address)
            await _Server(app, admissions).accept(listener, nursery)


class _Server:
    """Accepts up to `CONNECTIONS_MAX` connections at a time, fewer of one address.

    Beyond, the oldest one gives way that has no request of a client with access, and where there is none the new one is turned
    away: strangers keep neither a probe nor a client out.

    Answers are made in the member's own event loop, so those to all connections together must take much less time than other
    members wait for a heartbeat.
    """

    def __init__(self, app: Starlette, admissions: Admissions) -> None:
        self._admissions = admissions
        self._places = Places[GuardedStream](CONNECTIONS_MAX, CONNECTIONS_EACH_MAX)
        #: Connections that ended by an error, and when the log may tell the next one.
        self._failures = 0
        self._failure_log_at = -math.inf
        self._config = _Config()
        self._context = WorkerContext(None)
        # Both follow the ASGI standard, each with types of its own.
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
            stream.socket.close()  # hypercorn does not close it when it is cancelled
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
        """Answer one connection. Whatever a client does to the library, it ends this connection and not the node."""

        async def answer(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            try:
                await self._app(scope, receive, send)
            finally:
                self._places.release(guarded)

        state = ConnectionState({KEEP_PLACE: partial(self._places.keep, guarded)})
        app = wrap_app(answer, self._config.wsgi_max_body_size, "asgi")
        # TCPServer takes connections without TLS too, although its types do not say so.
        server = TCPServer(app, self._config, self._context, state, cast(SSLStream, guarded))
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
