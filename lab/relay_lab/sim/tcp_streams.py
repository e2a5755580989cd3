"""Virtual TCP: byte streams that arrive in order, late, or not any more.

Of the bytes under way in a cut connection a random prefix still arrives. A broken route stalls a connection until it
heals.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from relay_lab.sim.network import Latency
from relay_lab.sim.schedule import Schedule
from sitestack.model.address import Physical

#: Bytes that pass a slow route at a time, so that a large write arrives in pieces.
PIECE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Slowness:
    #: Extra delay in seconds of all data.
    delay_s: float
    #: Bytes that pass in a second; None: no limit.
    bytes_per_s: float | None = None
    #: Seconds of data that the route's queue holds; data counts as written once it is queued.
    queue_s: float = 0.0


class TcpStream:
    """One end of a connection. The owner sets `on_receive(data)` and `on_close()`."""

    def __init__(self, streams: TcpStreams, local: Physical, remote: Physical) -> None:
        self.local = local
        self.remote = remote
        self.on_receive: Callable[[bytes], None] = lambda data: None
        self.on_close: Callable[[], None] = lambda: None
        self.open = True
        self.peer: TcpStream | None = None
        self._streams = streams
        self._under_way: list[bytes] = []
        self._arrival = 0.0
        #: When all data sent so far will have passed the narrowest place of the route.
        self._passed = 0.0

    def send(self, data: bytes) -> float:
        """Accept bytes, as a kernel does, whether or not they will ever arrive.

        Returns the seconds until the route's queue has all of them, so that the sender may send more.
        """
        if not self.open or self.peer is None:
            return 0.0
        slowness = self._streams.slowness(self.local, self.remote)
        if slowness is None or slowness.bytes_per_s is None:
            self._pass(data)
            return 0.0
        now = self._streams.schedule.now
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            self._passed = max(self._passed, now) + len(piece) / slowness.bytes_per_s
            self._pass(piece)
        return max(0.0, self._passed - now - slowness.queue_s)

    def _pass(self, data: bytes) -> None:
        self._under_way.append(data)
        self._plan_arrival()
        self._streams.schedule.at(self._arrival, self._arrive)

    def hold(self, until: float) -> None:
        self._arrival = max(self._arrival, until)

    def _plan_arrival(self) -> None:
        """After earlier data, also when the route is not slow any more."""
        streams = self._streams
        slowness = streams.slowness(self.local, self.remote)
        delay_s = 0.0 if slowness is None else slowness.delay_s
        self._arrival = max(self._arrival, max(self._passed, streams.schedule.now) + streams.draw_latency() + delay_s)

    def close(self) -> None:
        """Close in order: data under way still arrives, then the end."""
        if self.open:
            self.open = False
            self._plan_arrival()
            self._streams.schedule.at(self._arrival, self._end)

    def cut(self, rng: random.Random) -> None:
        """Break the connection: in each direction a random prefix of the data under way still arrives."""
        for end in (self, self.peer):
            if end is not None:
                end._break(rng)

    def _break(self, rng: random.Random) -> None:
        data = b"".join(self._under_way)
        self._under_way = []
        if data and self.peer is not None and self.peer.open:
            kept = data[: rng.randrange(len(data) + 1)]
            if kept:
                self.peer.on_receive(kept)
        if self.open:
            self.open = False
            self.on_close()

    def _arrive(self) -> None:
        if self._streams.stalled(self.local, self.remote):
            self._streams.schedule.after(self._streams.retry_s, self._arrive)
            return
        if self._under_way:
            data = self._under_way.pop(0)
            if self.peer is not None and self.peer.open:
                self.peer.on_receive(data)

    def _end(self) -> None:
        if self._streams.stalled(self.local, self.remote):
            self._streams.schedule.after(self._streams.retry_s, self._end)
            return
        peer = self.peer
        if peer is not None and peer.open:
            peer.open = False
            peer.on_close()


class TcpStreams:
    #: How often a stalled stream tries again.
    retry_s = 0.2

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.schedule = schedule
        self.latency = Latency(0.005, 0.005)
        #: Broken routes: nothing gets from the first hosts to the second ones.
        self.cuts: list[tuple[frozenset[str], frozenset[str]]] = []
        #: Slow routes from the first hosts to the second ones; of two between the same hosts the later one counts.
        self.slow: list[tuple[frozenset[str], frozenset[str], Slowness]] = []
        self._rng = rng
        self._listeners: dict[Physical, Callable[[TcpStream], None]] = {}
        self._open: list[TcpStream] = []

    def listen(self, address: Physical, accept: Callable[[TcpStream], None]) -> None:
        self._listeners[address] = accept

    def unlisten(self, address: Physical) -> None:
        self._listeners.pop(address, None)

    def dial(self, source: Physical, target: Physical, done: Callable[[TcpStream | None], None]) -> None:
        """Connect; `done` gets the dialing end, or None without a listener or with a broken route.

        On a slow route the other end learns of it later, by the last packet of the handshake.
        """
        there, back = self.slowness(source, target), self.slowness(target, source)
        delay_s = sum(each.delay_s for each in (there, back) if each is not None)
        self.schedule.after(2 * self.draw_latency() + delay_s, lambda: self._connect(source, target, done))

    def _connect(self, source: Physical, target: Physical, done: Callable[[TcpStream | None], None]) -> None:
        accept = self._listeners.get(target)
        if accept is None or self.stalled(source, target) or self.stalled(target, source):
            done(None)
            return
        near, far = TcpStream(self, source, target), TcpStream(self, target, source)
        near.peer, far.peer = far, near
        self._open = [stream for stream in self._open if stream.open]
        self._open.append(near)
        slowness = self.slowness(source, target)
        if slowness is None or not slowness.delay_s:
            accept(far)
        else:
            near.hold(self.schedule.now + slowness.delay_s)
            self.schedule.after(slowness.delay_s, lambda: self._accept(far))
        done(near)

    def _accept(self, far: TcpStream) -> None:
        accept = self._listeners.get(far.local)
        if accept is None:
            far.close()
        elif far.open:
            accept(far)

    def connections(self) -> list[TcpStream]:
        return [stream for stream in self._open if stream.open]

    def stalled(self, source: Physical, target: Physical) -> bool:
        return bool(self.cuts) and any(source.host in a and target.host in b for a, b in self.cuts)

    def slowness(self, source: Physical, target: Physical) -> Slowness | None:
        """Return how slow the route between two hosts is in this direction; None when it is not."""
        found = [slowness for a, b, slowness in self.slow if source.host in a and target.host in b]
        return found[-1] if found else None

    def draw_latency(self) -> float:
        """Return how long the next bytes are on their way where nothing is slow."""
        return self.latency.draw(self._rng)
