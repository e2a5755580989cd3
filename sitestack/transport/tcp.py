"""TCP for one member of a site (TCP of JGroups): for networks that block UDP.

Datagrams travel as frames (size, bytes) on one connection per pair of members; two that connect
simultaneously have two until one is idle. The first frame names the sender's address, so that
responses use the same connection. For the layers above this is as unreliable as UDP, and there is
no multicast.

A connection without its first frame is one of PENDING_MAX, for GREETING_TIMEOUT_S.

The transport uses a selector instead of trio's streams: a turn of the stack reads and writes all
connections without a checkpoint, and connections need no tasks.
"""

from __future__ import annotations

import errno
import secrets
import selectors
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import trio

from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.model.host import is_address
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import TrafficStatistics
from sitestack.transport.interfaces import at_both, find_interface, make_socket, open_socket
from sitestack.transport.places import Places
from sitestack.wire.codec import DATAGRAM_BYTES_MAX

#: Maximum accepted connections without a first frame, in all and per host; the oldest is evicted.
PENDING_MAX, PENDING_HOST_MAX = 64, 32
#: Seconds for the first frame.
GREETING_TIMEOUT_S = 2.0
_SIZE = struct.Struct("<I")
#: Maximum connections; further ones are closed at once, or not opened.
CONNECTIONS_MAX = 1_024
READ_BYTES = 256 * 1024
#: Seconds for connecting, with the challenge, and before another attempt at an unreachable member.
CONNECT_TIMEOUT_S = 5.0
PAUSE_S = 0.2
#: Milliseconds that sent bytes may stay unacknowledged, less than the failure detection.
SILENT_MS_MAX = 2_000
#: Errors if no more sockets can be opened for now.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Begins the first frame of the connecting member. The last byte is the version.
MAGIC = b"SST\x01"
#: Begins the first frame of the accepting member where both have keys.
SEALED_MAGIC = b"SST\x02"
#: Begins the first frame of a connecting process with several clusters.
SHARED_MAGIC = b"SST\x03"
#: Maximum first frame: the proofs of all clusters that may share a transport, and a margin.
GREETING_BYTES_MAX = 1_024
_PORT = struct.Struct("<H")
_HOST_AT = len(MAGIC) + _PORT.size


class Greeting:
    """Makes and checks the first frames of a connection.

        C -> A   magic, port, host: the address of C

    With keys the accepting end begins, and the other frame ends in a proof over its nonce:

        A -> C   sealed magic, nonce
        C -> A   magic, port, host, proof

    With several secured clusters on shared connections (`shared.py`), C does not know which of them
    A has. C proves that it has the keys of all, and A accepts one:

        C -> A   shared magic, port, size of host, host, proofs
    """

    def __init__(self, place: Physical, proofs: Proofs | None) -> None:
        self._place = place
        self._proofs: list[Proofs] = []
        #: Whether both ends prove that they have a key; stays true.
        self.is_proved = False
        if proofs is not None:
            self.add(proofs)

    def add(self, proofs: Proofs) -> None:
        """Also prove with these, and admit peers that do."""
        self._proofs.append(proofs)
        self.is_proved = True

    def remove(self, proofs: Proofs) -> None:
        """Stop using these proofs. Open connections stay."""
        self._proofs.remove(proofs)

    def hello(self) -> bytes:
        return MAGIC + _PORT.pack(self._place.port) + self._place.host.encode()

    def proven_hello(self, challenge: bytes) -> bytes:
        """Return the first frame of the connecting end for this challenge; empty for an invalid one."""
        nonce = challenge[len(SEALED_MAGIC) :]
        if not challenge.startswith(SEALED_MAGIC):
            return b""
        hello = self.hello()
        if len(self._proofs) > 1:
            host = self._place.host.encode()
            hello = SHARED_MAGIC + _PORT.pack(self._place.port) + bytes([len(host)]) + host
        return hello + b"".join([each.make("connection", nonce, hello) for each in self._proofs])

    def admit(self, hello: bytes, nonce: bytes) -> Physical | None:
        """Return the address of the connecting end; None to reject it."""
        if not self.is_proved:
            return _place(hello, _HOST_AT) if hello.startswith(MAGIC) else None
        if hello.startswith(SHARED_MAGIC):
            start = _HOST_AT + 1
            end = start + int.from_bytes(hello[_HOST_AT:start], "big")
        else:
            start, end = _HOST_AT, len(hello) - PROOF_BYTES
            if not hello.startswith(MAGIC):
                return None
        hello, shown = hello[:end], hello[end:]
        proofs = [shown[at : at + PROOF_BYTES] for at in range(0, len(shown), PROOF_BYTES)]
        if any(mine.are_sound(each, "connection", nonce, hello) for mine in self._proofs for each in proofs):
            return _place(hello, start)
        return None


def _place(hello: bytes, host_at: int) -> Physical | None:
    host = hello[host_at:].decode("ascii", "replace")
    return Physical(host, _PORT.unpack_from(hello, len(MAGIC))[0]) if is_address(host) else None


