"""Processes with a seal each, a common clock, and an observer without a key."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sitestack.model.address import Physical
from sitestack.seal.introductions import NONCE_BYTES
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal

KEY, OTHER_KEY = bytes(range(32)), bytes(range(100, 132))
#: As small as a heartbeat is.
HELLO = b"hello, this is not a very large datagram"


class Party:
    """One process, with its opened datagrams in order, and the number of its answers."""

    def __init__(self, world: World, name: str, ring: KeyRing, cluster: str) -> None:
        self.place = Physical(name, 1)
        self.world = world
        self.seal = Seal(cluster, ring, world.rng.randbytes(16), lambda: world.rng.randbytes(NONCE_BYTES), world.now)
        self.heard: list[bytes] = []
        self.drops: dict[str, int] = {}
        self.answered_bytes = 0

    def say(self, data: bytes) -> bytes:
        """Seal a datagram without delivering it."""
        return self.seal.seal(data, self.world.now)

    def hear(self, sealed: bytes, source: Physical, *, introductions: bool = True) -> None:
        """Deliver a datagram. With `introductions` the answers are delivered too, and the answers to these."""
        opened = self.seal.open([(sealed, source)], self.world.now)
        self.heard += [data for data, _ in opened.datagrams]
        for reason, count in opened.drops.items():
            self.drops[reason] = self.drops.get(reason, 0) + count
        for to, answer in opened.answers:
            self.answered_bytes += len(answer)
            self.world.seen.append(answer)
            if introductions and to in self.world.parties:
                self.world.parties[to].hear(answer, self.place)


class World:
    """The processes by their places."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        self.now = 1000.0
        self.parties: dict[Physical, Party] = {}
        #: All introductions.
        self.seen: list[bytes] = []

    def start(self, name: str, ring: KeyRing | None = None, cluster: str = "NYC") -> Party:
        """A process starts, or starts anew, at this place."""
        party = Party(self, name, ring or KeyRing.of(KEY), cluster)
        self.parties[party.place] = party
        return party

    def acquainted(self, names: Sequence[str] = ("a", "b")) -> list[Party]:
        """Processes that have heard each other."""
        parties = [self.start(name) for name in names]
        for one in parties:
            for other in parties:
                if one is not other:
                    other.hear(one.say(HELLO), one.place)
        for party in parties:
            party.heard.clear()
        return parties
