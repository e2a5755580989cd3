"""Held frames of several senders, within bounds that one sender alone cannot use up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from operator import itemgetter

from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level


class FairHold:
    """Holds frames in the order of their arrival.

    At a bound, a sender below its share evicts the last frame of the largest holder; any other
    loses its own.
    """

    def __init__(self, count_max: int, bytes_max: int, size: Callable[[Frame], int]) -> None:
        self.count, self.bytes = Level(count_max), Level(bytes_max)
        self._count_max, self._bytes_max, self._size = count_max, bytes_max, size
        self._numbers = count()
        #: Sender -> number of arrival -> frame; none is empty.
        self._frames: dict[Address, dict[int, Frame]] = {}
        self._bytes_of: dict[Address, int] = {}

    def __len__(self) -> int:
        return self.count.now

    def hold(self, frame: Frame) -> int:
        """Hold a frame; return the number of frames evicted for it, itself included."""
        self._frames.setdefault(frame.source, {})[next(self._numbers)] = frame
        self._count(frame, 1)
        dropped = 0
        while self.count.is_over or self.bytes.is_over:
            all_of_it = max(self.count.now / self._count_max, self.bytes.now / self._bytes_max)
            has_share = frame.source in self._frames and self._share(frame.source) * len(self._frames) >= all_of_it
            self._give_up_last(frame.source if has_share else max(self._frames, key=self._share))
            dropped += 1
        return dropped

    def take_all(self) -> list[Frame]:
        frames = sorted([each for ours in self._frames.values() for each in ours.items()], key=itemgetter(0))
        self._frames.clear()
        self._bytes_of.clear()
        self.count.now = self.bytes.now = 0
        return [frame for _, frame in frames]

    def _share(self, sender: Address) -> float:
        return max(len(self._frames[sender]) / self._count_max, self._bytes_of[sender] / self._bytes_max)

    def _give_up_last(self, sender: Address) -> None:
        ours = self._frames[sender]
        self._count(ours.popitem()[1], -1)
        if not ours:
            del self._frames[sender], self._bytes_of[sender]

    def _count(self, frame: Frame, sign: int) -> None:
        size = sign * self._size(frame)
        self.count.add(sign)
        self.bytes.add(size)
        self._bytes_of[frame.source] = self._bytes_of.get(frame.source, 0) + size
