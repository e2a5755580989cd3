"""Frames of views that this member has not installed yet.

Members install a view at slightly different times, so the first frames of a new view overtake its installation; and a joiner
hears the multicasts of views of which it never becomes a member.
"""

from __future__ import annotations

from sitestack.layers.nakack.window import frame_bytes
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.view import ViewId


class LaterViews:
    """Holds frames by view, within bounds. At a bound the earliest view gives way: its installation is the least likely."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._frames: dict[ViewId, list[Frame]] = {}
        why = "a joiner hears views that it never becomes a member of; they go when a later one is installed"
        self.count = Level(count_max, why)
        self.bytes = Level(bytes_max, why)

    def hold(self, view: ViewId, frame: Frame) -> int:
        """Keep a frame of a later view; returns how many frames were given up for it, the frame itself included."""
        size = frame_bytes(frame)
        evicted = 0
        while not (self.count.fits(1) and self.bytes.fits(size)):
            earliest = min(self._frames, default=view)
            if earliest >= view:
                return evicted + 1
            evicted += len(self._discard(earliest))
        self._frames.setdefault(view, []).append(frame)
        self.count.add(1)
        self.bytes.add(size)
        return evicted

    def release(self, view: ViewId) -> tuple[list[Frame], int]:
        """The frames of the view that is being installed, and how many frames of earlier views were discarded."""
        skipped = sum(len(self._discard(each)) for each in sorted(self._frames) if each < view)
        return self._discard(view), skipped

    def _discard(self, view: ViewId) -> list[Frame]:
        frames = self._frames.pop(view, [])
        self.count.now -= len(frames)
        self.bytes.now -= sum(map(frame_bytes, frames))
        return frames
