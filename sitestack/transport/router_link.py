"""One member's connection to one gossip router: opened, proved, kept alive, and reopened after a pause."""

from __future__ import annotations

import errno
import os
import random
import secrets
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import trio

from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.host import is_address
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, Proofs
from sitestack.transport.interfaces import make_socket
from sitestack.wire import routing
from sitestack.wire.routing import Entry, FrameReader, framed

READ_BYTES = 256 * 1024
#: Seconds for connecting and for the proofs.
GREETING_TIMEOUT_S = 2.0
#: Pauses before the next attempt (s), varied by half.
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
#: Interval of pings, and timeout of a response (s); less than the failure detection between
#: members.
PING_S, ANSWER_S = 0.5, 2.0
#: Interval (s) of repeated registration and query.
REFRESH_S = 10.0
OTHERS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Registrant:
    """The connecting member: its cluster, its entry, and its proofs of membership."""

    cluster: str
    entry: Entry
    proofs: Proofs | None


class LinkState(Enum):
    #: No connection; the next one is opened after a pause.
    PAUSED = auto()
    CONNECTING = auto()
    CHALLENGED = auto()
    #: The router has the proof; the router's proof is outstanding.
    ANSWERED = auto()
    UP = auto()


class RouterLink:
    """The connection to one router. All router connections of a member share a selector."""

    def __init__(
        self,
        place: Physical,
        registrant: Registrant,
        selector: selectors.BaseSelector,
        queue_bytes_max: int,
        take: Callable[[RouterLink, bytes], None],
    ) -> None:
        self.place = place
        self.state = LinkState.PAUSED
        self.others: dict[Address, Entry] = {}
        #: Whether the router has listed all others since the connection was opened.
        self.listed = False
        self.changed = False
        #: Empty while there is a connection.
        self.problem = "it has not been called yet"
        #: Bytes to write; bounded by `queue_bytes_max`.
        self.waiting = bytearray()
        self.connected = 0
        self._registrant = registrant
        self._selector = selector
        self._queue_bytes_max = queue_bytes_max
        self._take = take
        self._sock: socket.socket | None = None
        self._reader = FrameReader()
        self._nonces = (b"", b"")
        self._writing = False
        self._pause_s = PAUSE_S
        self.due = 0.0
        self._asked_at: float | None = None
        self._refresh_at = 0.0
        self._told: set[Address] = set()

    def tend(self, now: float) -> None:
        """Do due work: connect, time out, ping or refresh. Read before."""
        if now < self.due:
            return
        if self.state is LinkState.PAUSED:
            self._call(now)
        elif self.state is not LinkState.UP:
            self.drop("it does not answer", now)
        elif self._asked_at is not None and now >= self._asked_at + ANSWER_S:
            self.drop("it no longer answers", now)
        else:
            self._asked_at = now if self._asked_at is None else self._asked_at
            self.due = now + PING_S
            self.write(framed(routing.PING))
            if now >= self._refresh_at:
                self._register(now)

    def _call(self, now: float) -> None:
        try:
            sock = make_socket(self.place.host, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._pause(error.strerror or "no descriptors are left", now)
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._reader, self._writing = sock, FrameReader(), True
        self.state, self.due = LinkState.CONNECTING, now + GREETING_TIMEOUT_S
        self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        answer = sock.connect_ex(self.place)
        if answer not in (0, errno.EINPROGRESS):
            self.drop(os.strerror(answer).lower(), now)

    def drop(self, why: str, now: float) -> None:
        """Close the connection, discard unsent bytes, and schedule another attempt."""
        self.close()
        if self.state is LinkState.UP:
            self._pause_s = PAUSE_S
        self.waiting.clear()
        self.changed = self.changed or self.listed or bool(self.others)
        self.others, self.listed, self._asked_at, self._told = {}, False, None, set()
        self._pause(why, now)

    def _pause(self, why: str, now: float) -> None:
        self.state, self.problem = LinkState.PAUSED, why
        self.due = now + self._pause_s * random.uniform(0.5, 1.5)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def close(self) -> None:
        """Close the socket: the router notifies the others of this member's departure."""
        if self._sock is not None:
            self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def write(self, frame: bytes) -> bool:
        """Queue a frame. Return False if the queue is full."""
        if len(self.waiting) + len(frame) > self._queue_bytes_max:
            return False
        self.waiting += frame
        return True

    def send(self, frame: bytes) -> bool:
        """Queue a datagram. Return False without a connection or if the queue is full."""
        return self.state is LinkState.UP and self.write(frame)

    def flush(self, now: float) -> None:
        if self._sock is None or self.state is LinkState.CONNECTING or not (self.waiting or self._writing):
            return
        try:
            del self.waiting[: self._sock.send(self.waiting)]
        except BlockingIOError:
            pass
        except OSError as error:
            self.drop((error.strerror or "the connection broke").lower(), now)
            return
        if self._writing is not bool(self.waiting):
            self._writing = not self._writing
            events = selectors.EVENT_READ | selectors.EVENT_WRITE if self._writing else selectors.EVENT_READ
            self._selector.modify(self._sock, events, self)

    def handle(self, ready: int, now: float) -> None:
        """Serve a socket that is ready to be read or written."""
        if self._sock is not None and self.state is LinkState.CONNECTING:
            problem = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                self.drop(os.strerror(problem).lower(), now)
                return
            self.state = LinkState.CHALLENGED
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * ANSWER_S))
        if ready & selectors.EVENT_WRITE:
            self.flush(now)
        if ready & selectors.EVENT_READ and self._sock is not None:
            self._read(self._sock, now)

    def _read(self, sock: socket.socket, now: float) -> None:
        try:
            data = sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.drop((error.strerror or "the connection broke").lower(), now)
            return
        if not data:
            self.drop("it closed the connection", now)
            return
        self._asked_at = None
        self._reader.feed(data)
        try:
            for frame in self._reader.frames():
                if frame[:1] == routing.DATA and self.state is LinkState.UP:
                    self._take(self, frame)
                else:
                    self._hear(frame, now)
        except ProtocolError as error:
            self.drop(f"no router of this site sends this ({error.reason})", now)

    def _hear(self, frame: bytes, now: float) -> None:
        who = self._registrant
        if self.state is LinkState.CHALLENGED:
            self._nonces = (routing.read_challenge(frame), secrets.token_bytes(NONCE_BYTES))
            self.state = LinkState.ANSWERED
            self.write(framed(routing.hello(who.cluster, who.proofs, *self._nonces)))
        elif self.state is LinkState.ANSWERED:
            if not routing.is_welcome(frame, who.proofs, *self._nonces):
                raise ProtocolError("unproven")
            self.state, self.problem, self.due = LinkState.UP, "", now + PING_S
            self.connected += 1
            self.changed = True
            self._reader.bytes_max = routing.FRAME_BYTES_MAX
            self._register(now)
        else:
            self._note(frame)

    def _register(self, now: float) -> None:
        self._refresh_at = now + REFRESH_S
        entry = routing.pack_entry(self._registrant.entry, self._registrant.proofs)
        self.write(framed(routing.REGISTER, entry) + framed(routing.QUERY))

    def _note(self, frame: bytes) -> None:
        kind, rest = frame[:1], frame[1:]
        if kind == routing.PRESENT:
            try:
                entry = routing.parse_entry(rest, self._registrant.proofs)
            except ProtocolError:  # perhaps with a key that this member lacks: no reason to drop the router
                return
            if len(self.others) < OTHERS_MAX or entry.address in self.others:
                self._told.add(entry.address)
                self.changed = self.changed or self.others.get(entry.address) != entry
                self.others[entry.address] = entry
        elif kind == routing.GONE and len(rest) == UUID_BYTES:
            self.changed = self.others.pop(Address(rest), None) is not None or self.changed
        elif kind == routing.LISTED:
            stale = [each for each in self.others if each not in self._told]
            for each in stale:
                del self.others[each]
            self._told.clear()
            self.changed = self.changed or bool(stale) or not self.listed
            self.listed = True
        elif kind != routing.PONG:
            raise ProtocolError("frame_kind")


