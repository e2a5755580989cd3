from __future__ import annotations

from dataclasses import dataclass, field

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header

#: Bytes of a `FragmentHeader` besides its data, with the frame around it.
PIECE_OVERHEAD_BYTES = 64


@fast_frozen
@dataclass(frozen=True, slots=True)
class FragmentHeader(Header):
    """A piece of a frame. Pieces of one id arrive in order."""

    id: int
    index: int
    count: int
    data: bytes
    #: Set on the last piece of a unicast, so that an undeliverable frame can be reported; not on
    #: the wire.
    whole: Frame | None = field(init=False, default=None, compare=False, repr=False)

    @property
    def payload_bytes(self) -> int:
        return len(self.data)
