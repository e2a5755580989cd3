"""What fragmentation says on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header

#: What the fields of a `FragmentHeader` besides its data, and the frame around it, take on the wire.
PIECE_OVERHEAD_BYTES = 64


@fast_frozen
@dataclass(frozen=True, slots=True)
class FragmentHeader(Header):
    """One piece of a frame. Pieces of one id arrive in order, `index` from 0 to `count - 1`."""

    id: int
    index: int
    count: int
    data: bytes
    #: Not on the wire: the last piece of a unicast knows the frame, so that what is undeliverable can be named.
    whole: Frame | None = field(init=False, default=None, compare=False, repr=False)

    @property
    def payload_bytes(self) -> int:
        """Windows below count the piece."""
        return len(self.data)
