"""A wire in virtual time: datagrams are lost, doubled, delayed and reordered at random, or one by one by a test's
rule.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from sitestack.model.address import Physical
from sitestack.model.frame import Frame, Header
from sitestack.wire.codec import Codec
from tests.harness.messages import texts_of


@dataclass(frozen=True)
class Faults:
    """Probabilities of what happens to a copy of a datagram. A duplicate comes up to `late_s` seconds later."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: float = 0.001
    spread_s: float = 0.0
    late_s: float = 0.5


class Fate(Enum):
    """The fate of a packet, and its sign in a transcript."""

    PASS = ""
    LOSE = " (lost)"
    #: The packet travels when the test calls `release`.
    DELAY = " (delayed)"


@dataclass(frozen=True)
class Packet:
    """A datagram from a member to a place: None is a multicast, which the wire copies for every place."""

    source: str
    to: Physical | None
    data: bytes
    at_s: float
    codec: Codec = field(repr=False, compare=False)

    @property
    def dest(self) -> str:
        """The member whose default place this is; the test may have put another one there."""
        if self.to is None:
            return ""
        return self.to.host if self.to.port == 2 else self.to.host.upper()

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(self.codec.decode(self.data).frames)

    @property
    def header(self) -> Header:
        """The top header of the only frame."""
        (frame,) = self.frames
        return frame.headers[-1]

    @property
    def text(self) -> str:
        """The texts of the messages in this packet."""
        return " ".join(text for frame in self.frames for text in texts_of(frame))

    @property
    def kinds(self) -> str:
        """The names of the top headers of this packet's frames."""
        return " ".join(type(frame.headers[-1]).__name__ if frame.headers else "data" for frame in self.frames)


Rule = Callable[[Packet], Fate]


def lose(which: Callable[[Packet], bool]) -> Rule:
    """A rule that loses the packets for which `which` holds."""
    return lambda packet: Fate.LOSE if which(packet) else Fate.PASS


def keep(packet: Packet) -> Fate:
    """The rule that leaves every packet to chance."""
    return Fate.PASS


class Wire:
    """The packets under way. A rule decides first on each; random faults apply to the packets that it passes."""

    def __init__(self, rng: random.Random, faults: Faults) -> None:
        self.faults = faults
        self.rule: Rule = keep
        #: Every datagram there was, a multicast once.
        self.sent: list[Packet] = []
        #: The packets that do not travel until they are released.
        self.delayed: list[Packet] = []
        self._held: set[tuple[str, str]] = set()
        self._rng = rng
        self._flying: list[tuple[float, int, Packet]] = []
        self._pushed = 0

    def carry(self, packet: Packet, now: float) -> Fate:
        """Accept one copy, and return its fate."""
        fate = Fate.DELAY if (packet.source, packet.dest) in self._held else self.rule(packet)
        if fate is Fate.DELAY:
            self.delayed.append(packet)
        elif fate is Fate.PASS:
            if self._rng.random() >= self.faults.loss:
                self.push(packet, now)
            if self._rng.random() < self.faults.duplication:
                self.push(packet, now + self._rng.random() * self.faults.late_s)
        return fate

    def push(self, packet: Packet, now: float) -> None:
        """Put a packet on its way, to arrive at this time."""
        self._pushed += 1
        arrival = now + self.faults.delay_s + self._rng.random() * self.faults.spread_s
        heapq.heappush(self._flying, (arrival, self._pushed, packet))

    def hold(self, source: str, dest: str) -> None:
        """Delay all packets of this link from now on."""
        self._held.add((source, dest))

    def release(self, *link: str) -> list[Packet]:
        """Take the delayed packets of this link, or all of them and end the rule; delay nothing more there."""
        self._held -= {(link[0], link[1])} if link else set(self._held)
        self.rule = self.rule if link else keep
        free = [each for each in self.delayed if not link or (each.source, each.dest) == link]
        self.delayed = [each for each in self.delayed if each not in free]
        return free

    def cut(self, name: str) -> None:
        """A member is gone: packets delayed on its links are lost."""
        self._held = {link for link in self._held if name not in link}
        self.delayed = [each for each in self.delayed if name not in (each.source, each.dest)]

    def next_arrival(self) -> float:
        """When the next packet arrives; infinite when there is none."""
        return self._flying[0][0] if self._flying else float("inf")

    def pop(self) -> Packet:
        """The packet that arrives next."""
        return heapq.heappop(self._flying)[2]

    def arrived(self, places: Collection[Physical], now: float) -> list[Packet]:
        """Take the packets that have arrived at these places, in order."""
        here = sorted(each for each in self._flying if each[0] <= now and each[2].to in places)
        self._flying = [each for each in self._flying if each not in here]
        heapq.heapify(self._flying)
        return [packet for _, _, packet in here]
