"""Frames of views that this member has not installed yet."""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.view import ViewId
from sitestack.wire.size import frame_bytes


class _Held:
    __slots__ = ("bytes", "count", "views")

    def __init__(self) -> None:
        self.views: dict[ViewId, list[Frame]] = {}
        self.count = self.bytes = 0


class LaterViews:
    """Holds frames by view, within bounds. At a bound the largest holder loses those of its earliest view."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._senders: dict[Address, _Held] = {}
        self._count_max, self._bytes_max = count_max, bytes_max
        why = "a joiner hears views that it never becomes a member of; they go when a later one is installed"
        self.count = Level(count_max, why)
        self.bytes = Level(bytes_max, why)

    def hold(self, view: ViewId, frame: Frame) -> int:
        """Hold a frame of a later view; return the number of frames evicted, itself included."""
        self._senders.setdefault(frame.source, _Held()).views.setdefault(view, []).append(frame)
        self._count(frame, 1)
        evicted = 0
        while self.count.is_over or self.bytes.is_over:
            sender = self._who_gives_way(frame.source)
            earliest = min(self._senders[sender].views)
            if sender == frame.source and earliest == view:
                self._count(self._senders[sender].views[view].pop(), -1)
                if not self._senders[sender].views[view]:
                    self._clear(sender, view)
                return evicted + 1
            evicted += len(self._discard(sender, earliest))
        return evicted

    def release(self, view: ViewId) -> tuple[list[Frame], int]:
        """Return the frames of the installed view, and the number of discarded earlier frames."""
        frames: list[Frame] = []
        skipped = 0
        for sender, held in list(self._senders.items()):
            for each in [each for each in held.views if each <= view]:
                discarded = self._discard(sender, each)
                if each == view:
                    frames += discarded
                else:
                    skipped += len(discarded)
        return frames, skipped

    def _who_gives_way(self, sender: Address) -> Address:
        all_of_it = max(self.count.now / self._count_max, self.bytes.now / self._bytes_max)
        if sender in self._senders and self._share(sender) * len(self._senders) >= all_of_it:
            return sender
        return max(self._senders, key=self._share)

    def _share(self, sender: Address) -> float:
        """Return the part of the tighter bound that a sender uses."""
        held = self._senders[sender]
        return max(held.count / self._count_max, held.bytes / self._bytes_max)

    def _discard(self, sender: Address, view: ViewId) -> list[Frame]:
        frames = self._senders[sender].views[view]
        for frame in frames:
            self._count(frame, -1)
        self._clear(sender, view)
        return frames

    def _clear(self, sender: Address, view: ViewId) -> None:
        del self._senders[sender].views[view]
        if not self._senders[sender].views:
            del self._senders[sender]

    def _count(self, frame: Frame, sign: int) -> None:
        held, size = self._senders[frame.source], sign * frame_bytes(frame)
        held.count += sign
        held.bytes += size
        self.count.add(sign)
        self.bytes.add(size)
