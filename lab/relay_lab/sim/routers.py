"""Gossip routers on virtual TCP, and the conversations of relays with them.

The routers are those of the product, without sockets; relays talk as `relay/node/bridge/router_calls.py`, without keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import count
from math import inf

from relay.node.bridge.router_calls import PAUSE_S, PING_S, PINGS_MAX
from relay.router.router import GREETING_TIMEOUT_S, SILENT_S, Router
from relay.router.switchboard import Cut, Effect, Say, Splice
from relay_lab.sim.tcp_streams import TcpStream, TcpStreams
from sitestack.model.address import Physical
from sitestack.model.errors import ProtocolError
from sitestack.seal.proofs import NONCE_BYTES
from sitestack.wire import routing
from sitestack.wire.routing import FrameReader, framed

NONCE = bytes(NONCE_BYTES)

#: Yields frames for the router, and receives its frames. Returns whether the stream is connected with the other relay.
Script = Generator[bytes, bytes, bool]


class _Client:
    """A connection at a router, and the one that it is spliced with."""

    def __init__(self, stream: TcpStream) -> None:
        self.stream = stream
        self.reader = FrameReader()
        self.other: TcpStream | None = None


class VirtualRouter:
    """A router at one place."""

    def __init__(self, streams: TcpStreams, place: Physical, sites: Iterable[str]) -> None:
        self.place = place
        self._streams = streams
        self._sites = dict.fromkeys(sites)
        self._numbers = count(1)
        self._clients: dict[int, _Client] = {}
        self._due: float | None = None
        self.start()

    def start(self) -> None:
        self._router = Router(self._sites)
        self._streams.listen(self.place, self._accept)

    def stop(self) -> None:
        self._streams.unlisten(self.place)
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.stream.close()

    @property
    def spliced(self) -> int:
        return self._router.switchboard.spliced

    def _accept(self, stream: TcpStream) -> None:
        number = next(self._numbers)
        self._clients[number] = _Client(stream)
        stream.on_receive = lambda data: self._hear(number, data)
        stream.on_close = lambda: self._closed(number)
        self._carry_out(self._router.open(number, NONCE, self._streams.schedule.now, stream.remote.host))

    def _hear(self, number: int, data: bytes) -> None:
        client, now = self._clients.get(number), self._streams.schedule.now
        if client is None:
            return
        if client.other is not None:
            client.other.send(data)
            self._router.switchboard.moved(number, len(data), now)
            return
        client.reader.feed(data)
        try:
            for frame in client.reader.frames():
                self._carry_out(self._router.receive_frame(number, frame, now))
                client.reader.bytes_max = self._router.bytes_max(number)
            if self._router.switchboard.is_spliced(number) and client.reader.has_begun:
                raise ProtocolError("early")
        except ProtocolError as error:
            self._carry_out(self._router.fail(number, error.reason, now))

    def _closed(self, number: int) -> None:
        if self._clients.pop(number, None) is not None:
            self._carry_out(self._router.close(number, self._streams.schedule.now))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Say(numbers, frame):
                    for number in numbers:
                        if number in self._clients:
                            self._clients[number].stream.send(frame)
                case Cut():
                    if (client := self._clients.pop(effect.client, None)) is not None:
                        client.stream.close()
                case Splice():
                    listener, caller = self._clients[effect.listener], self._clients[effect.caller]
                    listener.other, caller.other = caller.stream, listener.stream
        self._plan_expiry()

    def _plan_expiry(self) -> None:
        due = _deadline(self._router)
        if due is not None and (self._due is None or due < self._due):
            self._due = due
            self._streams.schedule.at(due, lambda: self._expire(due))

    def _expire(self, due: float) -> None:
        if self._due == due:
            self._due = None
            self._carry_out(self._router.expire(self._streams.schedule.now))


def _deadline(router: Router) -> float | None:
    """Return the earliest time at which a connection may expire; None without connections. A real router looks at intervals."""
    clients, board = router._clients, router.switchboard
    pending = [clients[each].heard_at + GREETING_TIMEOUT_S for each in router._pending]
    silent = [each.heard_at + SILENT_S for each in clients.values() if not board.is_spliced(each.number)]
    waiting = [each.due for table in (board._listeners, board._callers) for each in table.values()]
    spliced = [each.due for each in board.splices()]
    return min([each for each in (*silent, *pending, *waiting, *spliced) if each != inf], default=None)


class RouterCalls:
    def __init__(self, streams: TcpStreams, local: Physical, site: str, places: Sequence[Physical], rng: random.Random) -> None:
        self.places = places
        self._streams = streams
        self._local = local
        self._site = site
        self._rng = rng
        #: Gets a connection of a caller; None while it does not wait.
        self._adopt: Callable[[TcpStream], None] | None = None
        self._waiting: dict[Physical, _Conversation] = {}

    def start_waiting(self, adopt: Callable[[TcpStream], None]) -> None:
        if self._adopt is None:
            self._adopt = adopt
            for place in self.places:
                self._wait_at(place)

    def stop_waiting(self) -> None:
        self._adopt = None
        waiting, self._waiting = self._waiting, {}
        for conversation in waiting.values():
            conversation.end()

    def call(self, place: Physical, site: str, done: Callable[[TcpStream | None], None], timeout_s: float) -> None:
        conversation = _Conversation(self._streams, self._local, place, _calling(self._site, site), done, pings=False)
        self._streams.schedule.after(timeout_s, conversation.end)

    def _wait_at(self, place: Physical) -> None:
        if self._adopt is not None and place not in self._waiting:
            called = partial(self._called, place)
            self._waiting[place] = _Conversation(self._streams, self._local, place, _waiting(self._site), called, pings=True)

    def _called(self, place: Physical, stream: TcpStream | None) -> None:
        self._waiting.pop(place, None)
        if stream is None:
            self._streams.schedule.after(PAUSE_S * self._rng.uniform(0.5, 1.5), lambda: self._wait_at(place))
            return
        if self._adopt is None:
            stream.close()
            return
        stream.send(framed(routing.ACCEPT))
        self._adopt(stream)
        self._wait_at(place)


def _calling(site: str, called: str) -> Script:
    challenge = yield b""
    yield routing.hello(site, None, routing.read_challenge(challenge), NONCE)
    answer = yield routing.CALL + called.encode()
    return answer == routing.SPLICED


def _waiting(site: str) -> Script:
    challenge = yield b""
    yield routing.hello(site, None, routing.read_challenge(challenge), NONCE)
    frame = yield routing.LISTEN
    while frame == routing.PONG:
        frame = yield b""
    return frame[:1] == routing.CALLED


class _Conversation:
    """Frames with a router, up to the first byte of another relay. `done` gets the stream, or None."""

    def __init__(
        self,
        streams: TcpStreams,
        local: Physical,
        place: Physical,
        script: Script,
        done: Callable[[TcpStream | None], None],
        *,
        pings: bool,
    ) -> None:
        self._schedule = streams.schedule
        self._script = script
        self._done: Callable[[TcpStream | None], None] | None = done
        self._stream: TcpStream | None = None
        self._arrived = bytearray()
        self._heard = self._unanswered = 0
        self._pings = pings
        next(script)
        streams.dial(local, place, self._dialed)
        self._schedule.after(GREETING_TIMEOUT_S, self._check_greeting)

    def end(self) -> None:
        """End without a connection, unless it has ended."""
        done, self._done = self._done, None
        if done is None:
            return
        if self._stream is not None:
            _forget(self._stream)
            self._stream.close()
        done(None)

    def _dialed(self, stream: TcpStream | None) -> None:
        self._stream = stream
        if stream is None:
            self.end()
        elif self._done is None:
            stream.close()
        else:
            stream.on_receive, stream.on_close = self._hear, self.end

    def _check_greeting(self) -> None:
        if self._heard < 2:
            self.end()
        elif self._pings:
            self._ping()

    def _ping(self) -> None:
        if self._done is None or self._stream is None:
            return
        if self._unanswered > PINGS_MAX:
            self.end()
            return
        self._unanswered += 1
        self._stream.send(framed(routing.PING))
        self._schedule.after(PING_S, self._ping)

    def _hear(self, data: bytes) -> None:
        self._arrived += data
        while self._done is not None and self._stream is not None:
            size = int.from_bytes(self._arrived[:4], "little")
            if len(self._arrived) < 4 + size or not size:
                return
            frame = bytes(self._arrived[4 : 4 + size])
            del self._arrived[: 4 + size]
            self._heard += 1
            self._unanswered = 0
            self._answer(frame, self._stream)

    def _answer(self, frame: bytes, stream: TcpStream) -> None:
        try:
            if said := self._script.send(frame):
                stream.send(framed(said))
        except StopIteration as end:
            if not end.value:
                self.end()
                return
            done, self._done = self._done, None
            _forget(stream)
            assert done is not None
            done(stream)
            if self._arrived:
                stream.on_receive(bytes(self._arrived))


def _forget(stream: TcpStream) -> None:
    stream.on_receive, stream.on_close = lambda data: None, lambda: None
