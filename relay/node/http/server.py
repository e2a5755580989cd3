"""HTTP server: hypercorn in the node's event loop, on connections that this module bounds."""

from __future__ import annotations

import math
import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    ConnectionState,
    Scope,
)
from hypercorn.utils import wrap_app
from starlette.applications import Starlette

from relay.node.config.settings import HttpSettings
from relay.node.http.access import KEEP_PLACE, TOKEN_NAME
from relay.node.http.guard import HEAD_BYTES_MAX, GuardedStream, Refused
from relay.node.http.messages import BODY_BYTES_MAX, MESSAGES
from relay.node.http.refusal import encode_refusal
from relay.node.http.token import Tokens
from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.transport.accepting import Admissions, accept_bounded, listen_tcp, peer_host
from sitestack.transport.places import NoPlace, Places

SSLStream: TypeAlias = "trio.SSLStream[trio.SocketStream]"

#: Seconds for each 64 KiB of an answer or body. The kernel drops a connection without progress.
PIECE_TIMEOUT_S = 5.0
#: Seconds for the head of a request.
IDLE_TIMEOUT_S = 5.0
#: Path -> maximum bytes of a body. Each connection holds at most one.
BODIES = {MESSAGES.encode(): BODY_BYTES_MAX}
#: Maximum requests on one connection, so that early clients do not stay forever.
REQUESTS_MAX = 100
BACKLOG = 64
#: Maximum bytes of all bodies of unanswered requests.
BODIES_BYTES_MAX = 64 << 20
#: Connections beyond the maximum, for probes; the oldest gives way.
SPARE_MAX = 4
REFUSE_TIMEOUT_S = 1.0
#: Minimum seconds between log lines about internal errors.
FAILURE_LOG_S = 60.0

_GONE = trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError


async def serve_http(
    app: Starlette,
    bind: Physical,
    admissions: Admissions,
    settings: HttpSettings | None = None,
    tls: ssl.SSLContext | None = None,
    tokens: Tokens | None = None,
    task_status: trio.TaskStatus[Physical] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; report the address once the socket listens.

    Raises ConfigurationError if it cannot listen.
    """
    # a port in use fails at the start
    with listen_tcp(bind, BACKLOG, "http.bind") as sock:
        # accepted connections inherit the option
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PIECE_TIMEOUT_S * 1000))
        address = Physical(*sock.getsockname()[:2])
        structlog.get_logger().info("http listening", address=str(address))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        async with trio.open_nursery() as nursery:
            task_status.started(address)
            await _Server(app, admissions, settings or HttpSettings(), tls, tokens).accept(listener, nursery)


class _Server:
    """Server with bounded connections, in total and of one address.

    At the bound, the oldest connection without an authorized request closes. If there is none, the
    new one takes a spare place, for probes only.
    """

    def __init__(
        self, app: Starlette, admissions: Admissions, settings: HttpSettings, tls: ssl.SSLContext | None, tokens: Tokens | None
    ) -> None:
        self._admissions = admissions
        self._tls, self._tokens = tls, tokens
        self._is_logged = settings.access_log
        self._connections_max = settings.connections_max
        self._places = Places[GuardedStream](settings.connections_max, settings.address_connections_max)
        self._spare = Places[GuardedStream](SPARE_MAX, SPARE_MAX)
        self._bodies = Level(BODIES_BYTES_MAX, "bodies of requests")
        #: Failed connections, and the time (s) of the next log line.
        self._failures = 0
        self._failure_log_at = -math.inf
        self._config = _Config()
        self._context = WorkerContext(None)
        # the same standard, with separate types
        self._app = cast(ASGIFramework, app)

    async def accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        bound = 2 * (self._connections_max + SPARE_MAX)
        try:
            await accept_bounded(
                listener, self._serve, nursery, name="http", connections_max=bound, admissions=self._admissions
            )
        finally:
            for each in (*self._places, *self._spare):
                each.scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        guarded = GuardedStream(stream, PIECE_TIMEOUT_S, BODIES, self._bodies, self._tls, self._tokens)
        try:
            host = peer_host(stream)
            self._give_place(guarded, host)
            with guarded.scope:
                if await guarded.shake_hands():
                    await self._run(guarded)
            if guarded.refused is not None:
                await self._turn_away(guarded, guarded.refused, host)
        finally:
            guarded.close()
            self._places.leave(guarded)
            self._spare.leave(guarded)

    def _give_place(self, guarded: GuardedStream, host: str) -> None:
        try:
            gave_way = self._places.enter(guarded, host)
        except NoPlace as error:
            guarded.crowded = str(error)
            gave_way = self._spare.enter(guarded, host)
        else:
            self._admissions.admit()
        for each in gave_way:
            each.push_out()

    async def _run(self, guarded: GuardedStream) -> None:
        """Answer one connection; an error of the library ends only this one."""

        async def answer(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            try:
                if self._is_logged:
                    await _log_access(self._app, scope, receive, send)
                else:
                    await self._app(scope, receive, send)
            finally:
                self._places.release(guarded)
                guarded.answered()

        state = ConnectionState({KEEP_PLACE: partial(self._places.keep, guarded)})
        app = wrap_app(answer, self._config.wsgi_max_body_size, "asgi")
        # TCPServer accepts connections without TLS.
        server = TCPServer(app, self._config, self._context, state, cast(SSLStream, guarded))
        try:
            await server.run()
        except* Exception as errors:
            # A cancelled library still sends the end of an unstarted answer.
            if trio.current_effective_deadline() != -math.inf:
                self._tell(errors)

    def _tell(self, errors: BaseExceptionGroup) -> None:
        """Log an error at a limited rate, since clients may cause many."""
        self._failures += 1
        if trio.current_time() >= self._failure_log_at:
            self._failure_log_at = trio.current_time() + FAILURE_LOG_S
            structlog.get_logger().error("http connection failed", failures=self._failures, exc_info=errors)

    async def _turn_away(self, guarded: GuardedStream, refused: Refused, host: str) -> None:
        if guarded.crowded:
            self._admissions.refuse(guarded.crowded)
        if self._is_logged:
            structlog.get_logger().info("http refusal", status=refused.status, why=refused.why, client=host)
        with trio.move_on_after(REFUSE_TIMEOUT_S), suppress(*_GONE):
            await guarded.turn_away(encode_refusal(refused.status, refused.why))


async def _log_access(app: ASGIFramework, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Answer a request and log it; status 0: no answer."""
    began, about = trio.current_time(), cast(dict[str, Any], scope)
    status = 0

    async def note(event: ASGISendEvent) -> None:
        nonlocal status
        if event["type"] == "http.response.start":
            status = event["status"]
        await send(event)

    try:
        await app(scope, receive, note)
    finally:
        structlog.get_logger().info(
            "http request",
            method=about.get("method"),
            path=about["path"],
            status=status,
            seconds=round(trio.current_time() - began, 3),
            token=about["state"].get(TOKEN_NAME),
            client=(about.get("client") or ("",))[0],
        )


class _Config(Config):
    include_server_header = False
    #: the node's log has the application's errors
    errorlog = None

    def __init__(self) -> None:
        super().__init__()
        self.keep_alive_timeout = IDLE_TIMEOUT_S
        self.keep_alive_max_requests = REQUESTS_MAX
        self.h11_max_incomplete_size = 2 * HEAD_BYTES_MAX
        self.wsgi_max_body_size = 0
