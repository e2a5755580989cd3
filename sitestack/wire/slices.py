"""Slices: datagrams that are too large for their path travel in pieces, below all layers.

Like IP fragments, for paths that lose fragments. A slice carries a digest of the whole datagram, so
that slices of retransmissions complete each other: on a lossy path each slice must arrive once, and
not all at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.level import Level

#: Bytes of the digest that names a datagram.
DIGEST_BYTES = 8
SLICE_COST_BYTES = 128
#: Maximum slices of the largest datagram, for the smallest path, a seal, and the longest name of a site.
SLICES_MAX = 400


@fast_frozen
@dataclass(frozen=True, slots=True)
class Slice:
    """Piece `index` of `count` of a datagram of `source`, whose digest is `digest`."""

    source: Address
    digest: bytes
    index: int
    count: int
    data: bytes


def cut(source: Address, datagram: bytes, slice_bytes: int) -> list[Slice]:
    """Return the slices of a datagram, each with at most `slice_bytes` of it."""
    digest = hashlib.blake2b(datagram, digest_size=DIGEST_BYTES).digest()
    pieces = [datagram[start : start + slice_bytes] for start in range(0, len(datagram), slice_bytes)]
    return [Slice(source, digest, index, len(pieces), piece) for index, piece in enumerate(pieces)]


class Assembly:
    """Assembles slices. Incomplete datagrams are bounded in bytes: for each source, and in all."""

    def __init__(self, bytes_max: int, each_bytes_max: int) -> None:
        """Evict a source's oldest datagram beyond `each_bytes_max`, and the oldest source's beyond `bytes_max`."""
        self.bytes = Level(bytes_max, "slices of datagrams of which others were lost; later ones push them out")
        self._each_bytes_max = each_bytes_max
        #: Source -> digest and count of a datagram -> its pieces by index. Neither is ever empty.
        self._partial: dict[Address, dict[tuple[bytes, int], dict[int, bytes]]] = {}
        self._bytes_of: dict[Address, int] = {}

    def put(self, piece: Slice) -> bytes | None:
        """Add a slice. Return the datagram if it is complete."""
        ours = self._partial.setdefault(piece.source, {})
        key = (piece.digest, piece.count)
        pieces = ours.setdefault(key, {})
        if piece.index in pieces:
            return None
        pieces[piece.index] = piece.data
        cost = len(piece.data) + SLICE_COST_BYTES
        self.bytes.add(cost)
        self._bytes_of[piece.source] = self._bytes_of.get(piece.source, 0) + cost
        if len(pieces) == piece.count:
            self._forget(piece.source, key)
            return b"".join([pieces[index] for index in range(piece.count)])
        while self._bytes_of.get(piece.source, 0) > self._each_bytes_max:
            self._forget(piece.source, next(iter(ours)))
        while self.bytes.is_over:
            source, others = next(iter(self._partial.items()))
            self._forget(source, next(iter(others)))
        return None

    def _forget(self, source: Address, key: tuple[bytes, int]) -> None:
        ours = self._partial[source]
        cost = sum([len(data) + SLICE_COST_BYTES for data in ours.pop(key).values()])
        self.bytes.now -= cost
        self._bytes_of[source] -= cost
        if not ours:
            del self._partial[source], self._bytes_of[source]