@dataclass(slots=True)
class TcpStatistics(TrafficStatistics):
    connections_made: int = 0
    connections_taken: int = 0
    reaped: int = 0
    unproven: int = 0
    #: Closed by the other end or by an error.
    broken: int = 0
    #: Datagrams dropped before they were queued: no connection, or a full queue.
    unsent_datagrams: int = 0


class _Connection:
    def __init__(self, sock: socket.socket, peer: Physical | None, now: float) -> None:
        self.sock = sock
        #: The other member's address; None before its first frame.
        self.peer = peer
        self.established = peer is None
        self.nonce = b""
        #: Whether the connecting end waits for a nonce.
        self.mute = False
        #: `used_at`: the last arrival; a stalled intermediary accepts everything.
        self.began_at = self.used_at = now
        #: Bounded by one turn's reading and a frame.
        self.arrived = bytearray()
        #: Bounded by `send_queue_bytes_max`.
        self.waiting = bytearray()
        self.writing = False


class TcpTransport:
    """The connections of one member, watched through one selector. The constructor opens the listener."""

    def __init__(self, config: TransportConfig, group: Physical | None, proofs: Proofs | None = None) -> None:
        """`group` only selects the interface if none is configured. Raises ConfigurationError."""
        self._config = config
        self._pending = Places[_Connection](PENDING_MAX, PENDING_HOST_MAX)
        host = find_interface(config.interface, "" if group is None else group.host, config.ipv6)
        self._listener = open_socket(host, config.port, socket.SOCK_STREAM, again=config.port != 0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._listening = True
        port: int = self._listener.getsockname()[1]
        external = Physical(config.external_host or host, config.external_port or port)
        self._places = at_both(external, Physical(host, port))
        self.greeting = Greeting(external, proofs)
        #: At most CONNECTIONS_MAX; datagrams to a member use the one in `_by_peer`.
        self._connections: dict[socket.socket, _Connection] = {}
        self._by_peer: dict[Physical, _Connection] = {}
        #: Member -> earliest time to connect again.
        self._pauses: dict[Physical, float] = {}
        self._reap_at = 0.0
        self._queued_high = 0
        self._seen = TcpStatistics()

    def physical(self) -> tuple[Physical, ...]:
        return self._places

    def listener(self) -> None:
        """Return None: idle connections are closed, so a close proves nothing about the member."""

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._selector)

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return arrived datagrams, at most READ_BYTES per connection."""
        now = trio.current_time()
        arrived: list[tuple[bytes, Physical]] = []
        if not self._listening and now >= self._reap_at:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._listening = True
        for key, ready in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept(now)
                continue
            connection = self._connections.get(key.data)
            if connection is not None and ready & selectors.EVENT_WRITE:
                self._write(connection)
            if ready & selectors.EVENT_READ and key.data in self._connections:
                self._read(self._connections[key.data], arrived, now)
        if now >= self._reap_at:
            self._reap(now)
        self._seen.received_datagrams += len(arrived)
        return arrived

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Queue each datagram at its receiver's connection, and write as much as the kernel accepts."""
        now = trio.current_time()
        touched: dict[_Connection, None] = {}
        for to, data in datagrams:
            connection = None if to is None else self._by_peer.get(to) or self._connect(to, now)
            size = _SIZE.size + len(data)
            if connection is None or len(connection.waiting) + size > self._config.send_queue_bytes_max:
                self._seen.unsent_datagrams += 1
                continue
            connection.waiting += _SIZE.pack(len(data))
            connection.waiting += data
            self._seen.sent_datagrams += 1
            self._seen.sent_bytes += len(data)
            self._queued_high = max(self._queued_high, len(connection.waiting))
            touched[connection] = None
        for connection in touched:
            if connection.established and not connection.writing:
                self._write(connection)

    def close(self) -> None:
        """Close all sockets; unsent bytes are lost."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._listener.close()
        self._selector.close()

    def _accept(self, now: float) -> None:
        while True:
            try:
                sock, (host, *_) = self._listener.accept()
            except OSError as error:
                if error.errno in EXHAUSTED:
                    # Connections that cannot be accepted would wake this member repeatedly.
                    self._selector.unregister(self._listener)
                    self._listening = False
                return  # the queue is empty
            if len(self._connections) >= CONNECTIONS_MAX:
                sock.close()
                continue
            self._seen.connections_taken += 1
            self._await_greeting(_Connection(sock, None, now), host)

    def _await_greeting(self, connection: _Connection, host: str) -> None:
        """Make an accepted connection pending, and send a nonce if it must prove a key."""
        for each in self._pending.enter(connection, host):
            self._refuse(each)
        self._add(connection)
        if self.greeting.is_proved:
            connection.nonce = secrets.token_bytes(NONCE_BYTES)
            connection.waiting += _frame(SEALED_MAGIC + connection.nonce)
            self._write(connection)

    def _refuse(self, connection: _Connection) -> None:
        self._seen.unproven += 1
        self._drop(connection)

    def _connect(self, to: Physical, now: float) -> _Connection | None:
        """Begin to connect; the first frame identifies this member. None if impossible or too soon."""
        if len(self._connections) >= CONNECTIONS_MAX or self._pauses.get(to, now) > now or not is_address(to.host):
            return None
        try:
            sock = make_socket(to.host, socket.SOCK_STREAM)
        except OSError:
            self._pauses[to] = now + PAUSE_S
            return None
        connection = _Connection(sock, to, now)
        self._add(connection)
        self._seen.connections_made += 1
        answer = sock.connect_ex(to)
        if answer not in (0, errno.EINPROGRESS):
            self._fail(connection)
            return None
        connection.mute = self.greeting.is_proved
        if not connection.mute:
            connection.waiting += _frame(self.greeting.hello())
        self._by_peer[to] = connection
        self._watch_writing(connection, True)
        return connection

    def _add(self, connection: _Connection) -> None:
        sock = connection.sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS_MAX)
        self._connections[sock] = connection
        self._selector.register(sock, selectors.EVENT_READ, sock)

    def _watch_writing(self, connection: _Connection, writing: bool) -> None:
        if connection.writing is not writing:
            connection.writing = writing
            events = selectors.EVENT_READ | selectors.EVENT_WRITE if writing else selectors.EVENT_READ
            self._selector.modify(connection.sock, events, connection.sock)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.sock)
        self._pending.leave(connection)
        connection.sock.close()
        del self._connections[connection.sock]
        if connection.peer is not None and self._by_peer.get(connection.peer) is connection:
            del self._by_peer[connection.peer]

    def _fail(self, connection: _Connection) -> None:
        """Drop a broken or failed connection. After a failure to connect, pause the peer."""
        self._seen.broken += 1
        if connection.peer is not None and not connection.established:
            self._pauses[connection.peer] = trio.current_time() + PAUSE_S
        self._drop(connection)

    def _reap(self, now: float) -> None:
        """Close idle connections (LA-29), and those not opened in time."""
        idle_s = self._config.connection_idle_s_max
        self._reap_at = now + min(idle_s / 4, GREETING_TIMEOUT_S / 2)
        self._pauses = {peer: until for peer, until in self._pauses.items() if until > now}
        for connection in list(self._pending):
            if now - connection.began_at > GREETING_TIMEOUT_S:
                self._refuse(connection)
        for connection in list(self._connections.values()):
            if (connection.mute or not connection.established) and now - connection.began_at > CONNECT_TIMEOUT_S:
                self._fail(connection)
            elif now - connection.used_at > idle_s:
                self._seen.reaped += 1
                self._drop(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            if not connection.established:
                problem = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if problem:
                    raise OSError(problem, "cannot connect")
                connection.established = True
            if not connection.mute:
                del connection.waiting[: connection.sock.send(connection.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._fail(connection)
            return
        self._watch_writing(connection, bool(connection.waiting) and not connection.mute)

    def _read(self, connection: _Connection, arrived: list[tuple[bytes, Physical]], now: float) -> None:
        try:
            data = connection.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._fail(connection)
            return
        connection.used_at = now
        if connection.peer is not None and (sending := self._by_peer.get(connection.peer)) is not None:
            sending.used_at = now
        self._seen.received_bytes += len(data)
        buffer = connection.arrived
        buffer += data
        at = 0
        while len(buffer) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, at)
            end = at + _SIZE.size + size
            greets = connection.peer is None or connection.mute
            if size > (GREETING_BYTES_MAX if greets else DATAGRAM_BYTES_MAX):
                self._fail(connection)  # not this protocol
                return
            if len(buffer) < end:
                break
            frame = bytes(buffer[at + _SIZE.size : end])
            at = end
            if not greets:
                assert connection.peer is not None, "a greeted connection has a peer"
                arrived.append((frame, connection.peer))
            elif not (self._prove(connection, frame) if connection.mute else self._greeted(connection, frame)):
                self._refuse(connection)
                return
        del buffer[:at]
        if connection.waiting and not connection.writing and not connection.mute:
            self._write(connection)

    def _greeted(self, connection: _Connection, hello: bytes) -> bool:
        """Process the first frame: the other member's address. Responses prefer an existing connection."""
        peer = self.greeting.admit(hello, connection.nonce)
        if peer is None:
            return False
        self._pending.leave(connection)
        connection.peer = peer
        self._by_peer.setdefault(peer, connection)
        return True

    def _prove(self, connection: _Connection, challenge: bytes) -> bool:
        """Send the first frame, with a proof over the other end's nonce, before queued frames."""
        hello = self.greeting.proven_hello(challenge)
        if hello:
            connection.waiting[:0] = _frame(hello)
            connection.mute = False
        return bool(hello)

    def statistics(self) -> TcpStatistics:
        return replace(self._seen)

    def levels(self) -> dict[str, Level]:
        """Return the levels; the queue is bounded per connection, so report the largest."""
        waiting = max([len(each.waiting) for each in self._connections.values()], default=0)
        why = "members that were spoken with, until the connection has been idle for long"
        return {
            "pending": self._pending.level(),
            "connections": Level.of(len(self._connections), CONNECTIONS_MAX, why),
            "queued_bytes": Level.of(waiting, self._config.send_queue_bytes_max, high=self._queued_high),
        }


def _frame(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
