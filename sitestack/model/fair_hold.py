"""Held frames of several senders, within bounds that one sender alone cannot use up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level


class FairHold:
    """Holds frames in the order of their arrival.

    At a bound, a sender below its share evicts a frame of the largest holder; any other loses one
    of its own: the last one with the lowest key.
    """

    def __init__(self, count_max: int, bytes_max: int, size: Callable[[Frame], int], stands: str = "") -> None:
        self.count, self.bytes = Level(count_max, stands), Level(bytes_max, stands)
        self._count_max, self._bytes_max, self._size = count_max, bytes_max, size
        self._numbers = count()
        #: Sender -> key -> (number of arrival, frame); none is empty.
        self._frames: dict[Address, dict[tuple[int, bytes], list[tuple[int, Frame]]]] = {}
        self._count_of: dict[Address, int] = {}
        self._bytes_of: dict[Address, int] = {}

    def hold(self, frame: Frame, key: tuple[int, bytes] = (0, b"")) -> int:
        """Hold a frame; return the number of frames evicted for it, itself included."""
        self._frames.setdefault(frame.source, {}).setdefault(key, []).append((next(self._numbers), frame))
        self._count(frame, 1)
        dropped = 0
        while self.count.is_over or self.bytes.is_over:
            all_of_it = max(self.count.now / self._count_max, self.bytes.now / self._bytes_max)
            has_share = frame.source in self._frames and self._share(frame.source) * len(self._frames) >= all_of_it
            self._give_up_last(frame.source if has_share else max(self._frames, key=self._share))
            dropped += 1
        return dropped

    def take_all(self) -> list[Frame]:
        frames = sorted([each for ours in self._frames.values() for held in ours.values() for each in held])
        self._frames.clear()
        self._count_of.clear()
        self._bytes_of.clear()
        self.count.now = self.bytes.now = 0
        return [frame for _, frame in frames]

    def _share(self, sender: Address) -> float:
        return max(self._count_of[sender] / self._count_max, self._bytes_of[sender] / self._bytes_max)

    def _give_up_last(self, sender: Address) -> None:
        ours = self._frames[sender]
        lowest = min(ours)
        self._count(ours[lowest].pop()[1], -1)
        if not ours[lowest]:
            del ours[lowest]
        if not ours:
            del self._frames[sender], self._count_of[sender], self._bytes_of[sender]

    def _count(self, frame: Frame, sign: int) -> None:
        size = sign * self._size(frame)
        self.count.add(sign)
        self.bytes.add(size)
        self._count_of[frame.source] = self._count_of.get(frame.source, 0) + sign
        self._bytes_of[frame.source] = self._bytes_of.get(frame.source, 0) + size
