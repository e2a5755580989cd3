"""The accounts of flow control, in bytes: sent, acknowledged, consumed and returned since the view
began.
"""

from __future__ import annotations

from collections import deque

from sitestack.layers.flow_control.headers import Mark
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId

#: Bytes that a batch costs besides its body, so that many small ones are not free.
FRAME_BYTES = 128
#: Maximum bytes between two marks: with credit in larger lumps, a part of a large window would stay
#: unused.
MARK_BYTES_MAX = 256 * 1024


def cost(frame: Frame) -> int:
    """Return the bytes that a frame counts; without a batch it is free."""
    return 0 if frame.batch is None else FRAME_BYTES + len(frame.batch.body)


class Outlet:
    """The frames to one receiver or to all: less than a window is unacknowledged, more queue in
    order.

    Marks are at most a quarter of the window apart. So with all marks acknowledged there is credit,
    and a sender without credit has a mark under way. Out-of-band frames queue in front of the
    others.
    """

    __slots__ = ("_mark_bytes", "_window_bytes", "acknowledged", "marked", "queue", "queued_bytes", "sent", "urgent")

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._mark_bytes = max(1, min(window_bytes // 4, MARK_BYTES_MAX))
        #: Frames that wait for credit; bounded by the layer, over all outlets.
        self.queue: deque[Frame] = deque()
        self.queued_bytes = 0
        #: How many frames in front of the queue are out of band.
        self.urgent = 0
        self.start_view()

    def start_view(self) -> None:
        """Begin all totals at zero.

        Queued frames keep waiting, and are counted when they are sent.
        """
        self.sent = 0
        #: The last total that was put on a frame, as a mark.
        self.marked = 0
        self.acknowledged = 0

    @property
    def ahead(self) -> int:
        return self.sent - self.acknowledged

    @property
    def awaited(self) -> int:
        """Bytes that are marked and not acknowledged.

        At rest there are none, unless credit was lost.
        """
        return max(0, self.marked - self.acknowledged)

    def has_credit(self, frame: Frame) -> bool:
        return frame.batch is None or self.sent - self.acknowledged < self._window_bytes

    def is_usual(self, size: int) -> bool:
        """Whether a batch with a body of this size passes at once and without a mark."""
        sent = self.sent
        has_credit = sent - self.acknowledged < self._window_bytes
        return has_credit and not self.queue and sent + FRAME_BYTES + size - self.marked < self._mark_bytes

    def count(self, size: int) -> None:
        self.sent += FRAME_BYTES + size

    def charge(self, frame: Frame, view: ViewId) -> Frame:
        """Count a frame as sent; return the frame to send, with a mark if one is due."""
        self.sent += cost(frame)
        if self.sent - self.marked < self._mark_bytes:
            return frame
        self.marked = self.sent
        return frame.push(Mark(view, self.sent))

    def acknowledge(self, total_bytes: int) -> None:
        """Apply a returned total.

        It never falls or exceeds the sent bytes, so no peer can widen the window.
        """
        self.acknowledged = max(self.acknowledged, min(total_bytes, self.sent))

    def settle(self) -> None:
        """Count all sent bytes as acknowledged, because nothing is under way any more."""
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
        #: For multicasts and unicasts: the last mark of the member reached here, and the last
        #: returned.
        self.cast_consumed = 0
        self.cast_returned = 0
        self.unicast_consumed = 0
        self.unicast_returned = 0
