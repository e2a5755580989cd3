"""The sockets of a gossip router: a task that reads and one that writes for each connection, so that none waits for another."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

import structlog
import trio

from relay.node.door import Door
from relay.router.outbox import Outboxes
from relay.router.router import Cut, Effect, Router
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError, ProtocolError
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, Proofs
from sitestack.wire.routing import FrameReader

#: Bytes that are read from one connection before the others have their turn.
READ_BYTES = 256 * 1024
#: Seconds in which a member has to take what is written to it at a time.
SLOW_S = 5.0
#: Milliseconds that written bytes may stay unacknowledged.
SILENT_MS_MAX = 10_000
#: Connections that may wait to be accepted.
BACKLOG = 256
#: Pause (s) after the system could not accept a connection.
ACCEPT_RETRY_S = 0.1
#: Least time (s) between two looks for silent members.
EXPIRE_INTERVAL_S = 0.25


class _Link:
    """The sockets' side of one connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.reader = FrameReader()
        self.scope = trio.CancelScope()
        #: Set while something waits to be written.
        self.filled = trio.Event()


class RouterServer:
    """Runs a router at one port. Made before it serves, so that a port that is taken is known at once."""

    def __init__(self, bind: Physical, sites: Mapping[str, Proofs | None]) -> None:
        """Listen. Raises ConfigurationError when the port cannot be had."""
        self.router = Router(sites)
        self.outboxes = Outboxes()
        self.door = Door()
        self._links: dict[int, _Link] = {}
        self._numbers = count(1)
        self._socket = _listen(bind)
        self.address = Physical(*self._socket.getsockname()[:2])

    async def serve(self) -> None:
        """Serve until cancelled; then all connections are closed."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(self._expire)
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:  # no descriptors are left, for instance
                    self.door.fail(error)
                    await trio.sleep(ACCEPT_RETRY_S)
                    continue
                self.door.admit()
                nursery.start_soon(self._serve, stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        number, link = next(self._numbers), _Link(stream)
        if sys.platform == "linux":
            with suppress(OSError):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS_MAX)
        self._links[number] = link
        self.outboxes.open(number)
        self._carry_out(self.router.open(number, secrets.token_bytes(NONCE_BYTES), trio.current_time()))
        try:
            with link.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, number, link)
                    await self._read(number, link)
                    nursery.cancel_scope.cancel()
        finally:
            del self._links[number]
            self.outboxes.close(number)
            self._carry_out(self.router.close(number))
            await trio.aclose_forcefully(stream)

    async def _read(self, number: int, link: _Link) -> None:
        """Until the other end closes the connection, or says what no member says."""
        while True:
            try:
                data = await link.stream.receive_some(READ_BYTES)
            except trio.BrokenResourceError:
                return
            if not data:
                return
            now = trio.current_time()
            link.reader.take(data)
            try:
                for frame in link.reader.frames():
                    self._carry_out(self.router.receive(number, frame, now))
                    link.reader.bytes_max = self.router.bytes_max(number)
            except ProtocolError as error:
                self._carry_out(self.router.fail(number, error.reason, now))
                return

    async def _write(self, number: int, link: _Link) -> None:
        """Until the other end takes nothing any more."""
        while True:
            await link.filled.wait()
            link.filled = trio.Event()
            while data := self.outboxes.take(number):
                try:
                    with trio.fail_after(SLOW_S):
                        await link.stream.send_all(data)
                except trio.TooSlowError:
                    self._carry_out(self.router.fail(number, "slow", trio.current_time()))
                    return
                except trio.BrokenResourceError:
                    link.scope.cancel()
                    return

    async def _expire(self) -> None:
        while True:
            await trio.sleep(EXPIRE_INTERVAL_S)
            self._carry_out(self.router.expire(trio.current_time()))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Fill the outboxes, and close who is cut or has no room for what may not be lost."""
        for effect in effects:
            if isinstance(effect, Cut):
                self._cut(effect)
                continue
            for client in effect.clients:
                if not self.outboxes.put(client, effect.frame, is_datagram=effect.is_datagram):
                    self._carry_out(self.router.fail(client, "slow", trio.current_time()))
                elif client in self._links:
                    self._links[client].filled.set()

    def _cut(self, cut: Cut) -> None:
        if cut.client in self._links:
            structlog.get_logger().info("connection closed", reason=cut.reason)
            self._links[cut.client].scope.cancel()

    def levels(self) -> dict[str, Level]:
        """Everything that has a bound."""
        return {**self.router.levels(), **self.outboxes.levels()}


def _listen(bind: Physical) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(bind)
        sock.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        sock.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"relay router: cannot listen on {bind}: {why}.") from error
    return sock
