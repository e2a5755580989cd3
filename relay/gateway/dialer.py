"""Dialer: which places to call, and when. Any place of a site may be its relay, so all are called.

Each place has its own back-off with jitter; no place of a linked site is called (F23). After a link
ends, pauses begin shorter.
"""

from __future__ import annotations

import random
from collections.abc import Container, Mapping
from dataclasses import dataclass

from relay.gateway.connections import Place

#: Doublings from the pause after a lost link to the usual first pause, `retry_s`.
HASTE = 2


@dataclass(slots=True)
class _Target:
    site: str
    place: Place
    due: float
    failures: int = 0
    underway: bool = False


class Dialer:
    """Calls places. Bound: one attempt at a time per configured place."""

    def __init__(
        self,
        peers: Mapping[str, tuple[Place, ...]],
        retry_s: float,
        retry_s_max: float,
        rng: random.Random,
        offline: Container[str] = (),
    ) -> None:
        """`offline`: sites not to call at present."""
        self._offline = offline
        self._peers = peers
        self._retry_s = retry_s
        self._retry_s_max = retry_s_max
        self._rng = rng
        self._linked: dict[str, None] = {}
        self._targets: dict[tuple[str, Place], _Target] = {}

    def start(self, now: float) -> None:
        self._linked.clear()
        self._targets.clear()
        self.change(now)

    def change(self, now: float) -> None:
        places = [(site, place) for site in sorted(self._peers) for place in self._peers[site]]
        self._targets = {each: self._targets.get(each) or _Target(*each, now) for each in places}

    def stop(self) -> None:
        self._targets.clear()

    def due(self, now: float) -> list[tuple[str, Place]]:
        """Return the sites and places to call now; each call ends with `failed`, even if it connected."""
        calls: list[tuple[str, Place]] = []
        if self._linked.keys() >= self._peers.keys():  # in nearly every turn: then no target waits
            return calls
        for target in self._targets.values():
            if target.due <= now and self._waits(target):
                target.underway = True
                calls.append((target.site, target.place))
        return calls

    def failed(self, site: str, place: Place, now: float) -> None:
        target = self._targets.get((site, place))
        if target is not None:
            wait = min(self._retry_s * 2**target.failures, self._retry_s_max)
            target.failures = min(target.failures + 1, 32)
            target.underway = False
            target.due = now + wait * self._rng.uniform(0.5, 1.5)

    def linked(self, site: str) -> None:
        self._linked[site] = None

    def lost(self, site: str, now: float, hasty: bool = True) -> None:
        """Resume calling a site whose last link has ended.

        `hasty`: begin with short pauses. Otherwise the peer never accepted the link.
        """
        self._linked.pop(site, None)
        for target in self._targets.values():
            if target.site == site and hasty:
                target.failures = -HASTE
                target.due = now + self._retry_s * 2**-HASTE * self._rng.uniform(0.0, 1.0)

    def deadline(self) -> float | None:
        if self._linked.keys() >= self._peers.keys():
            return None
        return min([each.due for each in self._targets.values() if self._waits(each)], default=None)

    def _waits(self, target: _Target) -> bool:
        return not target.underway and target.site not in self._linked and target.site not in self._offline
