"""Introductions: two processes prove that they are alive before they accept each other's datagrams.

An authentic envelope of an unknown sender id may be a copy from an old session. So it is held, and
its sender is asked:

    A -> B   a datagram                                       B does not know A, and holds it
    B -> A   introduction: ask b
    A -> B   introduction: answer b, ask a, floor f           A is alive: it knows b. Its counters below f
                                                              are older than FRESH_S and are rejected
    B -> A   introduction: answer a, floor g                  A knows B, too

All introductions have one size. They are sent only for authentic envelopes that are not smaller, at
a limited rate: a stranger with copies and a forged address gets no amplification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.seal.envelope import OVERHEAD_BYTES, SENDER_ID_BYTES

NONCE_BYTES = 8
#: In place of a nonce: no question, or no answer.
NO_NONCE = bytes(NONCE_BYTES)
_BODY = Struct(f">{SENDER_ID_BYTES}s{NONCE_BYTES}s{NONCE_BYTES}sQ")
INTRODUCTION_BYTES = _BODY.size + OVERHEAD_BYTES
#: Maximum senders being asked. Beyond it the oldest is evicted with its held datagrams, and asked
#: again later.
STRANGERS_MAX = 256
#: Maximum held datagrams and bytes, of all senders together; further datagrams are dropped.
HELD_DATAGRAMS_MAX = 4_096
HELD_BYTES_MAX = 4 << 20
#: Seconds before a stranger is asked again.
ASK_INTERVAL_S = 0.1
#: Seconds for an answer: a delayed one may outlive its sender.
ANSWER_S = 5.0
INTRODUCTIONS_PER_S = 2_000
WHY_HELD = "authentic datagrams whose sender has not shown that it lives"


@dataclass(frozen=True, slots=True)
class Introduction:
    """One process's statement to another about itself."""

    #: The target: others reject the introduction.
    to: bytes
    ask: bytes
    answer: bytes
    #: The sender used the counters below this more than FRESH_S ago.
    floor: int

    def pack(self) -> bytes:
        return _BODY.pack(self.to, self.ask, self.answer, self.floor)

    @classmethod
    def parse(cls, body: bytes) -> Introduction | None:
        """Return the introduction in these authenticated bytes; None for another size."""
        return cls(*_BODY.unpack(body)) if len(body) == _BODY.size else None


@dataclass(frozen=True, slots=True)
class Held:
    counter: int
    data: bytes
    source: Physical


@dataclass(slots=True)
class _Stranger:
    nonce: bytes = b""
    drawn_at: float = float("-inf")
    asked_at: float = float("-inf")
    held: list[Held] = field(default_factory=list)


class Strangers:
    def __init__(self, draw_nonce: Callable[[], bytes]) -> None:
        self._draw_nonce = draw_nonce
        #: In the order of their first datagrams.
        self._strangers: dict[bytes, _Stranger] = {}
        self._datagrams, self._bytes = Level(HELD_DATAGRAMS_MAX, WHY_HELD), Level(HELD_BYTES_MAX, WHY_HELD)

    def next_nonce(self, sender_id: bytes, now: float) -> bytes | None:
        """Return the nonce to ask this stranger with; None if it was asked just now."""
        stranger = self._strangers.setdefault(sender_id, _Stranger())
        if now < stranger.asked_at + ASK_INTERVAL_S:
            return None
        if now >= stranger.drawn_at + ANSWER_S:
            stranger.nonce, stranger.drawn_at = self._draw_nonce(), now
        stranger.asked_at = now
        return stranger.nonce

    def make_room(self) -> int:
        """Evict excess strangers. Return the number of their dropped datagrams."""
        lost = 0
        while len(self._strangers) > STRANGERS_MAX:
            lost += len(self.release(next(iter(self._strangers))))
        return lost

    def hold(self, sender_id: bytes, held: Held) -> bool:
        stranger = self._strangers.get(sender_id)
        if stranger is None or not self._datagrams.fits(1) or not self._bytes.fits(len(held.data)):
            return False
        stranger.held.append(held)
        self._datagrams.add(1)
        self._bytes.add(len(held.data))
        return True

    def is_answer(self, sender_id: bytes, nonce: bytes, now: float) -> bool:
        stranger = self._strangers.get(sender_id)
        return stranger is not None and stranger.nonce == nonce and now < stranger.drawn_at + ANSWER_S

    def clear(self) -> int:
        return sum(len(self.release(each)) for each in list(self._strangers))

    def release(self, sender_id: bytes) -> list[Held]:
        held = self._strangers.pop(sender_id).held
        self._datagrams.now -= len(held)
        self._bytes.now -= sum(len(each.data) for each in held)
        return held

    def levels(self) -> dict[str, Level]:
        """Return the levels. Strangers stay until evicted: a silent one may be a copy from an old session."""
        strangers = Level.of(len(self._strangers), STRANGERS_MAX, WHY_HELD)
        return {"strangers": strangers, "held_datagrams": self._datagrams, "held_bytes": self._bytes}
