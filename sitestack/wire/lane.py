"""The datagram of a lane (`sitestack/stack/lanes.py`): a cookie, numbers of fixed size, and the body
of a batch behind them. There is no msgpack on either side.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from sitestack.model.address import Address
from sitestack.model.view import ViewId
from sitestack.seal import envelope

MAGIC = b"\xb7L"
_DIGEST_BYTES = 8
#: Magic, tag of the cluster (a shared transport reads it), and the digest that names the lane.
COOKIE_BYTES = len(MAGIC) + (envelope.TAG_END - envelope.TAG_START) + _DIGEST_BYTES
#: The largest number that fits, and the largest count of a batch.
NUMBER_MAX, COUNT_MAX = (1 << 32) - 1, (1 << 16) - 1


class LaneHead(NamedTuple):
    """On a lane to one member."""

    conn_id: int
    seqno: int
    #: The acknowledgement that rides along; without one, `acked_conn_id` is 0.
    acked_conn_id: int
    acked_window: int
    acked_seqno: int
    #: Bytes of the body.
    size: int
    messages: int
    first: int


class CastHead(NamedTuple):
    """On a lane to all members."""

    seqno: int
    #: Rank of the batch's origin in the view.
    origin: int
    scope: int
    size: int
    messages: int
    first: int


#: Their fields in order.
HEAD, CAST_HEAD = Struct("<IIIIIIHQ"), Struct("<IHBIHQ")
#: Bytes before the body, at most.
HEAD_BYTES = COOKIE_BYTES + HEAD.size


def make_cookie(cluster: str, kind: bytes, source: Address, dest: Address | None, view: ViewId | None) -> bytes:
    """Return the name of the lane of this kind, which both ends compute; without `dest` to all members."""
    of_view = () if view is None else (view.creator, str(view.counter).encode())
    parts = (cluster.encode(), kind, source, dest or b"", *of_view)
    return MAGIC + envelope.tag(cluster) + blake2b(b"|".join(parts), digest_size=_DIGEST_BYTES).digest()
