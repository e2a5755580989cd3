"""Backoff of failed attempts: each waits twice as long as the last time before it may be made again. A helper of membership."""

from __future__ import annotations

from collections.abc import Hashable


class Backoff:
    """Bounded: with more than `keys_max` attempts the one that failed longest ago is forgotten, and may be made too early."""

    def __init__(self, first_s: float, wait_s_max: float, keys_max: int) -> None:
        self._first_s = first_s
        self._wait_s_max = wait_s_max
        self._keys_max = keys_max
        #: The length of each attempt's present wait, and its end; in the order of failing.
        self._failed: dict[Hashable, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._failed)

    def failed(self, key: Hashable, now: float) -> None:
        """Note one more failure.

        When the last wait ended more than `wait_s_max` ago, the attempt begins with the first wait again.
        """
        wait_s, until = self._failed.pop(key, (0.0, now))
        again = wait_s > 0.0 and now - until <= self._wait_s_max
        wait_s = min(2 * wait_s, self._wait_s_max) if again else self._first_s
        self._failed[key] = (wait_s, now + wait_s)
        if len(self._failed) > self._keys_max:
            del self._failed[next(iter(self._failed))]

    def waits(self, key: Hashable, now: float) -> bool:
        """Whether it is too early for this attempt."""
        _, until = self._failed.get(key, (0.0, now))
        return now < until

    def forget(self, key: Hashable) -> None:
        """Forget the failures of an attempt, so that it may be made at once."""
        self._failed.pop(key, None)
