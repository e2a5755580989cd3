"""TCP for one member of a site (TCP of JGroups): for networks that let no UDP through.

Datagrams travel as frames, a size and then the bytes, on one connection with each other member. A member that has something to
send connects, and its first frame says where it can be reached, so that answers use the same connection. Two members that
connect to each other at the same time have two connections, until one falls idle. An idle connection is closed, and made again
when it is needed.

To the layers above this is as unreliable as UDP: datagrams that do not fit into a connection's bounded queue, or are on their
way when a connection breaks, are counted and lost, and the layers send them again. There is no multicast: the resolver sends to
each member.

`Greeting` has the first frames and their proofs: a process without a key of a secured site gets no further. A
connection whose first frame has not come is one of PENDING_MAX, for GREETING_TIMEOUT_S.

The transport has a selector of its own and accepts by itself instead of using trio's streams and `accepting.py`: a turn of the
stack reads all connections and sends on all of them without a checkpoint, so that no task switch comes between a datagram and
its answer, and no task per connection is needed.
"""

from __future__ import annotations

import errno
import secrets
import selectors
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import trio

from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import TrafficStatistics
from sitestack.transport.interfaces import at_both, find_interface, is_address, listen
from sitestack.transport.places import Places
from sitestack.wire.codec import DATAGRAM_BYTES_MAX

#: Accepted connections that have not said who they are, of all and of one host; beyond, the oldest of them is closed.
PENDING_MAX, PENDING_HOST_MAX = 64, 32
#: Seconds for saying it.
GREETING_TIMEOUT_S = 2.0
_SIZE = struct.Struct("<I")
#: The most connections. Further incoming ones are closed at once, and no further ones are made.
CONNECTIONS_MAX = 1_024
#: Bytes that are read from a connection in one turn.
READ_BYTES = 256 * 1024
#: Seconds for connecting, and before another attempt at a member that could not be reached.
CONNECT_TIMEOUT_S = 5.0
PAUSE_S = 0.2
#: Milliseconds that sent bytes may stay unacknowledged before the connection is given up.
SILENT_MS_MAX = 10_000
#: Errors when the process or the machine can open no more sockets for now.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


#: Begins the first frame of the connecting member. The last byte is the version.
MAGIC = b"SST\x01"
#: Begins the first frame of the accepting member where both have keys.
SEALED_MAGIC = b"SST\x02"
#: Begins the first frame of a connecting process with several clusters.
SHARED_MAGIC = b"SST\x03"
#: The largest first frame: one with the proofs of as many clusters as may share a transport, and some more.
GREETING_BYTES_MAX = 1_024
_PORT = struct.Struct("<H")
_HOST_AT = len(MAGIC) + _PORT.size


class Greeting:
    """Makes and checks the first frames of a connection.

        C -> A   magic, port, host: where C can be reached

    With keys the accepting end speaks first, and the other frame ends in a proof over its nonce:

        A -> C   sealed magic, nonce
        C -> A   magic, port, host, proof

    Several clusters with keys that share their connections (`shared.py`) cannot know which of them the other end has, so C
    proves that it has the keys of all, and A is content with one:

        C -> A   shared magic, port, size of host, host, proofs
    """

    def __init__(self, place: Physical, proofs: Proofs | None) -> None:
        """`place` is where this process can be reached."""
        self._place = place
        self._proofs: list[Proofs] = []
        #: Whether both ends prove that they have a key. That it once was so stays.
        self.is_proved = False
        if proofs is not None:
            self.add(proofs)

    def add(self, proofs: Proofs) -> None:
        """Prove these, too, and let in whoever does."""
        self._proofs.append(proofs)
        self.is_proved = True

    def remove(self, proofs: Proofs) -> None:
        """Do so no longer. Connections that are made stay."""
        self._proofs.remove(proofs)

    def draw_nonce(self) -> bytes:
        """What an accepting end draws, for the proof of the other one."""
        return secrets.token_bytes(NONCE_BYTES)

    def hello(self) -> bytes:
        """The first frame of the connecting end where nothing is proved."""
        return MAGIC + _PORT.pack(self._place.port) + self._place.host.encode()

    def proven_hello(self, challenge: bytes) -> bytes:
        """The first frame of the connecting end, for what the accepting one has said; empty if that is no challenge."""
        nonce = challenge[len(SEALED_MAGIC) :]
        if not challenge.startswith(SEALED_MAGIC):
            return b""
        hello = self.hello()
        if len(self._proofs) > 1:
            host = self._place.host.encode()
            hello = SHARED_MAGIC + _PORT.pack(self._place.port) + bytes([len(host)]) + host
        return hello + b"".join([each.make("connection", nonce, hello) for each in self._proofs])

    def admit(self, hello: bytes, nonce: bytes) -> Physical | None:
        """Where the connecting end can be reached; None if it must not be let in."""
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
    """What the connections have seen."""

    connections_made: int = 0
    connections_taken: int = 0
    #: Closed because they were idle.
    reaped: int = 0
    #: Closed because the other end did not say, or not prove, who it is, or because too many others had not yet.
    unproven: int = 0
    #: Closed by the other end or by an error.
    broken: int = 0
    #: Datagrams given up before they were queued: no connection could be had, or its queue was full.
    unsent_datagrams: int = 0
    #: Bytes that waited on a connection that broke.
    lost_bytes: int = 0


