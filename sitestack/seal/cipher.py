"""The ciphers of the envelopes: AES-256-GCM, with a key for each sender."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_PURPOSE = b"sitestack seal 1"


def make_cipher(pseudorandom_key: bytes, cluster: str, sender_id: bytes, epoch: bytes) -> AESGCM:
    """The cipher of a sender for the envelopes whose counters begin with these 4 bytes.

    `pseudorandom_key` is that of the site's key (`SiteKey.pseudorandom_key`).
    """
    name = cluster.encode()
    info = b"".join((_PURPOSE, sender_id, epoch, len(name).to_bytes(4, "big"), name))
    return AESGCM(HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(pseudorandom_key))
