"""The cluster of a datagram, found without decoding it: several clusters can share a pair of
sockets.

A plain datagram begins with the cluster's name (`codec.py`). A sealed one, also an introduction,
has a tag of it in the clear (`envelope.py`), and so has a datagram of a lane (`lane.py`). So a
shared transport needs no separate header, and its peers need not know that it is shared. The name
is not verified here: the cluster's codec, lanes or seal do that.
"""

from __future__ import annotations

from sitestack.seal import envelope
from sitestack.wire import lane
from sitestack.wire.codec import MAGIC

#: Where msgpack's name of the cluster begins: behind the prefix, and the head of an array of five.
_NAME_AT = 4
#: msgpack's codes of strings with a size of one byte and two.
_STR_8, _STR_16 = 0xD9, 0xDA


def marks_of(cluster: str) -> tuple[bytes, bytes]:
    """Return the results of `mark_of` for the plain and the sealed datagrams of a cluster."""
    return b"=" + cluster.encode(), b"#" + envelope.tag(cluster)


def mark_of(data: bytes) -> bytes:
    """Return the mark of a datagram's cluster; empty if it has none."""
    magic = data[:2]
    if magic == envelope.MAGIC:
        return b"#" + data[envelope.TAG_START : envelope.TAG_END]
    if magic == lane.MAGIC:
        return b"#" + data[len(magic) : len(magic) + envelope.TAG_END - envelope.TAG_START]
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
