"""The two sides of retransmission: which member to ask and when, and how much to answer."""

from __future__ import annotations

import random

from sitestack.layers.nakack.window import Window
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.wire.size import frame_bytes

#: Lowest missing numbers that are the head, which blocks delivery of all higher ones.
HEAD_COUNT = 16


class Hole:
    __slots__ = ("ask_at", "contiguous", "turn", "up_to", "wait_s")

    def __init__(self, ask_at: float, up_to: int) -> None:
        self.ask_at = ask_at
        #: The highest number known when `ask_at` was set; higher ones may be merely late.
        self.up_to = up_to
        #: The window's `contiguous` at the last request.
        self.contiguous = -1
        self.turn = 0
        self.wait_s = 0.0


class Holes:
    """The streams with holes, and when to request each: soon at first, then ever less often."""

    def __init__(self, rng: random.Random, delay_s: float, wait_s_max: float) -> None:
        self._rng = rng
        self._delay_s = delay_s
        self._wait_s_max = wait_s_max
        self._gaps: dict[Address, Hole] = {}
        #: The other members, in the order in which they are asked; in a flush, the holder of each
        #: stream up to the cut.
        self._others: tuple[Address, ...] = ()
        self._holders: dict[Address, Address] = {}

    def __contains__(self, owner: Address) -> bool:
        return owner in self._gaps

    def __len__(self) -> int:
        return len(self._gaps)

    def watch(self, owner: Address, contiguous: int, wanted: int, now: float) -> None:
        """Follow a stream whose hole may have opened, shrunk or closed; request it after a short delay."""
        gap = self._gaps.get(owner)
        if contiguous >= wanted:
            self._gaps.pop(owner, None)
        elif gap is None:
            self._gaps[owner] = Hole(now + self.jitter(self._delay_s), wanted)
        elif contiguous > gap.contiguous >= 0:
            gap.ask_at = min(gap.ask_at, now + self.jitter(self._delay_s))

    def urge(self, owner: Address, wanted: int, now: float) -> None:
        """Request a stream up to `wanted` at once: some member holds those numbers."""
        self._gaps[owner] = Hole(now, wanted)

    def enter(self, others: tuple[Address, ...]) -> None:
        self._others = others
        self.clear()

    def clear(self, holders: dict[Address, Address] | None = None) -> None:
        """Forget all holes. From now on `holders` are asked instead of the owners of the streams."""
        self._gaps.clear()
        self._holders = holders or {}

    def due(self, now: float) -> list[tuple[Address, Hole]]:
        return [(owner, gap) for owner, gap in self._gaps.items() if gap.ask_at <= now]

    def deadline(self) -> float | None:
        return min((gap.ask_at for gap in self._gaps.values()), default=None)

    def choose_holders(self, owner: Address, gap: Hole, contiguous: int, now: float) -> list[Address]:
        """Return the member to ask, and perhaps one to ask for the head as well; set the wait for
        their answers.

        A member whose answer advanced the window is asked again. Otherwise the wait doubles, and
        the presumed holder and the others alternate. After two failed rounds, each round asks one
        of either.
        """
        if gap.contiguous < 0 or contiguous > gap.contiguous:
            gap.wait_s = 2 * self._delay_s
        else:
            gap.wait_s = min(2 * gap.wait_s, self._wait_s_max)
            gap.turn += 1
        gap.contiguous = contiguous
        gap.ask_at = now + self.jitter(gap.wait_s)
        first = self._holders.get(owner, owner)
        others = [member for member in self._others if member != first]
        if not others:
            return [first]
        other = others[gap.turn // 2 % len(others)]
        both = [first, other] if gap.turn % 2 == 0 else [other, first]
        return both if gap.wait_s > 4 * self._delay_s else both[:1]

    def postpone(self, gap: Hole, now: float) -> None:
        """Ask later: the old hole is closed, and another one is new."""
        gap.ask_at = now + self.jitter(self._delay_s)

    def jitter(self, delay_s: float) -> float:
        """Vary the delay by a quarter."""
        return delay_s * (0.75 + 0.5 * self._rng.random())


class Answers:
    """Damps answers (C15): in each period a requester gets each frame once, and all together
    `bytes_max` bytes.

    Of several requesters none gets more than an equal share.
    """

    def __init__(self, period_s: float, bytes_max: int, count_max: int) -> None:
        self._period_s = period_s
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._period_end = float("-inf")
        self._bytes = 0
        #: Bytes for each requester of this period, and the requesters of the one before.
        self._bytes_for: dict[Address, int] = {}
        self._before: frozenset[Address] = frozenset()
        #: The (requester, sender, number) answered in this period, bounded by the bytes.
        self._given: set[tuple[Address, Address, int]] = set()

    def choose(self, window: Window, ranges: tuple[tuple[int, int], ...], requester: Address, now: float) -> list[Frame]:
        """Return the held frames that may be sent to the requester now."""
        if now >= self._period_end:
            is_next = now < self._period_end + self._period_s
            self._before = frozenset(self._bytes_for) if is_next else frozenset()
            self._period_end = now + self._period_s
            self._bytes = 0
            self._bytes_for.clear()
            self._given.clear()
        self._bytes_for.setdefault(requester, 0)
        share = self._bytes_max / len(self._before.union(self._bytes_for))
        frames: list[Frame] = []
        left = self._count_max
        for first, last in ranges:
            first, last = max(first, window.stable + 1), min(last, window.highest)
            last = min(last, first + left - 1)
            left -= max(0, last - first + 1)
            for seqno in range(first, last + 1):
                frame = window.frames.get(seqno)
                if frame is not None and self._bytes_for[requester] < share and self._allow(frame, requester):
                    frames.append(frame)
        return frames

    def _allow(self, frame: Frame, requester: Address) -> bool:
        key = (requester, frame.source, frame.seqno)
        if self.exhausted or key in self._given:
            return False
        self._given.add(key)
        self._bytes += frame_bytes(frame)
        self._bytes_for[requester] += frame_bytes(frame)
        return True

    @property
    def exhausted(self) -> bool:
        return self._bytes >= self._bytes_max


class Announcer:
    """Decides when a sender announces the highest number of its stream: after a quiet interval, then
    ever less often while nothing changes.

    If nothing becomes stable for long, it announces to each member by unicast: one that receives no
    multicasts sees no hole.
    """

    def __init__(self, interval_s: float, interval_s_max: float, stuck_s: float) -> None:
        self._interval_s = interval_s
        self._interval_s_max = interval_s_max
        self._stuck_s = stuck_s
        self._wait_s = interval_s
        self._quiet_at: float | None = None
        #: When to announce by unicast: postponed by stability, not by sending.
        self._stuck_at = 0.0

    @property
    def due(self) -> float | None:
        """The time of the next announcement; None for never."""
        return None if self._quiet_at is None else min(self._quiet_at, self._stuck_at)

    def sent(self, now: float) -> bool:
        """Note a multicast; return whether the next announcement may be earlier now."""
        before, self._quiet_at = self._quiet_at, now + self._interval_s
        if before is None:
            self._stuck_at = now + self._stuck_s
        self._wait_s = self._interval_s
        return before is None or self._quiet_at < before

    def advanced(self, now: float) -> bool:
        """Note that a part of the stream became stable; return as `sent` does."""
        self._stuck_at = now + self._stuck_s
        return self.sent(now)

    def said(self, now: float) -> bool:
        """Note an announcement; return whether it goes to each member by unicast."""
        stuck = now >= self._stuck_at
        if stuck:
            self._stuck_at = now + self._stuck_s
        self._wait_s = min(2 * self._wait_s, self._interval_s_max)
        self._quiet_at = now + self._wait_s
        return stuck

    def stop(self) -> None:
        self._quiet_at = None
