"""The sealed envelope, byte by byte.

    at  bytes
    0   2   magic, never that of a plain datagram
    2   1   version of the envelope
    3   1   kind: a datagram, or an introduction (`introductions.py`)
    4   4   tag of the cluster: tells an operator of a mistake, and proves nothing
    8   16  sender id: random, drawn at each opening of a transport, so that no process ever uses the counters of another
    24  4   key id: which key of the site's ring
    28  8   counter: one more with each envelope of this sender
    36  8   stamp: shows that whoever drew the sender id has the key, for a hundredth of what it costs to try
    44      ciphertext, and 16 bytes that authenticate it and everything before it

AES-256-GCM. Its 12 bytes of nonce are those from 24 to 36, and its key follows from the site's key, the cluster's name, the
sender id and the upper half of the counter. So a nonce never occurs twice with a key, and no key seals more than 2^32
envelopes, without anybody keeping or drawing anything. That key has to be derived for each sender, which is dear: so that a
flood of sender ids that nobody has cannot keep a member busy, the stamp is looked at first. It is the same for all envelopes of
a sender with one key, so it only says that the sender id is no invention.

Where it is meant to go is not in it. The datagram inside names the process that it is for by its UUID, which is encrypted with
the rest. An address is not what either end takes it for: between them it is translated, a member has several, a multicast goes
to one that is nobody's, and a fan-out to many.
"""

from __future__ import annotations

import hashlib

#: Every bit is another one than in the magic of a plain datagram, so that no damaged one looks as if it were sealed.
MAGIC = b"H\xad"
VERSION = 1
#: Where the tag of the cluster begins and ends.
TAG_START, TAG_END = 4, 8
SENDER_ID_BYTES = 16
COUNTER_BYTES = 8
STAMP_BYTES = 8
#: Where the counter ends, and the nonce with it.
NONCE_END = 36
HEADER_BYTES = NONCE_END + STAMP_BYTES
TAG_BYTES = 16
#: What sealing adds to a datagram.
OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES

DATAGRAM, INTRODUCTION = b"\x00", b"\x01"

_PURPOSE = b"sitestack seal 1"


def head(kind: bytes, cluster: str) -> bytes:
    """The first 8 bytes of an envelope."""
    return MAGIC + bytes([VERSION]) + kind + tag(cluster)


def tag(cluster: str) -> bytes:
    """The tag of a cluster, which all its envelopes have in the clear."""
    return hashlib.sha256(_PURPOSE + cluster.encode()).digest()[: TAG_END - TAG_START]
