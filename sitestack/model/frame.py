"""The frame: the unit that layers exchange and that travels between members.

Each layer appends its header on the way down and removes it on the way up. A retransmission keeps
the very frame (S15).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from sitestack.model.address import Address, Physical
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Batch, Scope


class Header:
    """Base of all headers: a frozen dataclass in the HEADERS table of the layer that owns it."""

    __slots__ = ()

    #: True: a frame with this header overtakes those that wait for credit, since its receivers may
    #: need it to return any.
    OVERTAKES: ClassVar[bool] = False
    #: True: a unicast with this header means the same in every view. It has no view tag, and waits
    #: for no credit.
    OUTSIDE_VIEWS: ClassVar[bool] = False

    @property
    def payload_bytes(self) -> int:
        """Bytes of payload that travel in this header instead of in a batch."""
        return 0


H = TypeVar("H", bound=Header)

#: None: a multicast to all members of the site (LA-26). An `Address`: one member. A `Physical`: the
#: unknown process there, an explicit kind instead of a null destination (A4).
Destination = Address | Physical | None


@fast_frozen
@dataclass(frozen=True, slots=True)
class Frame:
    """One protocol message, with the headers of all layers that it has passed."""

    #: The sender on the wire; after delivery by NAKACK, the owner of its stream.
    source: Address
    dest: Destination
    headers: tuple[Header, ...] = ()
    batch: Batch | None = None
    #: True: neither NAKACK nor UNICAST numbers or repeats it.
    unreliable: bool = False
    #: Not on the wire: the number in its multicast stream, set by NAKACK. In the coordinator's
    #: stream it is the `gseq`.
    seqno: int = 0
    #: Not on the wire: the owner of that stream, also when the sequencer restores the original
    #: sender as source.
    stream: Address | None = field(default=None, compare=False)

    @property
    def payload_bytes(self) -> int:
        """Bytes of this frame besides its fixed cost."""
        if self.batch is not None:
            return len(self.batch.body)
        return sum([header.payload_bytes for header in self.headers])

    @property
    def is_out_of_band(self) -> bool:
        """Whether the frame is delivered without waiting for others. A piece of a cut frame is not."""
        return self.batch is not None and self.batch.scope is Scope.OOB

    def push(self, header: Header) -> Frame:
        return self._with((*self.headers, header))

    def pop(self) -> Frame:
        return self._with(self.headers[:-1])

    def _with(self, headers: tuple[Header, ...]) -> Frame:
        """Return this frame with other headers, three times as fast as `dataclasses.replace`."""
        return Frame(self.source, self.dest, headers, self.batch, self.unreliable, self.seqno, self.stream)

    def top(self, kind: type[H]) -> H | None:
        """Return the last header if it is of this kind."""
        if self.headers and type(self.headers[-1]) is kind:
            return self.headers[-1]
        return None
