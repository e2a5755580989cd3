"""The bridge: TCP connections to relays of other sites. The gateway, which is pure, decides.

A reader never stops reading: the window of the link bounds received data. Bytes leave within the
turn that writes them, as far as the kernel accepts them; a task writes the rest.
"""

from __future__ import annotations

import itertools
import math
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import trio

from relay.events import (
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeEffect,
    BridgeReceived,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
    Listen,
    StopListening,
)
from relay.gateway.config import GatewayConfig
from relay.node.bridge.credentials import Credentials
from relay.node.bridge.listener import Listener
from relay.node.bridge.proving import Proving, Stream
from relay.node.bridge.router_calls import RouterCalls
from relay.node.bridge.tls import READ_BYTES, TlsStream, Unproven, write_now
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.level import Level

Handle = Callable[[Event], None]

#: The system stores its milliseconds in a C int.
UNANSWERED_S_MAX = (2**31 - 1) // 1_000


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """Addresses of this site's relay and of other relays, and the TCP connections between them."""

    #: Address to listen at while this member relays. Unset: the member only connects.
    bind: Physical | None = None
    #: Addresses of each other site's relay: any of its members, or a router (`routers`).
    peers: dict[str, tuple[Physical, ...]] = field(default_factory=dict)
    #: Gossip routers (`relay router`) of both sites, for relays that cannot accept connections. The relay
    #: waits there, and calls the peers whose address is a router.
    routers: tuple[Physical, ...] = ()
    #: For each site without a direct connection, the peer on the route to it; set at both ends.
    via: dict[str, str] = field(default_factory=dict)
    #: Sites between which this one forwards traffic that they route by `via`.
    forward: tuple[str, ...] = ()
    #: Time limit to connect: through a router, ten delays.
    dial_timeout_s: float = 3.0
    #: Time that sent bytes may stay unacknowledged before the kernel drops the connection.
    unanswered_timeout_s: float = 10.0
    #: Time that a closed connection may take to send its last bytes.
    linger_s: float = 1.0
    #: Pause between attempts to listen while the port is in use.
    listen_interval_s: float = 0.5
    #: Maximum connections from other relays; more are closed at once. With certificates, one site may have half.
    connections_max: int = GatewayConfig().connections_max
    #: Time for a new connection to prove its site, or without certificates to send HELLO.
    handshake_s: float = 5.0
    #: Maximum connections without a proved site, or without HELLO if there are no certificates; the oldest
    #: excess one closes. One host may have a quarter of them.
    pending_max: int = 256


@dataclass(slots=True)
class BridgeStatistics:
    listening: bool = False
    #: Gossip routers at which this relay waits.
    routers_waiting: int = 0
    #: Closed connections that still send their farewell.
    lingering: int = 0
    accepted: int = 0
    #: Connections rejected above `connections_max`, or above half of it for one site.
    refused: int = 0
    #: Connections without proof, or without HELLO if there are no certificates; and those replaced
    #: by newer ones.
    pending: int = 0
    pushed_out: int = 0
    #: Connections whose other end failed to prove its site or send HELLO.
    unproven: int = 0
    #: Connections closed because the other site's authority is no longer trusted.
    distrusted: int = 0
    #: Seconds until this site's certificate ends; None without one.
    certificate_expires_s: float | None = None
    dialed: int = 0
    dials_failed: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0


class _Connection:
    def __init__(self, number: int, stream: Stream, dialed: tuple[str, Physical] | None, site: str | None) -> None:
        self.number = number
        self.stream = stream
        #: None for an incoming connection.
        self.dialed = dialed
        #: The proved site; None without certificates.
        self.site = site
        #: At most one chunk and a farewell: the gateway waits for `BridgeWritten`.
        self.queue: deque[bytes] = deque()
        self.writing = False
        self.closing = False
        self.changed = trio.Event()
        self.scope = trio.CancelScope()


