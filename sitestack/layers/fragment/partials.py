"""Frames of which some pieces are here: the receiving side of fragmentation. A helper of it, not a layer.

The pieces of one stream of one sender arrive reliably and in order, so there is at most one such frame in each, and putting it
together is appending.
"""

from __future__ import annotations

from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.model.address import Address
from sitestack.model.level import Level

#: A sender, and whether this is its multicast stream.
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


class Partials:
    """In the order of their last pieces: at the bounds the one that waits longest is discarded."""

    def __init__(self, partials_max: int, bytes_max: int, frame_bytes_max: int, idle_s: float) -> None:
        """So many frames, and so many bytes of all together and of each; a unicast waits so long for its next piece."""
        self._partials_max = partials_max
        self._frame_bytes_max = frame_bytes_max
        self._idle_s = idle_s
        self._partials: dict[Key, _Partial] = {}
        self.bytes = Level(bytes_max)

    def __len__(self) -> int:
        return len(self._partials)

    def append(self, key: Key, header: FragmentHeader, now: float) -> tuple[list[bytes] | None, int]:
        """Take in a piece. Answers all pieces of the frame if this is its last, and how many pieces were given up."""
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
        return None, dropped + self._keep_bounds()

    def _contradicts(self, partial: _Partial, header: FragmentHeader) -> bool:
        """This piece does not continue what is here, or no honest sender would send it."""
        if (header.id, header.index, header.count) != (partial.id, len(partial.pieces), partial.count):
            return True
        return header.count < 2 or not header.data or partial.size + len(header.data) > self._frame_bytes_max

    def _keep_bounds(self) -> int:
        """Discard the frames that wait longest: those of dead senders, if the bounds are what they should be."""
        dropped = 0
        while self.bytes.is_over or len(self._partials) > self._partials_max:
            dropped += self._discard(next(iter(self._partials)))
        return dropped

    def _discard(self, key: Key) -> int:
        return self._forget(self._partials.pop(key))

    def _forget(self, partial: _Partial) -> int:
        """Account for a partial that is no longer held; answers how many pieces it had."""
        self.bytes.now -= partial.size
        return len(partial.pieces)

    def discard_multicasts(self) -> None:
        """All multicast streams begin anew."""
        for key in [key for key in self._partials if key[1]]:
            self._discard(key)

    def expire(self, now: float) -> int:
        """Discard the unicasts to which nothing was added for too long; answers how many pieces they had."""
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
