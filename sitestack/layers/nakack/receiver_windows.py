"""All multicast streams of one view at one member: what is held, and what may be delivered now.

Between a block and the next view nothing may be delivered except what a cut says, stream by stream, and not one number more.
"""

from __future__ import annotations

from sitestack.layers.nakack.window import Window, frame_bytes
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level


class ReceiverWindows:
    """One window a member of the view, and the cut while there is one."""

    def __init__(
        self, members: tuple[Address, ...], count_max: int, ahead_bytes_max: int, retained: Level, blocked: bool = False
    ) -> None:
        """`retained` counts the bytes of all windows, from view to view."""
        self.windows = {member: Window(count_max, ahead_bytes_max) for member in members}
        self.blocked = blocked
        self._retained = retained
        retained.now = 0
        #: The streams that are not at the cut yet, and where it is; None as long as there is no cut to reach.
        self.cut: dict[Address, int] | None = None

    def keep(self, frame: Frame) -> str | None:
        """Keep a frame of a member's stream. Answers why not, or None when it was kept."""
        size = frame_bytes(frame)
        refused = self.windows[frame.source].add(frame, size)
        if refused is None:
            self._retained.add(size)
        return refused

    def append(self, frame: Frame) -> None:
        """Keep a frame of one's own, whatever the bound: it counts as delivered."""
        window = self.windows[frame.source]
        window.admit(frame.seqno)
        refused = self.keep(frame)
        assert refused is None
        window.take(frame.seqno)

    def deliver(self, owner: Address) -> list[Frame]:
        """The frames of this stream to hand up now, in order."""
        window = self.windows[owner]
        if not self.blocked:
            return window.take(window.contiguous)
        if self.cut is None or owner not in self.cut:
            return []
        frames = window.take(self.cut[owner])
        if window.delivered >= self.cut[owner]:
            del self.cut[owner]
        return frames

    def wanted(self, owner: Address) -> int:
        """Up to where this stream is wanted now."""
        return self.windows[owner].highest if self.cut is None else self.cut.get(owner, 0)

    def block(self) -> None:
        """Deliver nothing more. A cut that was being reached is void: the next one may be lower."""
        self.blocked = True
        self.cut = None

    def reach(self, cut: dict[Address, int]) -> list[Address]:
        """From now on deliver up to the cut; answers the streams that are not there yet.

        What is said about strangers cannot be reached by anybody; it comes from outside, so it is passed over.
        """
        assert self.blocked, "a cut is reached in a flush only"
        self.cut = {}
        for owner, last in cut.items():
            window = self.windows.get(owner)
            if window is not None and window.delivered < last:
                window.admit(last)
                self.cut[owner] = last
        return list(self.cut)

    @property
    def at_cut(self) -> bool:
        """Everything up to the cut has been delivered."""
        return self.cut is not None and not self.cut

    def digest(self) -> dict[Address, int]:
        """Per stream: everything up to this number is held or was delivered."""
        return {owner: window.contiguous for owner, window in self.windows.items()}

    def purge(self, vector: dict[Address, int]) -> None:
        """Forget what everybody has."""
        for owner, stable in vector.items():
            if owner in self.windows:
                self._retained.now -= self.windows[owner].purge(stable)
