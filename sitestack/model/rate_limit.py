"""A limit of once per interval and key."""

from __future__ import annotations

from collections.abc import Hashable

from sitestack.model.level import Level


class RateLimit:
    """Keys by the time they were last allowed, at most `keys_max`; beyond, the oldest is forgotten."""

    __slots__ = ("_allowed", "interval_s", "keys_max")

    def __init__(self, interval_s: float, keys_max: int) -> None:
        self.interval_s = interval_s
        self.keys_max = keys_max
        self._allowed: dict[Hashable, float] = {}

    def allow(self, key: Hashable, now: float) -> bool:
        """Return True, and count the key as allowed now, if it was not allowed within the last interval."""
        last = self._allowed.get(key)
        if last is not None and now - last < self.interval_s:
            return False
        self._allowed.pop(key, None)  # moves the key to the end
        self._allowed[key] = now
        if len(self._allowed) > self.keys_max:
            del self._allowed[next(iter(self._allowed))]
        return True

    def level(self, stands: str) -> Level:
        return Level.of(len(self._allowed), self.keys_max, stands)
