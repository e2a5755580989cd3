"""Bounded places for callers that have shown nothing yet: no proof, no HELLO, no request. At a bound the oldest is evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic, TypeVar

from sitestack.model.level import Level

H = TypeVar("H")


class NoPlace(Exception):
    """No caller can be evicted for a new one. The argument is the reason."""


class Places(Generic[H]):
    """The places at one listener: at most `places_max`, and `host_max` of one host."""

    def __init__(self, places_max: int, host_max: int) -> None:
        self.pushed_out = 0
        #: Connections that ended without a proof, counted by the owner of the listener.
        self.unproven = 0
        self._places_max = places_max
        self._host_max = host_max
        #: Holder -> its host, the oldest first.
        self._unproved: dict[H, str] = {}
        self._kept: dict[H, str] = {}

    def __len__(self) -> int:
        return len(self._unproved) + len(self._kept)

    def __contains__(self, holder: H) -> bool:
        return holder in self._unproved or holder in self._kept

    def __iter__(self) -> Iterator[H]:
        """Iterate over all holders: evictable ones first, the oldest first."""
        return iter([*self._unproved, *self._kept])

    def enter(self, holder: H, host: str = "") -> list[H]:
        """Add a caller. Return the evicted holders. Raises NoPlace if none can be evicted."""
        gave_way: list[H] = []
        if [*self._unproved.values(), *self._kept.values()].count(host) >= self._host_max:
            if not (gave_way := self._push_out_of(host)):
                raise NoPlace(f"there are {self._host_max} connections of {host} already")
        elif len(self) >= self._places_max and not (gave_way := self.push_out()):
            raise NoPlace(f"there are {self._places_max} connections already")
        self._unproved[holder] = host
        return gave_way

    def leave(self, holder: H) -> None:
        """Free the place of a departed or proven caller; does nothing after its eviction."""
        self._unproved.pop(holder, None)
        self._kept.pop(holder, None)

    def keep(self, holder: H) -> None:
        """Exempt this caller from eviction until `release`."""
        if holder in self._unproved:
            self._kept[holder] = self._unproved.pop(holder)

    def release(self, holder: H) -> None:
        """Make this caller evictable again, as the youngest."""
        if holder in self._kept:
            self._unproved[holder] = self._kept.pop(holder)

    def push_out(self) -> list[H]:
        """Evict the oldest caller of the host with the most, and return it, if there is one."""
        [(host, _)] = Counter(self._unproved.values()).most_common(1) or [("", 0)]
        return self._push_out_of(host)

    def _push_out_of(self, host: str) -> list[H]:
        oldest = [holder for holder, each in self._unproved.items() if each == host][:1]
        for each in oldest:
            self.leave(each)
            self.pushed_out += 1
        return oldest

    def level(self) -> Level:
        return Level.of(len(self), self._places_max)
