"""A limit of once per interval and key: it keeps answers to strangers, questions and reports from becoming storms."""

from __future__ import annotations

from collections.abc import Hashable

from sitestack.model.level import Level


class RateLimit:
    """Bounded: with more than `keys_max` keys the one allowed longest ago is forgotten, and may be allowed too early."""

    __slots__ = ("_allowed", "interval_s", "keys_max")

    def __init__(self, interval_s: float, keys_max: int) -> None:
        self.interval_s = interval_s
        self.keys_max = keys_max
        self._allowed: dict[Hashable, float] = {}

    def allow(self, key: Hashable, now: float) -> bool:
        """True, and counted as allowed now, when this key was not allowed within the last interval."""
        last = self._allowed.get(key)
        if last is not None and now - last < self.interval_s:
            return False
        self._allowed.pop(key, None)  # moves the key to the end, so that the first key is the oldest
        self._allowed[key] = now
        if len(self._allowed) > self.keys_max:
            del self._allowed[next(iter(self._allowed))]
        return True

    def level(self, stands: str) -> Level:
        """The keys that are remembered, and why they stay."""
        return Level.of(len(self._allowed), self.keys_max, stands)
