from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId

#: Maximum ranges in a request, which must fit into one datagram.
RANGES_MAX = 64


@fast_frozen
@dataclass(frozen=True, slots=True)
class Cast(Header):
    """On every reliable multicast and its copies from any member: `sender` owns the stream."""

    view: ViewId
    sender: Address
    seqno: int


@dataclass(frozen=True, slots=True)
class Retransmit(Header):
    """To a member that should hold frames of `sender`: retransmit these ranges (first, last)."""

    view: ViewId
    sender: Address
    ranges: tuple[tuple[int, int], ...]
    #: Earlier requests failed: the frames may exceed the path MTU.
    in_vain: bool


@fast_frozen
@dataclass(frozen=True, slots=True)
class Highest(Header):
    """Sender to all members: the highest number of my stream."""

    view: ViewId
    seqno: int


def wire_frame(frame: Frame, view: ViewId, source: Address | None = None, requester: Address | None = None) -> Frame:
    """Return the frame for the wire: the sender's multicast, or a copy from `source` to a requester.

    Both take the same place in the same stream (SEQ-8).
    """
    headers = (*frame.headers, Cast(view, frame.source, frame.seqno))
    return Frame(source or frame.source, requester, headers, frame.batch, requester is not None)