#: Maximum number of routers.
ROUTERS_MAX = 16


class RouterLinks:
    """All routers of one member. The first `poll` connects."""

    def __init__(
        self,
        places: Sequence[Physical],
        registrant: Registrant,
        queue_bytes_max: int,
        take: Callable[[RouterLink, bytes], None] = lambda _link, _frame: None,
    ) -> None:
        self._registrant = registrant
        self._queue_bytes_max = queue_bytes_max
        self._take = take
        self._selector = selectors.DefaultSelector()
        self._has_news = False
        self.links: list[RouterLink] = []
        self.use(places)

    def use(self, places: Sequence[Physical]) -> None:
        wanted = [each for each in dict.fromkeys(places) if is_address(each.host)][:ROUTERS_MAX]
        known = {link.place: link for link in self.links}
        for place, link in known.items():
            if place not in wanted:
                link.close()
        self._has_news = True
        self.links = [known.get(place) or self._make(place) for place in wanted]

    def move(self, physical: tuple[Physical, ...]) -> None:
        who, places = self._registrant, [link.place for link in self.links]
        self._registrant = replace(who, entry=replace(who.entry, physical=physical))
        self.use(())
        self.use(places)

    def _make(self, place: Physical) -> RouterLink:
        return RouterLink(place, self._registrant, self._selector, self._queue_bytes_max, self._take)

    async def wait(self) -> None:
        """Wait until there is something to read, to write, or due. Always a checkpoint."""
        due = min([link.due for link in self.links], default=trio.current_time() + PAUSE_S_MAX)
        with trio.CancelScope(deadline=due) as scope:
            await trio.lowlevel.wait_readable(self._selector)
        if scope.cancelled_caught:
            await trio.lowlevel.checkpoint()

    async def find(self, timeout_s: float) -> None:
        """Wait until a router has listed its members, at most `timeout_s`."""
        with trio.move_on_after(timeout_s):
            while not self.has_answer():
                await self.wait()
                self._has_news = self.poll() or self._has_news

    def poll(self) -> bool:
        """Read, write, and do due work. Return whether other members came or left since the last poll."""
        now = trio.current_time()
        for key, ready in self._selector.select(0):
            key.data.handle(ready, now)
        changed, self._has_news = self._has_news, False
        for link in self.links:
            link.tend(now)
            link.flush(now)
            changed, link.changed = changed or link.changed, False
        return changed

    def flush(self) -> None:
        now = trio.current_time()
        for link in self.links:
            link.flush(now)

    def up(self) -> list[RouterLink]:
        return [link for link in self.links if link.state is LinkState.UP]

    def has_answer(self) -> bool:
        return any(link.listed for link in self.links)

    def others(self) -> dict[Address, Entry]:
        return {address: entry for link in self.links for address, entry in link.others.items()}

    def problem(self) -> str:
        """Return a clause that names unreachable routers; empty if there are none."""
        lost = [f"{link.place} ({link.problem})" for link in self.links if link.state is not LinkState.UP]
        return f"no connection to {', '.join(lost)}" if lost else ""

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.links = []
        self._selector.close()

    def levels(self) -> dict[str, Level]:
        """Return the largest queue for a router, and the most members known from one."""
        waiting = max([len(link.waiting) for link in self.links], default=0)
        others = max([len(link.others) for link in self.links], default=0)
        return {
            "router_queued_bytes": Level.of(waiting, self._queue_bytes_max),
            "registered": Level.of(others, OTHERS_MAX, "members that are registered at a router"),
        }
