"""The provider's side: one snapshot of the application's state, sent piece by piece to other sites.

    taker      StateAsk(snapshot 0, floor)      ---->  provider    GiveSnapshot: a mark in the application's inbox
    provider   StateAnswer(pending)             ---->  taker       ... until its application reaches the mark
    provider   StatePiece(snapshot, 0, contains) ---->  taker
    taker      StateAsk(snapshot, offset) ...   ---->  provider

The snapshot's contents are those of the stream at the mark. A provider has one snapshot at a time
for all takers. It keeps it while any of them asks, over whichever relays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from relay.replica.entries import SiteVector
from relay.replica.site_state import READS_EXTRAS, StateAnswer, StateAsk, StateFrame, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.site_state.config import SiteStateConfig
from relay.site_state.contents import contents_of, from_vectors, lacking, raise_contents, to_vectors
from sitestack.model.address import Address
from sitestack.model.level import Level
from sitestack.model.state_events import Contents, GiveSnapshot, SnapshotGiven

#: Seconds without a request after which a taker is forgotten, and an unused snapshot dropped.
KEPT_S = 45.0
#: Age (s) at which a snapshot yields to a taker that needs a newer one, plus the time of its bytes
#: at this pace. So an endless taker does not block another one for ever.
HELD_S, PACE_BYTES_S = 300.0, 64 * 1024
#: A link proves a request's site alone; another site may name the same member.
Taker: TypeAlias = tuple[str, Address]
#: Maximum takers; beyond, the first to ask of the site with the most no longer keeps the snapshot.
TAKERS_MAX = 1_024


@dataclass(slots=True)
class _Snapshot:
    token: int
    contents: Contents
    #: When it was requested (s).
    made: float
    data: bytes | None = None
    #: How many of its bytes are extras.
    extras_bytes: int = 0
    #: Why the application has provided none.
    refusal: StateRefusal | None = None
    #: Time of each taker's last request, and the requests that wait for the application.
    takers: dict[Taker, float] = field(default_factory=dict)
    waiting: dict[Taker, StateAsk] = field(default_factory=dict)

    def is_kept(self, now: float, besides: Taker) -> bool:
        """Return whether other takers than `besides` may still finish with this snapshot."""
        due = self.made + HELD_S + len(self.data or b"") / PACE_BYTES_S
        return now < due and any(taker != besides for taker in self.takers)


class StateProvider:
    """Provides snapshots. Bound: one of `state_bytes_max`, kept `KEPT_S` after the last request."""

    def __init__(self, site: str, address: Address, config: SiteStateConfig, state: ReplicatedState) -> None:
        self._site = site
        self._me = address
        self._config = config
        self._state = state
        self._tokens = 0
        self._snapshot: _Snapshot | None = None

    def ask(self, ask: StateAsk, now: float) -> tuple[StateFrame | None, GiveSnapshot | None]:
        snapshot, taker = self._snapshot, (ask.site, ask.member)
        if ask.snapshot:
            if snapshot is None or snapshot.token != ask.snapshot:
                return self._refuse(ask, StateRefusal.GONE), None
            return self._give(snapshot, ask, now), None
        floor = from_vectors(ask.floor)
        before = None if snapshot is None else snapshot.refusal
        if snapshot is not None and before is None:
            if not lacking(snapshot.contents, floor):
                return self._give(snapshot, ask, now), None
            if snapshot.is_kept(now, taker):
                return self._refuse(ask, StateRefusal.BUSY), None
        contents = contents_of(self._state, self._me)
        raise_contents(contents, self._state.unknown)
        if lacking(contents, floor):
            return self._refuse(ask, StateRefusal.BEHIND), None
        self._tokens += 1
        self._snapshot = _Snapshot(self._tokens, contents, now, takers={taker: now}, waiting={taker: ask})
        return self._refuse(ask, before or StateRefusal.PENDING), GiveSnapshot(self._tokens)

    def given(self, event: SnapshotGiven) -> list[StateFrame] | None:
        """Store the application's snapshot; return answers to waiting takers, or None for an old token."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.token != event.token:
            return None
        if event.data is None:
            snapshot.refusal = StateRefusal.FAILED
        elif len(event.data) > self._config.transfer.state_bytes_max:
            snapshot.refusal = StateRefusal.TOO_LARGE
        else:
            snapshot.data, snapshot.extras_bytes = event.data, event.extras_bytes
        waiting, snapshot.waiting = snapshot.waiting, {}
        answers = [
            self._give(snapshot, ask, snapshot.takers[taker]) for taker, ask in waiting.items() if taker in snapshot.takers
        ]
        return [answer for answer in answers if answer is not None]

    def withdraw(self) -> None:
        """Cancel a pending snapshot: the state being loaded would exceed the promised contents."""
        if self._snapshot is not None and self._snapshot.data is None:
            self._snapshot = None

    def _give(self, snapshot: _Snapshot, ask: StateAsk, now: float) -> StateFrame | None:
        taker = (ask.site, ask.member)
        snapshot.takers.pop(taker, None)
        snapshot.takers[taker] = now
        if len(snapshot.takers) > TAKERS_MAX:
            [(crowd, _)] = Counter([site for site, _ in snapshot.takers]).most_common(1)
            oldest = next(each for each in snapshot.takers if each[0] == crowd)
            del snapshot.takers[oldest]
            snapshot.waiting.pop(oldest, None)
        data, at = snapshot.data, ask.offset_bytes
        if data is None and snapshot.refusal is None:
            snapshot.waiting[taker] = ask
        if data is None:
            return self._refuse(ask, snapshot.refusal or StateRefusal.PENDING)
        start = 0 if READS_EXTRAS in ask.floor else snapshot.extras_bytes
        total = len(data) - start
        if at == total > 0:  # the taker has the whole state
            del snapshot.takers[taker]
            self._snapshot = snapshot if snapshot.takers else None
            return None
        if not 0 <= at <= total:
            return None
        piece = data[start + at : start + at + self._config.piece_bytes_max]
        contains: dict[str, SiteVector] = {} if at else to_vectors(snapshot.contents)
        return StatePiece(self._site, self._me, ask.site, ask.member, snapshot.token, at, total, piece, contains)

    def _refuse(self, ask: StateAsk, refusal: StateRefusal) -> StateAnswer:
        return StateAnswer(self._site, self._me, ask.site, ask.member, ask.snapshot, refusal, ())

    def expire(self, now: float) -> None:
        """Forget idle takers, and the snapshot after the last of them."""
        snapshot = self._snapshot
        if snapshot is not None:
            snapshot.takers = {taker: asked for taker, asked in snapshot.takers.items() if now < asked + KEPT_S}
            if not snapshot.takers:
                self._snapshot = None

    def deadline(self) -> float | None:
        """Return when `expire` has something to forget; None without a snapshot."""
        snapshot = self._snapshot
        return None if snapshot is None else min(snapshot.takers.values()) + KEPT_S

    def level(self) -> Level:
        data = None if self._snapshot is None else self._snapshot.data
        return Level.of(0 if data is None else len(data), self._config.transfer.state_bytes_max)
