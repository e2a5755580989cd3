"""For which cluster a datagram is, without a look at anything else in it: how several clusters share a pair of sockets.

A plain datagram begins with the cluster's name (`codec.py`), and a sealed one, an introduction too, has a tag of it in the
clear (`envelope.py`). So a shared transport needs no header of its own, and whoever speaks to it need not know that it is
shared. What this says is not checked: the cluster's own codec or seal does that.
"""

from __future__ import annotations

from sitestack.seal import envelope
from sitestack.wire.codec import MAGIC

#: Where msgpack's name of the cluster begins: behind the prefix, and the head of an array of five.
_NAME_AT = 4
#: msgpack's codes of strings whose size takes one byte and two.
_STR_8, _STR_16 = 0xD9, 0xDA


def marks_of(cluster: str) -> tuple[bytes, bytes]:
    """What `mark_of` answers for the plain and the sealed datagrams of a cluster."""
    return b"=" + cluster.encode(), b"#" + envelope.tag(cluster)


def mark_of(data: bytes) -> bytes:
    """By what the cluster of a datagram is known; empty when it is none."""
    magic = data[:2]
    if magic == envelope.MAGIC:
        return b"#" + data[envelope.TAG_START : envelope.TAG_END]
    if magic != MAGIC or len(data) <= _NAME_AT:
        return b""
    code = data[_NAME_AT]
    if code & 0xE0 == 0xA0:
        start, size = _NAME_AT + 1, code & 0x1F
    elif code == _STR_8:
        start = _NAME_AT + 2
        size = int.from_bytes(data[_NAME_AT + 1 : start], "big")
    elif code == _STR_16:
        start = _NAME_AT + 3
        size = int.from_bytes(data[_NAME_AT + 1 : start], "big")
    else:
        return b""
    return b"=" + data[start : start + size]
