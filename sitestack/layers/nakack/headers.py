"""The headers of NAKACK."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId

#: Ranges in one request at most: the request must fit into one datagram, as fragmentation is above this layer.
RANGES_MAX = 64


@fast_frozen
@dataclass(frozen=True, slots=True)
class Cast(Header):
    """On every reliable multicast and its retransmissions, which any member may send: `sender` owns the stream."""

    view: ViewId
    sender: Address
    seqno: int


@dataclass(frozen=True, slots=True)
class Retransmit(Header):
    """To a member that should hold frames of the stream of `sender`: send me those in these ranges (first, last)."""

    view: ViewId
    sender: Address
    ranges: tuple[tuple[int, int], ...]
    #: They were asked for again and again: what was sent does not arrive, perhaps because it is too large for the way.
    in_vain: bool


@dataclass(frozen=True, slots=True)
class Highest(Header):
    """Sender to everybody: the highest number of my stream."""

    view: ViewId
    seqno: int


def wire_frame(frame: Frame, view: ViewId, source: Address | None = None, requester: Address | None = None) -> Frame:
    """The frame as it travels: the sender's multicast, or a copy that `source` sends to a requester.

    Both carry the same header, so that a copy takes the same place in the same stream, whichever member sends it (SEQ-8).
    """
    headers = (*frame.headers, Cast(view, frame.source, frame.seqno))
    return Frame(source or frame.source, requester, headers, frame.batch, requester is not None)
