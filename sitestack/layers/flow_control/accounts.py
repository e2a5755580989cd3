"""The accounts of flow control: what was sent and acknowledged, what was consumed and returned. All are totals from zero."""

from __future__ import annotations

from collections import deque

from sitestack.model.frame import Frame

#: What a batch costs besides its body, so that many small ones are not free.
FRAME_BYTES = 128


def cost(frame: Frame) -> int:
    """What a frame counts in bytes: the same at its sender and at its receivers. Without a batch it is free."""
    return 0 if frame.batch is None else FRAME_BYTES + len(frame.batch.body)


class Outlet:
    """What goes to one receiver, or to all: passes while it is less than a window ahead, and waits in order beyond.

    What is out of band waits for credit like the rest, and in front of it.
    """

    __slots__ = ("acknowledged", "queue", "queued_bytes", "sent", "urgent")

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        #: Bounded by the layer, over all outlets.
        self.queue: deque[Frame] = deque()
        self.queued_bytes = 0
        #: How many frames in front are out of band.
        self.urgent = 0

    @property
    def ahead(self) -> int:
        """Bytes that are sent and not acknowledged."""
        return self.sent - self.acknowledged

    def has_credit(self, frame: Frame, window_bytes: int) -> bool:
        """Whether this frame may go. One that follows nothing always may, however large it is."""
        return frame.batch is None or self.sent - self.acknowledged < window_bytes

    def put(self, frame: Frame) -> None:
        """Let it wait."""
        if frame.is_out_of_band:
            self.queue.insert(self.urgent, frame)
            self.urgent += 1
        else:
            self.queue.append(frame)
        self.queued_bytes += cost(frame)

    def take(self) -> Frame:
        """The first one is sent."""
        frame = self.queue.popleft()
        self.urgent -= self.urgent > 0
        size = cost(frame)
        self.queued_bytes -= size
        self.sent += size
        return frame

    def clear(self) -> list[Frame]:
        """Nothing waits any more; what did is returned."""
        frames = list(self.queue)
        self.queue.clear()
        self.queued_bytes = self.urgent = 0
        return frames


class Account:
    """The accounts with one member, both ways."""

    __slots__ = ("cast_acknowledged", "cast_consumed", "cast_returned", "unicast_consumed", "unicast_returned", "unicasts")

    def __init__(self) -> None:
        self.unicasts = Outlet()
        self.unicast_consumed = 0
        self.unicast_returned = 0
        self.start_view()

    def start_view(self) -> None:
        """The totals of multicasts are per view."""
        self.cast_acknowledged = 0
        self.cast_consumed = 0
        self.cast_returned = 0
