"""The receive window of NAKACK: a member's frames of one sender's multicast stream in one view.

Four numbers tell its state, each at most the next: `stable` (all members have it, it is forgotten),
`delivered` (passed up), `contiguous` (received without a hole), `highest` (known to exist). Frames
between `stable` and `contiguous` are kept for members that ask for them; frames above are ahead of
a hole.
"""

from __future__ import annotations

from sitestack.model.frame import Frame
from sitestack.wire.size import frame_bytes


class Window:
    """The frames of one stream by number."""

    def __init__(self, count_max: int, ahead_bytes_max: int) -> None:
        """Hold at most `count_max` numbers above `stable`, and `ahead_bytes_max` bytes ahead of a
        hole.

        Bytes without a hole have no bound: a window that refused them could wait for another full
        window, which waits for this one.
        """
        self.frames: dict[int, Frame] = {}
        self.stable = self.delivered = self.contiguous = self.highest = 0
        self.ahead_bytes = 0
        self._count_max = count_max
        self._ahead_bytes_max = ahead_bytes_max
        self._limit = count_max

    def add(self, frame: Frame, size: int) -> str | None:
        """Hold a received frame; return the reason for a refusal, or None."""
        seqno = frame.seqno
        if seqno <= self.contiguous or seqno in self.frames:
            return "nak_duplicate"
        if seqno > self.highest:
            self.expect(seqno)
        if seqno > self._limit:
            return "nak_window"
        if seqno != self.contiguous + 1:
            if self.ahead_bytes + size > self._ahead_bytes_max:
                return "nak_window"
            self.ahead_bytes += size
            self.frames[seqno] = frame
            return None
        self.frames[seqno] = frame
        self.contiguous = seqno
        if seqno < self.highest:
            self._close_hole()
        return None

    def expects(self, seqno: int) -> bool:
        """Return whether this is the next frame, with nothing missing."""
        return seqno == self.contiguous + 1 and self.contiguous == self.highest and seqno <= self._limit

    def _close_hole(self) -> None:
        while (frame := self.frames.get(self.contiguous + 1)) is not None:
            self.contiguous += 1
            self.ahead_bytes -= frame_bytes(frame)

    def expect(self, highest: int) -> None:
        """Note that the stream has numbers up to `highest`, requested within the bound."""
        self.highest = max(self.highest, min(highest, self._limit))

    def admit(self, last: int) -> None:
        """Allow numbers up to `last`: a flush must reach its cut."""
        self._limit = max(self._limit, last)
        self.expect(last)

    def deliver_to(self, last: int) -> list[Frame]:
        """Return the frames to deliver now, in order."""
        first, self.delivered = self.delivered + 1, max(self.delivered, min(last, self.contiguous))
        return [self.frames[seqno] for seqno in range(first, self.delivered + 1)]

    def missing(self, last: int, count_max: int, ranges_max: int) -> tuple[tuple[int, int], ...]:
        """Return the lowest missing numbers up to `last`, as ranges (first, last)."""
        ranges: list[tuple[int, int]] = []
        count = 0
        for seqno in range(self.contiguous + 1, last + 1):
            if seqno in self.frames:
                continue
            if ranges and ranges[-1][1] == seqno - 1:
                ranges[-1] = (ranges[-1][0], seqno)
            elif len(ranges) < ranges_max:
                ranges.append((seqno, seqno))
            else:
                break
            count += 1
            if count == count_max:
                break
        return tuple(ranges)

    def purge(self, stable: int) -> int:
        """Forget stable frames that are delivered here; return their bytes."""
        stable = min(stable, self.delivered)
        freed = 0
        for seqno in range(self.stable + 1, stable + 1):
            freed += frame_bytes(self.frames.pop(seqno))
        self.stable = max(self.stable, stable)
        self._limit = max(self._limit, self.stable + self._count_max)
        return freed
