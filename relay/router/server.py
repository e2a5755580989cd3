"""The sockets of a gossip router. Each connection has a reading and a writing task.

A spliced connection's reading task writes to the other one before it reads again. So a splice
buffers one read per direction, and a slow relay delays only its peer.
"""

from __future__ import annotations

import fcntl
import secrets
import socket
import struct
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

import structlog
import trio

from relay.router.router import CLIENTS_MAX, PENDING_MAX, Router
from relay.router.switchboard import Cut, Effect, Say, Splice
from sitestack.model.address import Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, Proofs
from sitestack.transport.accepting import Admissions, accept_bounded, listen_tcp, peer_host
from sitestack.wire.routing import FrameReader

READ_BYTES = 256 * 1024
#: Maximum bytes read from a spliced connection at a time.
SPLICED_BYTES = 64 * 1024
#: Time limit (s) for a member to accept a byte.
SLOW_S = 5.0
#: Time (ms) that written bytes may stay unacknowledged.
SILENT_MS_MAX = 10_000
BACKLOG = 256
#: Interval (s) of the search for silent members.
EXPIRE_INTERVAL_S = 0.25
#: Maximum queued bytes of one connection, and of all.
OUTBOX_BYTES_MAX = 8 << 20
TOTAL_BYTES_MAX = 256 << 20
#: Extra outbox room (bytes) for non-datagrams, so that datagrams cannot crowd out notices.
NOTICE_BYTES_MAX = 1 << 20
#: The free room that one connection may take: an eighth, and a quarter with non-datagrams.
DATAGRAMS_SHARE, NOTICES_SHARE = 8, 4
WRITE_BYTES = 256 * 1024
_COUNT = struct.Struct("i")


