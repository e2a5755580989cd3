"""Processes with nothing but unicast, over a wire in virtual time that tests can tamper with packet by packet.

There is no membership: a process is known by its address. Every packet is really encoded and parsed, carries one frame, and
leaves a line in the transcript.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from sitestack.layers.unicast import Unicast, UnicastConfig, UnicastStatistics
from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData, UnicastSync
from sitestack.model.address import Address, Physical
from sitestack.model.events import CloseConnection, Event, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Transmit
from sitestack.stack.stack import Stack

#: So small that no two frames are bundled: what happens to a packet happens to one frame.
ONE_FRAME_BYTES = 130


def address_of(name: str) -> Address:
    """A process called A has an address that shows as 41414141."""
    return Address(name.encode() * 16)


class Fate(Enum):
    """What a test does to a packet."""

    PASS = ""
    LOSE = " (lost)"
    #: It travels when the test says `release`.
    DELAY = " (delayed)"
    DUPLICATE = " (twice)"


@dataclass(frozen=True)
class Packet:
    """One datagram with one frame."""

    source: str
    dest: str
    header: Header
    text: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.source} -> {self.dest}: {describe(self.header)}{self.text}"


def describe(header: Header) -> str:
    """A header as it stands in transcripts: conn-id and seqno are written as one number, `7.1`."""
    match header:
        case UnicastData(conn_id, seqno, mid, first):
            return f"{conn_id}.{seqno} mid {mid}{' first' if first else ''} "
        case UnicastSync(conn_id, seqno, mid):
            return f"sync {conn_id}.{seqno} mid {mid}"
        case UnicastAck(conn_id, _, seqno, missing):
            asked = "".join(f" missing {first}-{last}" for first, last in missing)
            return f"ack {conn_id}.{seqno}{asked}"
        case SendFirst(conn_id):
            return f"send-first {conn_id}"
    return type(header).__name__


class Announcer(Layer):
    """Stands for membership, when a test wants views."""

    name = "announcer"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return [Announce(event)] if isinstance(event, ViewInstalled) else [Down(event)]


class Wire(Layer):
    """Stands for the resolver: the physical address of a process is its address in hexadecimal."""

    name = "wire"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        assert isinstance(event, Frame)
        assert isinstance(event.dest, Address)
        return [Transmit(Physical(event.dest.hex(), 1), event)]


class Process:
    """One stack, and what came out of it."""

    def __init__(self, name: str, seed: int, config: UnicastConfig, above: Callable[[Local], list[Layer]]) -> None:
        self.address = address_of(name)
        local = Local("site", self.address, name, random.Random(seed))
        self.unicast = Unicast(local, config)
        layers = [Announcer(), *above(local), self.unicast, Wire()]
        self.stack = Stack(self.address, layers, "site", ONE_FRAME_BYTES)
        self.alive = True
        self.sent = 0
        #: Per source, in order of delivery.
        self.received: dict[str, list[str]] = {}
        self.undeliverable: list[str] = []


class World:
    """Processes and the wire. Without a rule and without faults every packet arrives after a millisecond."""

    def __init__(
        self,
        names: str = "AB",
        seed: int = 0,
        config: UnicastConfig | None = None,
        above: Callable[[Local], list[Layer]] = lambda local: [],
    ) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.loss = self.duplication = self.spread_s = 0.0
        self.rule: Callable[[Packet], Fate] = lambda packet: Fate.PASS
        self.packets: list[Packet] = []
        self.transcript: list[str] = []
        self._delayed: list[Packet] = []
        self._flying: list[tuple[float, int, Packet]] = []
        self._pushed = 0
        config = config or UnicastConfig()
        self.processes = {name: Process(name, seed + i, config, above) for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> Process:
        return self.processes[name]

    # -- what a test does ------------------------------------------------------------------------------------------

    def send(self, source: str, dest: str, *texts: str, scope: Scope = Scope.UNICAST) -> None:
        """Send these messages within one turn."""
        for text in texts:
            self[source].sent += 1
            self[source].stack.down(message(source, dest, self[source].sent, text.encode(), scope), self.now)
        self._turn(source)

    def down(self, name: str, event: Event | Frame) -> None:
        """Hand something to a stack, as one turn."""
        self[name].stack.down(event, self.now)
        self._turn(name)

    def close(self, name: str, peer: str) -> None:
        """Close the connection on this side, without telling the other."""
        self.transcript.append(f"{name} closes its connection to {peer}")
        self.down(name, CloseConnection(address_of(peer)))

    def note(self, text: str) -> None:
        """Put a line of the story into the transcript."""
        self.transcript.append(text)

    def release(self) -> None:
        """Let the delayed packets travel, and tamper no more."""
        self.rule = lambda packet: Fate.PASS
        for packet in self._delayed:
            self.transcript.append(f"{packet} (at last)")
            self._push(packet)
        self._delayed.clear()

    def inject(self, packet: Packet) -> None:
        """Let a packet of the past arrive once more."""
        self.transcript.append(f"{packet} (again)")
        self._push(packet)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        end = self.now + seconds
        while True:
            dues = [(due, name) for name, each in self.processes.items() if (due := each.stack.deadline()) is not None]
            due, waiting = min(dues, default=(float("inf"), ""))
            arrival = self._flying[0][0] if self._flying else float("inf")
            if min(due, arrival) > end:
                break
            self.now = max(self.now, min(due, arrival))
            if arrival <= due:
                self._arrive(heapq.heappop(self._flying)[2])
            else:
                self[waiting].stack.expire(self.now)
                self._turn(waiting)
        self.now = end

    def numbers(self, name: str) -> UnicastStatistics:
        """The statistics of a process."""
        return self[name].unicast.statistics()

    def levels(self, name: str) -> dict[str, Level]:
        """The levels of a process."""
        return self[name].unicast.levels()

    def story(self) -> str:
        """The transcript since the last call."""
        text = "\n".join(self.transcript)
        self.transcript.clear()
        return text

    # -- the wire --------------------------------------------------------------------------------------------------

    def _turn(self, name: str) -> None:
        process = self[name]
        turn = process.stack.flush(self.now)
        for event in turn.events:
            self._collect(process, name, event)
        for to, data in turn.datagrams:
            assert to is not None
            self._tamper(self._packet(name, bytes.fromhex(to.host)[:1].decode(), data))

    def _collect(self, process: Process, name: str, event: Event | Frame) -> None:
        if isinstance(event, Undeliverable):
            process.undeliverable += [text for frame in event.frames for text in texts_of(frame)]
            self.transcript.append(f"{name} gives up {len(event.frames)} to {bytes(event.dest[:1]).decode()}")
        elif isinstance(event, Frame):
            source = bytes(event.source[:1]).decode()
            assert event.headers == ()
            process.received.setdefault(source, []).extend(texts_of(event))
            self.transcript.append(f"{name} delivers {' '.join(texts_of(event))}")

    def _packet(self, source: str, dest: str, data: bytes) -> Packet:
        (frame,) = self[source].stack.codec.decode(data).frames
        return Packet(source, dest, frame.headers[-1], " ".join(texts_of(frame)), data)

    def _tamper(self, packet: Packet) -> None:
        fate = self.rule(packet)
        if self.rng.random() < self.loss:
            fate = Fate.LOSE
        elif self.rng.random() < self.duplication:
            fate = Fate.DUPLICATE
        self.packets.append(packet)
        self.transcript.append(f"{packet}{fate.value}".rstrip())
        if fate is Fate.DELAY:
            self._delayed.append(packet)
        elif fate is not Fate.LOSE:
            self._push(packet)
            if fate is Fate.DUPLICATE:
                self._push(packet)

    def _push(self, packet: Packet) -> None:
        self._pushed += 1
        arrival = self.now + 0.001 + self.rng.random() * self.spread_s
        heapq.heappush(self._flying, (arrival, self._pushed, packet))

    def _arrive(self, packet: Packet) -> None:
        process = self.processes.get(packet.dest)
        if process is not None and process.alive:
            process.stack.receive(packet.data, Physical(address_of(packet.source).hex(), 1), self.now)
            self._turn(packet.dest)


def message(source: str, dest: str, n: int, payload: bytes, scope: Scope = Scope.UNICAST) -> Frame:
    """A unicast as the application hands it down."""
    origin, target = address_of(source), address_of(dest)
    batch = Batch("site", origin, scope, n, 1, pack_body([payload]), target, "site")
    return Frame(origin, target, (), batch)


def texts_of(frame: Frame) -> Iterable[str]:
    """The messages in a frame."""
    return [] if frame.batch is None else [payload.decode() for payload in frame.batch.payloads()]