class Bridge:
    """Performs the gateway's effects and reports events. All tasks run in the given nursery."""

    def __init__(
        self,
        config: BridgeConfig,
        handle: Handle,
        note: Handle,
        nursery: trio.Nursery,
        credentials: Credentials | None = None,
        routers: RouterCalls | None = None,
    ) -> None:
        """`handle` submits an event and requests a turn; `note` submits it during a turn. Without
        `credentials`, callers need no proof.
        """
        self._config = config
        self._handle = handle
        self._note = note
        self._nursery = nursery
        self.proving = Proving(credentials, config.pending_max, config.handshake_s)
        self._numbers = itertools.count(1)
        #: The bridge bounds incoming ones; the gateway opens one for each address.
        self._connections: dict[int, _Connection] = {}
        self._lingered = trio.Event()
        bound = config.connections_max + 2 * config.pending_max
        proving, interval_s = self.proving, config.listen_interval_s
        self._listener = Listener(config.bind, bound, interval_s, proving.admissions, proving.push_out)
        self._routers = routers or RouterCalls((), "", None)
        self._seen = BridgeStatistics()

    def carry_out(self, effect: BridgeEffect) -> None:
        match effect:
            case Listen():
                self._listener.start_listening(self._accept, self._nursery)
                self._routers.start_waiting(self._accept, self._nursery)
            case StopListening():
                self._stop_listening()
            case Dial(site, address):
                self._nursery.start_soon(self._dial, site, address, name=f"dial {site} at {address}")
            case BridgeSend(number, data):
                self._send(number, data)
            case BridgeClose(number):
                self._close(number)

    async def farewell(self) -> None:
        """Close all connections; wait at most `linger_s` until all data has left."""
        self._stop_listening()
        for number in list(self._connections):
            self._close(number)
        while self._seen.lingering:
            await self._lingered.wait()

    def _stop_listening(self) -> None:
        self._listener.stop_listening()
        self._routers.stop_waiting()

    def problems(self) -> dict[str, str]:
        found = {"relay.bridge.bind": self._listener.error, "relay.bridge.routers": self._routers.problem()}
        return {**self.proving.problems(), **{key: sentence for key, sentence in found.items() if sentence}}

    def statistics(self) -> BridgeStatistics:
        return replace(
            self._seen,
            listening=self._listener.listening,
            routers_waiting=self._routers.waiting,
            pending=len(self.proving.places),
            pushed_out=self.proving.places.pushed_out,
            unproven=self.proving.failed,
            certificate_expires_s=self.proving.expires_s,
        )

    def levels(self) -> dict[str, Level]:
        """Outgoing connections are few and unbounded."""
        return {
            "connections": Level.of(len(self._connections), self._config.connections_max, "a relay has one for each link"),
            "pending": self.proving.places.level(),
        }

    def reread_certificates(self) -> bool:
        """Reread the certificate files; return whether they have changed.

        Links continue, except to sites whose authority is no longer trusted.
        """
        if not self.proving.reread():
            return False
        for connection in self._connections.values():
            if self.proving.is_distrusted(connection.stream):
                self._seen.distrusted += 1
                connection.scope.cancel()
        return True

    async def _accept(self, stream: trio.SocketStream) -> None:
        try:
            self._set_options(stream)
            caller = await self.proving.admit_caller(stream)
            if self._has_too_many(caller.site):
                self._seen.refused += 1
                return
            self.proving.admissions.admit()
            self._seen.accepted += 1
            await self._run(_Connection(next(self._numbers), caller.stream, None, caller.site), caller.said)
        except Unproven:
            pass
        finally:
            await trio.aclose_forcefully(stream)

    def _has_too_many(self, site: str | None) -> bool:
        """Return whether incoming connections have reached the bound, in total or of this site."""
        accepted = [connection.site for connection in self._connections.values() if connection.dialed is None]
        connections_max = self._config.connections_max
        return len(accepted) >= connections_max or (site is not None and accepted.count(site) >= (connections_max + 1) // 2)

    async def _dial(self, site: str, address: Physical) -> None:
        """Connect to a peer, whose host name is looked up each time."""
        stream: trio.SocketStream | None = None
        with trio.move_on_after(self._config.dial_timeout_s), suppress(OSError, ValueError, RuntimeError):
            if address in self._routers:
                stream = await self._routers.call(address, site)
            else:
                stream = await trio.open_tcp_stream(address.host, address.port)
        if stream is not None:
            self._set_options(stream)
            try:
                proved, certified = await self.proving.prove_called(stream, site, address)
                self._seen.dialed += 1
                await self._run(_Connection(next(self._numbers), proved, (site, address), certified))
                return
            except Unproven:
                pass
            finally:
                await trio.aclose_forcefully(stream)
        self._seen.dials_failed += 1
        self._handle(DialFailed(site, address))

    def _set_options(self, stream: trio.SocketStream) -> None:
        timeout_ms = math.ceil(self._config.unanswered_timeout_s * 1000)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def _run(self, connection: _Connection, said: bytes = b"") -> None:
        """Serve a connection to its end. `said`: bytes already received."""
        self._connections[connection.number] = connection
        try:
            self._handle(BridgeConnected(connection.number, connection.dialed, connection.site))
            if said:
                self._seen.received_bytes += len(said)
                self._handle(BridgeReceived(connection.number, said))
            with connection.scope:
                async with connection.stream, trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection)
                    await self._read(connection)
                    nursery.cancel_scope.cancel()
        finally:
            self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        if connection.closing:
            self._seen.lingering -= 1
            self._lingered.set()
            self._lingered = trio.Event()
        else:
            del self._connections[connection.number]
            self._handle(BridgeClosed(connection.number))

    async def _read(self, connection: _Connection) -> None:
        """Read until the peer closes.

        Unread data after our own close would reset our farewell.
        """
        dialed, stream, heard = connection.dialed, connection.stream, False
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await stream.receive_some(READ_BYTES):
                self._seen.received_bytes += len(data)
                if connection.site is not None and not heard:
                    self.proving.heard(connection.site)
                heard = True
                if not connection.closing:
                    self._handle(BridgeReceived(connection.number, bytes(data)))
        if dialed is not None and not heard and isinstance(stream, TlsStream) and stream.failure:
            self.proving.refused(*dialed, stream.failure)

    async def _write(self, connection: _Connection) -> None:
        try:
            while connection.queue or not connection.closing:
                if not connection.queue:
                    await connection.changed.wait()
                    continue
                data = connection.queue.popleft()
                connection.writing = True
                await connection.stream.send_all(data)
                connection.writing = False
                self._seen.sent_bytes += len(data)
                if not connection.closing:
                    self._handle(BridgeWritten(connection.number))
            await connection.stream.send_eof()
        except trio.BrokenResourceError:
            connection.scope.cancel()

    def _send(self, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return
        if not connection.queue and not connection.writing:
            stream = connection.stream
            rest = stream.send_now(data) if isinstance(stream, TlsStream) else write_now(stream, data)
            self._seen.sent_bytes += len(data) - len(rest or b"")
            if rest is None:
                self._note(BridgeWritten(number))
                return
            data = rest
        connection.queue.append(data)
        self._wake(connection)

    def _close(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            connection.closing = True
            connection.scope.deadline = trio.current_time() + self._config.linger_s
            self._seen.lingering += 1
            self._wake(connection)

    @staticmethod
    def _wake(connection: _Connection) -> None:
        connection.changed.set()
        connection.changed = trio.Event()
