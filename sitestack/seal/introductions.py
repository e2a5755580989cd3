"""Introductions: how two processes learn that the other one lives now, before they take anything of it.

An envelope of an unknown sender id may be authentic and still be a copy out of a session that ended long ago. So it is held,
and its sender asked:

    A -> B   a datagram                                       B does not know A, and holds it
    B -> A   introduction: ask b
    A -> B   introduction: answer b, ask a, floor f           A lives: it knows the question. What it has counted below f is
                                                              older than FRESH_S, and is not taken
    B -> A   introduction: answer a, floor g                  A knows B, too

One round trip, once for each pair. An introduction has always the same size, and is sent for no smaller envelope, for none that
does not authenticate, and only so often: a stranger who sends copies from a forged address gets less out than it puts in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.seal.envelope import OVERHEAD_BYTES, SENDER_ID_BYTES

NONCE_BYTES = 8
#: In place of a nonce: nothing is asked, or nothing is answered.
NO_NONCE = bytes(NONCE_BYTES)
_BODY = Struct(f">{SENDER_ID_BYTES}s{NONCE_BYTES}s{NONCE_BYTES}sQ")
#: Bytes of a sealed introduction.
INTRODUCTION_BYTES = _BODY.size + OVERHEAD_BYTES
#: Senders that are being asked at a time; beyond, what is held of the one first heard of is dropped, and it is asked anew.
STRANGERS_MAX = 256
#: Datagrams and bytes that are held of all of them together; beyond, a datagram is dropped.
HELD_DATAGRAMS_MAX = 4_096
HELD_BYTES_MAX = 4 << 20
#: Seconds after which a stranger is asked again, if more is heard of it.
ASK_INTERVAL_S = 0.1
#: Introductions that are sent in a second at most.
INTRODUCTIONS_PER_S = 2_000


@dataclass(frozen=True, slots=True)
class Introduction:
    """What one process says to another about itself."""

    #: Who is meant: introductions are for nobody else.
    to: bytes
    ask: bytes
    answer: bytes
    #: The sender has used the counters below this more than FRESH_S ago.
    floor: int

    def pack(self) -> bytes:
        """The bytes that are sealed."""
        return _BODY.pack(self.to, self.ask, self.answer, self.floor)

    @classmethod
    def parse(cls, body: bytes) -> Introduction | None:
        """The introduction in these bytes; None for another size. The bytes were authenticated before."""
        return cls(*_BODY.unpack(body)) if len(body) == _BODY.size else None


@dataclass(frozen=True, slots=True)
class Held:
    """A datagram of somebody who has not been introduced yet."""

    counter: int
    data: bytes
    source: Physical


@dataclass(slots=True)
class _Stranger:
    nonce: bytes
    asked_at: float
    held: list[Held] = field(default_factory=list)


class Strangers:
    """The senders that are being asked who they are, and what is held of them."""

    def __init__(self, draw_nonce: Callable[[], bytes]) -> None:
        self._draw_nonce = draw_nonce
        #: In the order in which they were first heard of.
        self._strangers: dict[bytes, _Stranger] = {}
        self._datagrams, self._bytes = Level(HELD_DATAGRAMS_MAX), Level(HELD_BYTES_MAX)

    def next_nonce(self, sender_id: bytes, now: float) -> bytes | None:
        """The nonce to ask this stranger with; None when it was asked just now."""
        stranger = self._strangers.get(sender_id)
        if stranger is None:
            self._strangers[sender_id] = stranger = _Stranger(self._draw_nonce(), now)
            return stranger.nonce
        if now < stranger.asked_at + ASK_INTERVAL_S:
            return None
        stranger.asked_at = now
        return stranger.nonce

    def make_room(self) -> int:
        """Forget whoever is too many. Returns how many datagrams are lost with them."""
        lost = 0
        while len(self._strangers) > STRANGERS_MAX:
            lost += len(self._forget(next(iter(self._strangers))))
        return lost

    def hold(self, sender_id: bytes, held: Held) -> bool:
        """Keep a datagram until its sender is introduced; False when there is no room."""
        stranger = self._strangers.get(sender_id)
        if stranger is None or not self._datagrams.fits(1) or not self._bytes.fits(len(held.data)):
            return False
        stranger.held.append(held)
        self._datagrams.add(1)
        self._bytes.add(len(held.data))
        return True

    def is_answer(self, sender_id: bytes, nonce: bytes) -> bool:
        """Whether this stranger was asked with this nonce."""
        stranger = self._strangers.get(sender_id)
        return stranger is not None and stranger.nonce == nonce

    def release(self, sender_id: bytes) -> list[Held]:
        """What was held of somebody who is no stranger any more."""
        return self._forget(sender_id)

    def clear(self) -> int:
        """Forget all. Returns how many datagrams are lost with them."""
        return sum(len(self._forget(each)) for each in list(self._strangers))

    def _forget(self, sender_id: bytes) -> list[Held]:
        held = self._strangers.pop(sender_id).held
        self._datagrams.now -= len(held)
        self._bytes.now -= sum(len(each.data) for each in held)
        return held

    def levels(self) -> dict[str, Level]:
        """Strangers stay until others take their places: one that never answers may be a copy of what was said long ago."""
        why = "authentic datagrams whose sender has not shown that it lives"
        held = Level.of(self._datagrams.now, HELD_DATAGRAMS_MAX, why, self._datagrams.high)
        held_bytes = Level.of(self._bytes.now, HELD_BYTES_MAX, why, self._bytes.high)
        strangers = Level.of(len(self._strangers), STRANGERS_MAX, why)
        return {"strangers": strangers, "held_datagrams": held, "held_bytes": held_bytes}
