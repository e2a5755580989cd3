"""Incomplete frames: the receiving side of fragmentation. A helper of it, not a layer.

The pieces of one stream of one sender arrive reliably and in order, so each stream has at most one incomplete frame, and
putting it together is appending.
"""

from __future__ import annotations

from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.model.address import Address
from sitestack.model.level import Level

#: A sender, and True for its multicast stream or False for its unicasts.
Key = tuple[Address, bool]


class _Partial:
    """The pieces of one frame so far."""

    __slots__ = ("count", "heard_at", "id", "pieces", "size")

    def __init__(self, header: FragmentHeader, now: float) -> None:
        self.heard_at = now
        self.id = header.id
        self.count = header.count
        self.pieces: list[bytes] = []
        self.size = 0


#: Seconds without a piece after which an incomplete frame is discarded first, as one that a dead sender has left behind.
STALE_S = 5.0


class Partials:
    """Incomplete frames in the order of their last pieces.

    At the bounds the one that waits longest is discarded, if it waits for long; otherwise the largest, so that one sender's
    flood discards nothing of others.
    """

    def __init__(self, partials_max: int, bytes_max: int, frame_bytes_max: int, idle_s: float) -> None:
        """Bounds: the number of frames, the bytes of all and of each, and the seconds a unicast waits for its next piece."""
        self._partials_max = partials_max
        self._frame_bytes_max = frame_bytes_max
        self._idle_s = idle_s
        self._partials: dict[Key, _Partial] = {}
        self.bytes = Level(bytes_max)

    def __len__(self) -> int:
        return len(self._partials)

    def append(self, key: Key, header: FragmentHeader, now: float) -> tuple[list[bytes] | None, int]:
        """Add a piece. Returns all pieces of the frame if this is its last (or None), and how many pieces were given up."""
        partial = self._partials.pop(key, None)
        dropped = 0
        if header.index == 0:
            dropped = 0 if partial is None else self._forget(partial)
            partial = _Partial(header, now)
        if partial is None or self._contradicts(partial, header):
            return None, dropped + (1 if partial is None else 1 + self._forget(partial))
        self._partials[key] = partial  # the key moves to the end
        partial.heard_at = now
        partial.pieces.append(header.data)
        partial.size += len(header.data)
        self.bytes.add(len(header.data))
        if len(partial.pieces) == partial.count:
            self._discard(key)
            return partial.pieces, dropped
        return None, dropped + self._keep_bounds(now)

    def _contradicts(self, partial: _Partial, header: FragmentHeader) -> bool:
        """Whether this piece does not continue the frame, or no honest sender would send it."""
        if (header.id, header.index, header.count) != (partial.id, len(partial.pieces), partial.count):
            return True
        return header.count < 2 or not header.data or partial.size + len(header.data) > self._frame_bytes_max

    def _keep_bounds(self, now: float) -> int:
        """Discard frames until the rest is within the bounds. Returns how many pieces they had."""
        dropped = 0
        while self.bytes.is_over or len(self._partials) > self._partials_max:
            victim = next(iter(self._partials))
            if self.bytes.is_over and now < self._partials[victim].heard_at + STALE_S:
                victim = max(self._partials, key=lambda key: self._partials[key].size)
            dropped += self._discard(victim)
        return dropped

    def _discard(self, key: Key) -> int:
        return self._forget(self._partials.pop(key))

    def _forget(self, partial: _Partial) -> int:
        """Account for a frame that is no longer held; returns how many pieces it had."""
        self.bytes.now -= partial.size
        return len(partial.pieces)

    def discard_multicasts(self) -> None:
        """Discard incomplete multicasts: all multicast streams begin anew with a view."""
        for key in [key for key in self._partials if key[1]]:
            self._discard(key)

    def expire(self, now: float) -> int:
        """Discard the unicasts whose last piece came too long ago; returns how many pieces they had."""
        dropped = 0
        for key, partial in list(self._partials.items()):
            if now < partial.heard_at + self._idle_s:
                break
            if not key[1]:
                dropped += self._discard(key)
        return dropped

    def deadline(self) -> float | None:
        """When the unicast that waits longest is discarded."""
        for (_, is_multicast), partial in self._partials.items():
            if not is_multicast:
                return partial.heard_at + self._idle_s
        return None
