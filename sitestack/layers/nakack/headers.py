"""What NAKACK says on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId

#: A request lists at most so many ranges: it must fit into one datagram, as fragmentation is above this layer.
RANGES_MAX = 64


@fast_frozen
@dataclass(frozen=True, slots=True)
class Cast(Header):
    """On every reliable multicast and on its retransmissions, which come from anybody: `sender` owns the stream."""

    view: ViewId
    sender: Address
    seqno: int


@dataclass(frozen=True, slots=True)
class Retransmit(Header):
    """To a member that should hold these numbers (first and last of each range) of the sender's stream: send them to me."""

    view: ViewId
    sender: Address
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Highest(Header):
    """To everybody: the stream of the one who says it goes up to here."""

    view: ViewId
    seqno: int


def wire_frame(frame: Frame, view: ViewId, source: Address | None = None, requester: Address | None = None) -> Frame:
    """The frame as it travels: the sender's multicast, or a copy of it that `source` sends to a requester.

    Both carry the same header, so that a copy takes the same place in the same stream whoever sends it (SEQ-8).
    """
    headers = (*frame.headers, Cast(view, frame.source, frame.seqno))
    return Frame(source or frame.source, requester, headers, frame.batch, requester is not None)
