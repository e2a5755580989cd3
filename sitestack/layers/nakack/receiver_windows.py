"""All multicast streams of one view at one member. Between a block and the next view only frames up to
the cut are delivered.
"""

from __future__ import annotations

from sitestack.layers.nakack.window import Window
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.wire.size import frame_bytes


class ReceiverWindows:
    """One window for each member of the view; in a flush also the cut."""

    def __init__(
        self, members: tuple[Address, ...], count_max: int, ahead_bytes_max: int, retained: Level, blocked: bool = False
    ) -> None:
        """`retained` counts the bytes of all windows, from view to view."""
        self.windows = {member: Window(count_max, ahead_bytes_max) for member in members}
        self.blocked = blocked
        self._retained = retained
        retained.now = 0
        #: The last number to deliver of each stream that is not at the cut yet; None without a cut.
        self.cut: dict[Address, int] | None = None

    def keep(self, frame: Frame) -> str | None:
        """Hold a frame of a member's stream. Return the reason for a refusal, or None."""
        size = frame_bytes(frame)
        refused = self.windows[frame.source].add(frame, size)
        if refused is None:
            self._retained.add(size)
        return refused

    def append(self, frame: Frame) -> None:
        """Hold a frame of the own stream beyond any bound."""
        window = self.windows[frame.source]
        window.admit(frame.seqno)
        refused = self.keep(frame)
        assert refused is None
        window.deliver_to(frame.seqno)

    def deliver(self, owner: Address) -> list[Frame]:
        window = self.windows[owner]
        if not self.blocked:
            return window.deliver_to(window.contiguous)
        if self.cut is None or owner not in self.cut:
            return []
        frames = window.deliver_to(self.cut[owner])
        if window.delivered >= self.cut[owner]:
            del self.cut[owner]
        return frames

    def wanted(self, owner: Address) -> int:
        return self.windows[owner].highest if self.cut is None else self.cut.get(owner, 0)

    def block(self) -> None:
        """Stop delivering. The cut of an earlier flush is void."""
        self.blocked = True
        self.cut = None

    def reach(self, cut: dict[Address, int]) -> list[Address]:
        """Deliver up to the cut; return the streams that have not reached it yet. Strangers' streams are skipped."""
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
        return self.cut is not None and not self.cut

    def digest(self) -> dict[Address, int]:
        return {owner: window.contiguous for owner, window in self.windows.items()}

    def purge(self, vector: dict[Address, int]) -> None:
        for owner, stable in vector.items():
            if owner in self.windows:
                self._retained.now -= self.windows[owner].purge(stable)
