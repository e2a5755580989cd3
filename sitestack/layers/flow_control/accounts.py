"""The accounts of flow control, in bytes since the view began."""

from __future__ import annotations

from collections import deque

from sitestack.layers.flow_control.headers import Mark
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId

#: Bytes that a batch costs besides its body.
FRAME_BYTES = 128
#: Maximum bytes between two marks.
MARK_BYTES_MAX = 256 * 1024


def cost(frame: Frame) -> int:
    """Return the bytes that a frame counts; without a batch it is free."""
    return 0 if frame.batch is None else FRAME_BYTES + len(frame.batch.body)


class Outlet:
    """The frames to one receiver or to all: less than a window is unacknowledged, more queue in order.
    Of frames larger than the window two are unacknowledged.

    Marks are at most a quarter of the window apart, so a sender without credit has a mark under
    way. Out-of-band frames queue first.
    """

    __slots__ = ("_mark_bytes", "_window_bytes", "acknowledged", "marked", "queue", "queued_bytes", "sent", "urgent")

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._mark_bytes = max(1, min(window_bytes // 4, MARK_BYTES_MAX))
        #: Bounded by the layer, over all outlets.
        self.queue: deque[Frame] = deque()
        self.queued_bytes = 0
        #: Out-of-band frames in front of the queue.
        self.urgent = 0
        self.start_view()

    def start_view(self) -> None:
        """Begin all totals at zero; queued frames are counted when they are sent."""
        self.sent = 0
        #: The last total that was put on a frame, as a mark.
        self.marked = 0
        self.acknowledged = 0

    @property
    def ahead(self) -> int:
        return self.sent - self.acknowledged

    @property
    def awaited(self) -> int:
        """Bytes marked and not acknowledged; at rest none, unless credit was lost."""
        return max(0, self.marked - self.acknowledged)

    def has_credit(self, frame: Frame) -> bool:
        if frame.batch is None:
            return True
        window, size = self._window_bytes, FRAME_BYTES + len(frame.batch.body)
        return self.sent - self.acknowledged < (window if size <= window else 2 * size)

    def is_usual(self, size: int) -> bool:
        sent = self.sent
        has_credit = sent - self.acknowledged < self._window_bytes
        return has_credit and not self.queue and sent + FRAME_BYTES + size - self.marked < self._mark_bytes

    def count(self, size: int) -> None:
        self.sent += FRAME_BYTES + size

    def charge(self, frame: Frame, view: ViewId) -> Frame:
        """Count a frame as sent; return it, with a mark if one is due."""
        if frame.batch is not None:
            self.sent += FRAME_BYTES + len(frame.batch.body)
        if self.sent - self.marked < self._mark_bytes:
            return frame
        self.marked = self.sent
        return frame.push(Mark(view, self.sent))

    def acknowledge(self, total_bytes: int) -> None:
        """Apply a returned total, which never falls or exceeds the sent bytes."""
        self.acknowledged = max(self.acknowledged, min(total_bytes, self.sent))

    def settle(self) -> None:
        self.acknowledged = self.marked = self.sent

    def put(self, frame: Frame) -> None:
        if frame.is_out_of_band:
            self.queue.insert(self.urgent, frame)
            self.urgent += 1
        else:
            self.queue.append(frame)
        self.queued_bytes += cost(frame)

    def pop_frame(self) -> Frame:
        frame = self.queue.popleft()
        self.urgent -= self.urgent > 0
        self.queued_bytes -= cost(frame)
        return frame

    def clear(self) -> list[Frame]:
        frames = list(self.queue)
        self.queue.clear()
        self.queued_bytes = self.urgent = 0
        return frames


class Account:
    """The accounts with one member, in both directions."""

    __slots__ = ("cast_acknowledged", "cast_consumed", "cast_returned", "unicast_consumed", "unicast_returned", "unicasts")

    def __init__(self, window_bytes: int) -> None:
        self.unicasts = Outlet(window_bytes)
        self._start_totals()

    def start_view(self) -> None:
        self.unicasts.start_view()
        self._start_totals()

    def _start_totals(self) -> None:
        self.cast_acknowledged = 0
        #: For multicasts and unicasts: the last mark reached here, and the last returned.
        self.cast_consumed = 0
        self.cast_returned = 0
        self.unicast_consumed = 0
        self.unicast_returned = 0