class _Connection:
    """One connection, with the bytes that are read or written in part."""

    def __init__(self, sock: socket.socket, peer: Physical | None, now: float) -> None:
        self.sock = sock
        #: Where the other member can be reached; None until its first frame has said so.
        self.peer = peer
        self.established = peer is None
        #: What the accepting end has drawn, for the proof of the other one.
        self.nonce = b""
        #: Whether the connecting end still has to be told a nonce before it may speak.
        self.mute = False
        self.began_at = self.used_at = now
        #: Bytes read and not yet whole frames; bounded by one turn's reading and a frame.
        self.arrived = bytearray()
        #: Bytes to write; bounded by `send_queue_bytes_max`.
        self.waiting = bytearray()
        self.writing = False


class TcpTransport:
    """The connections of one member. Opened by the constructor; everything is watched through one selector."""

    def __init__(self, config: TransportConfig, group: Physical | None, proofs: Proofs | None = None) -> None:
        """`group` only says which interface is meant when none is configured. Raises ConfigurationError."""
        self._config = config
        #: Accepted connections that have not said who they are.
        self._pending = Places[_Connection](PENDING_MAX, PENDING_HOST_MAX)
        host = find_interface(config.interface, "" if group is None else group.host)
        self._listener = listen(host, config.port, again=config.port != 0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._listening = True
        port: int = self._listener.getsockname()[1]
        external = Physical(config.external_host or host, config.external_port or port)
        self._places = at_both(external, Physical(host, port))
        self.greeting = Greeting(external, proofs)
        #: All connections, at most CONNECTIONS_MAX; datagrams to a member use the one in `_by_peer`.
        self._connections: dict[socket.socket, _Connection] = {}
        self._by_peer: dict[Physical, _Connection] = {}
        #: Member -> until when not to connect to it again; bounded, since `_reap` clears it.
        self._pauses: dict[Physical, float] = {}
        self._reap_at = 0.0
        self._queued_high = 0
        self._seen = TcpStatistics()

    # -- the transport -----------------------------------------------------------------------------------------------

    def physical(self) -> tuple[Physical, ...]:
        """Where the others connect to: its external address, where one is configured (LA-8), and its own."""
        return self._places

    def listener(self) -> None:
        """Nobody watches: connections are closed when they are idle, which says nothing about the member."""

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._selector)

    def receive(self) -> list[tuple[bytes, Physical]]:
        """What has arrived: from each connection at most READ_BYTES, so that one cannot starve the others."""
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
        """Queue each at the connection with its receiver, and write what the kernel takes."""
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
            connection.used_at = now
            self._seen.sent_datagrams += 1
            self._seen.sent_bytes += len(data)
            self._queued_high = max(self._queued_high, len(connection.waiting))
            touched[connection] = None
        for connection in touched:
            if connection.established and not connection.writing:
                self._write(connection)

    def close(self) -> None:
        """Close all sockets; what waits is lost."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._listener.close()
        self._selector.close()

    # -- connections -------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        while True:
            try:
                sock, (host, _) = self._listener.accept()
            except OSError as error:
                if error.errno in EXHAUSTED:
                    # Connections that cannot be accepted would wake this member again and again: do not look at them
                    # until the next reaping.
                    self._selector.unregister(self._listener)
                    self._listening = False
                return  # nobody is left
            if len(self._connections) >= CONNECTIONS_MAX:
                sock.close()
                continue
            self._seen.connections_taken += 1
            self._await_greeting(_Connection(sock, None, now), host)

    def _await_greeting(self, connection: _Connection, host: str) -> None:
        """Give an accepted connection a place among the pending ones, and a nonce if it has to prove something."""
        for each in self._pending.enter(connection, host):
            self._refuse(each)
        self._add(connection)
        if self.greeting.is_proved:
            connection.nonce = self.greeting.draw_nonce()
            connection.waiting += _frame(SEALED_MAGIC + connection.nonce)
            self._write(connection)

    def _refuse(self, connection: _Connection) -> None:
        """Close a connection that has not shown who it is."""
        self._seen.unproven += 1
        self._drop(connection)

    def _connect(self, to: Physical, now: float) -> _Connection | None:
        """Begin to connect; the first frame says who this is. None when it cannot be, or should not be so soon."""
        if len(self._connections) >= CONNECTIONS_MAX or self._pauses.get(to, now) > now or not is_address(to.host):
            return None
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
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
        if sys.platform == "linux":
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
        self._seen.lost_bytes += len(connection.waiting)
        if connection.peer is not None and self._by_peer.get(connection.peer) is connection:
            del self._by_peer[connection.peer]

    def _fail(self, connection: _Connection) -> None:
        """Drop a connection that broke or was not made; in the second case the peer is not tried again at once."""
        self._seen.broken += 1
        if connection.peer is not None and not connection.established:
            self._pauses[connection.peer] = trio.current_time() + PAUSE_S
        self._drop(connection)

    def _reap(self, now: float) -> None:
        """Close connections that are idle (LA-29), or that could not be made in time."""
        idle_s = self._config.connection_idle_s_max
        self._reap_at = now + min(idle_s / 4, GREETING_TIMEOUT_S / 2)
        self._pauses = {peer: until for peer, until in self._pauses.items() if until > now}
        for connection in list(self._pending):
            if now - connection.began_at > GREETING_TIMEOUT_S:
                self._refuse(connection)
        for connection in list(self._connections.values()):
            if not connection.established and now - connection.began_at > CONNECT_TIMEOUT_S:
                self._fail(connection)
            elif now - connection.used_at > idle_s:
                self._seen.reaped += 1
                self._drop(connection)

    # -- bytes -------------------------------------------------------------------------------------------------------

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
        self._seen.received_bytes += len(data)
        buffer = connection.arrived
        buffer += data
        at = 0
        while len(buffer) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, at)
            end = at + _SIZE.size + size
            greets = connection.peer is None or connection.mute
            if size > (GREETING_BYTES_MAX if greets else DATAGRAM_BYTES_MAX):
                self._fail(connection)  # it does not speak this protocol
                return
            if len(buffer) < end:
                break
            frame = bytes(buffer[at + _SIZE.size : end])
            at = end
            if not greets:
                assert connection.peer is not None, "who does not greet any more has said who it is"
                arrived.append((frame, connection.peer))
            elif not (self._prove(connection, frame) if connection.mute else self._greeted(connection, frame)):
                self._refuse(connection)
                return
        del buffer[:at]
        if connection.waiting and not connection.writing and not connection.mute:
            self._write(connection)

    def _greeted(self, connection: _Connection, hello: bytes) -> bool:
        """Take in the first frame: the other member's address. Answers use this connection, unless there is another."""
        peer = self.greeting.admit(hello, connection.nonce)
        if peer is None:
            return False
        self._pending.leave(connection)
        connection.peer = peer
        self._by_peer.setdefault(peer, connection)
        return True

    def _prove(self, connection: _Connection, challenge: bytes) -> bool:
        """Say first, with a proof over the other end's nonce, where this member can be reached; then what has waited."""
        hello = self.greeting.proven_hello(challenge)
        if hello:
            connection.waiting[:0] = _frame(hello)
            connection.mute = False
        return bool(hello)

    def statistics(self) -> TcpStatistics:
        return replace(self._seen)

    def levels(self) -> dict[str, Level]:
        """What waits is bounded for each connection, and is told of the one where most does."""
        waiting = max([len(each.waiting) for each in self._connections.values()], default=0)
        why = "members that were spoken with, until the connection has been idle for long"
        return {
            "pending": self._pending.level(),
            "connections": Level.of(len(self._connections), CONNECTIONS_MAX, why),
            "queued_bytes": Level.of(waiting, self._config.send_queue_bytes_max, high=self._queued_high),
        }


def _frame(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
