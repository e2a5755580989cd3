"""The ciphers of the envelopes: AES-256-GCM, with a key for each sender; and the stamps that are looked at before."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sitestack.seal.envelope import STAMP_BYTES

_PURPOSE = b"sitestack seal 1"


def make_cipher(pseudorandom_key: bytes, cluster: str, sender_id: bytes, epoch: bytes) -> AESGCM:
    """The cipher of a sender for the envelopes whose counters begin with these 4 bytes.

    `pseudorandom_key` is that of the site's key (`SiteKey.pseudorandom_key`).
    """
    name = cluster.encode()
    info = b"".join((_PURPOSE, sender_id, epoch, len(name).to_bytes(4, "big"), name))
    return AESGCM(HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(pseudorandom_key))


def make_stamp_key(pseudorandom_key: bytes, cluster: str) -> bytes:
    """The key by which a site key stamps the envelopes of a cluster."""
    info = b"".join((_PURPOSE, b" stamp ", cluster.encode()))
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(pseudorandom_key)


def make_stamp(stamp_key: bytes, sender_id: bytes, key_and_epoch: bytes) -> bytes:
    """The stamp of a sender on its envelopes with this key id and upper half of the counter."""
    return hashlib.blake2s(sender_id + key_and_epoch, digest_size=STAMP_BYTES, key=stamp_key).digest()