class Outboxes:
    """The frames queued for each connection, with a bound for each and a total bound.

    A connection gets a share of the free room: some is left for other sites. A datagram above a
    bound is dropped and counted. Any other frame above it closes the connection, since its member's
    view of the cluster would be wrong.
    """

    def __init__(self, outbox_bytes_max: int = OUTBOX_BYTES_MAX, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self.lost_datagrams = 0
        self.sent_bytes = 0
        self._outbox_bytes_max, self._total_bytes_max = outbox_bytes_max, total_bytes_max
        self._frames: dict[int, deque[bytes]] = {}
        self._bytes: dict[int, int] = {}
        self._total = Level(total_bytes_max)

    def open(self, client: int) -> None:
        self._frames[client] = deque()
        self._bytes[client] = 0

    def close(self, client: int) -> None:
        self._frames.pop(client, None)
        self._total.now -= self._bytes.pop(client, 0)

    def put(self, client: int, frame: bytes, *, is_datagram: bool) -> bool:
        """Queue a frame. Return False if a non-datagram exceeds the bound."""
        waiting = self._bytes.get(client)
        if waiting is None:
            return True  # the connection is already closed
        size = len(frame)
        free = self._total_bytes_max - self._total.now
        if is_datagram and waiting + size > min(self._outbox_bytes_max, free // DATAGRAMS_SHARE):
            self.lost_datagrams += 1
            return True
        if waiting + size > min(self._outbox_bytes_max + NOTICE_BYTES_MAX, free // NOTICES_SHARE):
            return False
        self._frames[client].append(frame)
        self._bytes[client] = waiting + size
        self._total.add(size)
        return True

    def next_bytes(self, client: int) -> bytes:
        """Remove and return about WRITE_BYTES, or none."""
        frames = self._frames.get(client)
        if not frames:
            return b""
        taken, size = [], 0
        while frames and size < WRITE_BYTES:
            frame = frames.popleft()
            taken.append(frame)
            size += len(frame)
        self._bytes[client] -= size
        self._total.now -= size
        self.sent_bytes += size
        return b"".join(taken)

    def levels(self) -> dict[str, Level]:
        longest = max(self._bytes.values(), default=0)
        bound = self._outbox_bytes_max + NOTICE_BYTES_MAX
        return {"queued_bytes": Level.of(longest, bound), "total_queued_bytes": self._total}


class _Link:
    def __init__(self, number: int, stream: trio.SocketStream) -> None:
        self.number = number
        self.stream = stream
        self.reader = FrameReader()
        self.scope = trio.CancelScope()
        self.filled = trio.Event()
        #: Held while writing: frames queued before a splice precede the spliced bytes.
        self.writing = trio.Lock()
        #: The connection spliced with this one, and whether this one has sent EOF.
        self.other: _Link | None = None
        self.has_ended = False


class RouterServer:
    """A router at one port."""

    def __init__(self, bind: Physical, sites: Mapping[str, Proofs | None]) -> None:
        """Bind the port. Raises ConfigurationError."""
        self.router = Router(sites)
        self.outboxes = Outboxes()
        self.admissions = Admissions()
        self._links: dict[int, _Link] = {}
        self._numbers = count(1)
        self._socket = listen_tcp(bind, BACKLOG, "relay router")
        self.address = Physical(*self._socket.getsockname()[:2])

    async def serve(self) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(self._expire)
            bound = CLIENTS_MAX + 2 * PENDING_MAX
            await accept_bounded(
                listener, self._serve, nursery, name="router", connections_max=bound, admissions=self.admissions
            )

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.admissions.admit()
        number = next(self._numbers)
        link = _Link(number, stream)
        with suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS_MAX)
        self._links[number] = link
        self.outboxes.open(number)
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._carry_out(self.router.open(number, nonce, trio.current_time(), peer_host(stream)))
        try:
            with link.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, link)
                    await self._read(link)
                    nursery.cancel_scope.cancel()
        finally:
            del self._links[number]
            self.outboxes.close(number)
            self._carry_out(self.router.close(number, trio.current_time()))
            await trio.aclose_forcefully(stream)

    async def _read(self, link: _Link) -> None:
        try:
            while data := await link.stream.receive_some(READ_BYTES if link.other is None else SPLICED_BYTES):
                if link.other is not None:
                    await self._send(link.other, data)
                    self.router.switchboard.moved(link.number, len(data), trio.current_time())
                elif not self._hear(link, data):
                    return
            if link.other is not None:
                await self._end(link, link.other)
        except trio.BrokenResourceError:
            return
        except trio.TooSlowError:
            self._carry_out(self.router.fail(link.number, "slow", trio.current_time()))

    def _hear(self, link: _Link, data: bytes | bytearray) -> bool:
        """Handle the frames in received bytes; return False after a protocol error."""
        now = trio.current_time()
        self.router.note_bytes(link.number, now)
        link.reader.feed(bytes(data))
        try:
            for frame in link.reader.frames():
                self._carry_out(self.router.receive_frame(link.number, frame, now))
                link.reader.bytes_max = self.router.bytes_max(link.number)
            if link.other is not None and link.reader.has_begun:
                raise ProtocolError("early")  # a listener that accepts must wait for the caller's first bytes
        except ProtocolError as error:
            self._carry_out(self.router.fail(link.number, error.reason, now))
            return False
        return True

    async def _end(self, link: _Link, other: _Link) -> None:
        """Forward EOF, then wait for the other EOF. The router bounds this wait."""
        self.router.switchboard.ended(link.number, trio.current_time())
        link.has_ended = True
        await self._send(other, b"")
        if not other.has_ended:
            await trio.sleep_forever()

    async def _send(self, link: _Link, data: bytes | bytearray) -> None:
        """Write to a spliced connection after its queued frames; empty `data` sends EOF."""
        async with link.writing:
            await self._send_frames(link)
            await (link.stream.send_all(data) if data else link.stream.send_eof())

    async def _write(self, link: _Link) -> None:
        while True:
            await link.filled.wait()
            link.filled = trio.Event()
            try:
                async with link.writing:
                    await self._send_frames(link)
            except trio.TooSlowError:
                self._carry_out(self.router.fail(link.number, "slow", trio.current_time()))
                return
            except trio.BrokenResourceError:
                link.scope.cancel()
                return

    async def _send_frames(self, link: _Link) -> None:
        while data := self.outboxes.next_bytes(link.number):
            try:
                await _send_all(link.stream.socket, data)
            except OSError as error:
                raise trio.BrokenResourceError from error

    async def _expire(self) -> None:
        while True:
            await trio.sleep(EXPIRE_INTERVAL_S)
            self._carry_out(self.router.expire(trio.current_time()))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Fill the outboxes; close cut connections and those with a full outbox."""
        for effect in effects:
            match effect:
                case Cut():
                    self._cut(effect)
                case Say():
                    self._say(effect)
                case Splice(listener, caller):
                    first, second = self._links[listener], self._links[caller]
                    first.other, second.other = second, first

    def _say(self, said: Say) -> None:
        for client in said.clients:
            if not self.outboxes.put(client, said.frame, is_datagram=said.is_datagram):
                self._carry_out(self.router.fail(client, "slow", trio.current_time()))
            elif client in self._links:
                self._links[client].filled.set()

    def _cut(self, cut: Cut) -> None:
        self.outboxes.close(cut.client)  # or the notice of its departure cuts others
        if cut.client in self._links:
            structlog.get_logger().info("connection closed", reason=cut.reason)
            self._links[cut.client].scope.cancel()

    def levels(self) -> dict[str, Level]:
        return {**self.router.levels(), **self.outboxes.levels()}


async def _send_all(sock: trio.socket.SocketType, data: bytes) -> None:
    """Send. Raises OSError, and TooSlowError if the other end accepts nothing for SLOW_S."""
    rest = memoryview(data)
    while rest:
        unsent = _unsent_bytes(sock)
        with trio.move_on_after(SLOW_S) as waiting:
            rest = rest[await sock.send(rest) :]
        if waiting.cancelled_caught and _unsent_bytes(sock) >= unsent:
            raise trio.TooSlowError


def _unsent_bytes(sock: trio.socket.SocketType) -> int:
    """Return the bytes in the kernel's buffer, which takes more only when a third of it is free."""
    return int(_COUNT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_COUNT.size)))[0])
