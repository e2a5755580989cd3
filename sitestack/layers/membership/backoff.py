"""Backoff of failed attempts: each wait before a retry is twice the last one."""

from __future__ import annotations

from collections.abc import Hashable


class Backoff:
    """Waits by attempt. Beyond `keys_max` the oldest failure is forgotten."""

    def __init__(self, first_s: float, wait_s_max: float, keys_max: int) -> None:
        self._first_s = first_s
        self._wait_s_max = wait_s_max
        self._keys_max = keys_max
        #: Attempt -> (length of the wait, its end).
        self._failed: dict[Hashable, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._failed)

    def failed(self, key: Hashable, now: float) -> None:
        """Note a failure.

        If the last wait ended more than `wait_s_max` ago, begin with the first wait again.
        """
        wait_s, until = self._failed.pop(key, (0.0, now))
        again = wait_s > 0.0 and now - until <= self._wait_s_max
        wait_s = min(2 * wait_s, self._wait_s_max) if again else self._first_s
        self._failed[key] = (wait_s, now + wait_s)
        if len(self._failed) > self._keys_max:
            del self._failed[next(iter(self._failed))]

    def waits(self, key: Hashable, now: float) -> bool:
        _, until = self._failed.get(key, (0.0, now))
        return now < until

    def forget(self, key: Hashable) -> None:
        self._failed.pop(key, None)
