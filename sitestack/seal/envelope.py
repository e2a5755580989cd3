"""The sealed envelope, byte by byte.

    at  bytes
    0   2   magic, different from that of a plain datagram
    2   1   version of the envelope
    3   1   kind: a datagram, or an introduction (`introductions.py`)
    4   4   tag of the cluster: reveals a mistake to an operator, and proves nothing
    8   16  sender id: random, drawn at each opening of a transport, so that counters are never shared
    24  4   key id: which key of the site's ring
    28  8   counter: incremented with each envelope of this sender
    36  8   stamp: shows that the drawer of the sender id has the key, at a hundredth of a trial's cost
    44      ciphertext, and 16 bytes that authenticate it and everything before it

AES-256-GCM. The 12 bytes from 24 to 36 are its nonce. Its key derives from the site's key, the
cluster's name, the sender id and the upper half of the counter. So a nonce never repeats with a
key, and no key seals more than 2^32 envelopes, without stored or drawn values.

Deriving that key for each sender is expensive. The stamp is checked first, so that a flood of
invented sender ids cannot keep a member busy. All envelopes of a sender with one key have the same
stamp: it proves only that the sender id is genuine.

The envelope has no target. The datagram inside names its target process by UUID, encrypted with the
rest.
"""

from __future__ import annotations

import hashlib

#: The bitwise complement of a plain datagram's magic, so that no damaged one looks sealed.
MAGIC = b"H\xad"
VERSION = 1
TAG_START, TAG_END = 4, 8
SENDER_ID_BYTES = 16
COUNTER_BYTES = 8
STAMP_BYTES = 8
NONCE_END = 36
HEADER_BYTES = NONCE_END + STAMP_BYTES
TAG_BYTES = 16
OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES

DATAGRAM, INTRODUCTION = b"\x00", b"\x01"

_PURPOSE = b"sitestack seal 1"


def head(kind: bytes, cluster: str) -> bytes:
    return MAGIC + bytes([VERSION]) + kind + tag(cluster)


def tag(cluster: str) -> bytes:
    """Return the tag of a cluster, which all its envelopes carry in the clear."""
    return hashlib.sha256(_PURPOSE + cluster.encode()).digest()[: TAG_END - TAG_START]
