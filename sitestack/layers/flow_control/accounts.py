"""The accounts of flow control: what was sent and acknowledged, what was consumed and returned. All are totals of one view."""

from __future__ import annotations

from collections import deque

from sitestack.layers.flow_control.headers import Mark
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId

#: What a batch costs besides its body, so that many small ones are not free.
FRAME_BYTES = 128
#: The largest distance between two marks: credit that comes in larger lumps would leave room unused in a large window.
MARK_BYTES_MAX = 256 * 1024


def cost(frame: Frame) -> int:
    """What a frame counts in bytes. Without a batch it is free."""
    return 0 if frame.batch is None else FRAME_BYTES + len(frame.batch.body)


class Outlet:
    """What goes to one receiver, or to all: passes while it is less than a window ahead, and waits in order beyond.

    Marks are at most a quarter of the window apart. So when all of them are acknowledged there is credit, and a sender that
    has none has asked for some, whatever the windows of the others are.

    What is out of band waits for credit like the rest, and in front of it.
    """

    __slots__ = ("_mark_bytes", "_window_bytes", "acknowledged", "marked", "queue", "queued_bytes", "sent", "urgent")

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._mark_bytes = max(1, min(window_bytes // 4, MARK_BYTES_MAX))
        #: Bounded by the layer, over all outlets.
        self.queue: deque[Frame] = deque()
        self.queued_bytes = 0
        #: How many frames in front are out of band.
        self.urgent = 0
        self.start_view()

    def start_view(self) -> None:
        """All totals begin at zero; what waits goes on waiting, and is not counted yet."""
        self.sent = 0
        #: The last total that was put on a frame.
        self.marked = 0
        self.acknowledged = 0

    @property
    def ahead(self) -> int:
        """Bytes that are sent and not acknowledged."""
        return self.sent - self.acknowledged

    @property
    def awaited(self) -> int:
        """Bytes that are marked and not acknowledged: at rest there are none, or credit was lost."""
        return max(0, self.marked - self.acknowledged)

    def has_credit(self, frame: Frame) -> bool:
        """Whether this frame may go. One that follows nothing always may, however large it is."""
        return frame.batch is None or self.sent - self.acknowledged < self._window_bytes

    def charge(self, frame: Frame, view: ViewId) -> Frame:
        """Count a frame as sent; the answer is what to send, with a mark if it is time for one."""
        self.sent += cost(frame)
        if self.sent - self.marked < self._mark_bytes:
            return frame
        self.marked = self.sent
        return frame.push(Mark(view, self.sent))

    def acknowledge(self, total_bytes: int) -> None:
        """Never down, and never beyond what was sent: nobody can open the window wider than it is."""
        self.acknowledged = max(self.acknowledged, min(total_bytes, self.sent))

    def settle(self) -> None:
        """Nothing is on its way any more."""
        self.acknowledged = self.marked = self.sent

    def put(self, frame: Frame) -> None:
        """Let it wait."""
        if frame.is_out_of_band:
            self.queue.insert(self.urgent, frame)
            self.urgent += 1
        else:
            self.queue.append(frame)
        self.queued_bytes += cost(frame)

    def take(self) -> Frame:
        """The first one waits no longer."""
        frame = self.queue.popleft()
        self.urgent -= self.urgent > 0
        self.queued_bytes -= cost(frame)
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

    def __init__(self, window_bytes: int) -> None:
        self.unicasts = Outlet(window_bytes)
        self._start_totals()

    def start_view(self) -> None:
        """All totals are per view."""
        self.unicasts.start_view()
        self._start_totals()

    def _start_totals(self) -> None:
        self.cast_acknowledged = 0
        #: The last mark that was consumed, and the last that its sender was told of.
        self.cast_consumed = 0
        self.cast_returned = 0
        self.unicast_consumed = 0
        self.unicast_returned = 0
