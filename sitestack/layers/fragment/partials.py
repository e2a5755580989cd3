"""Incomplete frames: the receiving side of fragmentation. Each stream of a sender has at most one."""

from __future__ import annotations

from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.model.address import Address
from sitestack.model.level import Level

#: A sender, and True for its multicast stream or False for its unicasts.
Key = tuple[Address, bool]


class _Partial:
    __slots__ = ("count", "heard_at", "id", "pieces", "size")

    def __init__(self, header: FragmentHeader, now: float) -> None:
        self.heard_at = now
        self.id = header.id
        self.count = header.count
        self.pieces: list[bytes] = []
        self.size = 0


#: Seconds without a piece after which an incomplete frame is discarded first.
STALE_S = 5.0


class Partials:
    """Incomplete frames in the order of their last pieces.

    Their pieces are acknowledged, so a discarded frame is lost. Frames of members are never
    discarded: each has at most two, and flow control bounds their bytes. Of other processes the
    longest waiting frame is discarded if stale, otherwise the largest.
    """

    def __init__(self, partials_max: int, bytes_max: int, frame_bytes_max: int, idle_s: float) -> None:
        """Bound the frames, the bytes of all and of each, and the seconds between pieces of a unicast."""
        self._partials_max = partials_max
        self._frame_bytes_max = frame_bytes_max
        self._idle_s = idle_s
        self._partials: dict[Key, _Partial] = {}
        self._members: frozenset[Address] = frozenset()
        self.bytes = Level(bytes_max)
        self.member_bytes = Level(None)

    def __len__(self) -> int:
        return len(self._partials)

    def append(self, key: Key, header: FragmentHeader, now: float) -> tuple[list[bytes] | None, int]:
        """Add a piece; return all pieces of a complete frame (or None), and the number of discarded pieces."""
        partial = self._partials.pop(key, None)
        dropped = 0
        if header.index == 0:
            dropped = 0 if partial is None else self._forget(key, partial)
            partial = _Partial(header, now)
        if partial is None or self._contradicts(partial, header):
            return None, dropped + (1 if partial is None else 1 + self._forget(key, partial))
        self._partials[key] = partial
        partial.heard_at = now
        partial.pieces.append(header.data)
        partial.size += len(header.data)
        self._level(key).add(len(header.data))
        if len(partial.pieces) == partial.count:
            self._discard(key)
            return partial.pieces, dropped
        return None, dropped + self._keep_bounds(now)

    def _contradicts(self, partial: _Partial, header: FragmentHeader) -> bool:
        """Return whether this piece does not continue the frame, or no honest sender would send it."""
        if (header.id, header.index, header.count) != (partial.id, len(partial.pieces), partial.count):
            return True
        return header.count < 2 or not header.data or partial.size + len(header.data) > self._frame_bytes_max

    def _keep_bounds(self, now: float) -> int:
        """Discard frames until the rest is within the bounds; return the number of their pieces."""
        dropped = 0
        while (self.bytes.is_over or len(self._partials) > self._partials_max) and (
            outside := [key for key in self._partials if key[0] not in self._members]
        ):
            victim = outside[0]
            if self.bytes.is_over and now < self._partials[victim].heard_at + STALE_S:
                victim = max(outside, key=lambda key: self._partials[key].size)
            dropped += self._discard(victim)
        return dropped

    def _level(self, key: Key) -> Level:
        return self.member_bytes if key[0] in self._members else self.bytes

    def _discard(self, key: Key) -> int:
        return self._forget(key, self._partials.pop(key))

    def _forget(self, key: Key, partial: _Partial) -> int:
        self._level(key).now -= partial.size
        return len(partial.pieces)

    def install_view(self, members: frozenset[Address]) -> None:
        """Discard incomplete multicasts; protect the members' frames."""
        for key in [key for key in self._partials if key[1]]:
            self._discard(key)
        self._members = members
        self.bytes.now = self.member_bytes.now = 0
        for key, partial in self._partials.items():
            self._level(key).add(partial.size)

    def expire(self, now: float) -> int:
        dropped = 0
        for key, partial in list(self._partials.items()):
            if now < partial.heard_at + self._idle_s:
                break
            if not key[1]:
                dropped += self._discard(key)
        return dropped

    def deadline(self) -> float | None:
        for (_, is_multicast), partial in self._partials.items():
            if not is_multicast:
                return partial.heard_at + self._idle_s
        return None
