"""The datagram of a lane (`sitestack/stack/lanes.py`): a cookie, numbers of fixed size, and the body
of a batch behind them. There is no msgpack on either side.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from sitestack.model.address import Address
from sitestack.seal import envelope

MAGIC = b"\xb7L"
_DIGEST_BYTES = 8
#: Magic, tag of the cluster (a shared transport reads it), and the digest that names the lane.
COOKIE_BYTES = len(MAGIC) + (envelope.TAG_END - envelope.TAG_START) + _DIGEST_BYTES
#: The fields of `LaneHead` in order.
HEAD = Struct("<IIIIIIHQ")
HEAD_BYTES = COOKIE_BYTES + HEAD.size
#: The largest conn-id and number that fit, and the largest count of a batch.
NUMBER_MAX, COUNT_MAX = (1 << 32) - 1, (1 << 16) - 1


class LaneHead(NamedTuple):
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


def make_cookie(cluster: str, kind: bytes, source: Address, dest: Address) -> bytes:
    """Return the name of the lane of this kind, which both ends compute."""
    digest = blake2b(b"|".join((cluster.encode(), kind, source, dest)), digest_size=_DIGEST_BYTES).digest()
    return MAGIC + envelope.tag(cluster) + digest
