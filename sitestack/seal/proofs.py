"""Proofs: by them the ends of a connection inside a site know that the other one has a key of the site.

Each end draws a nonce, so that no proof is good for a second connection. What a proof is made of is up to whoever uses it; the
purpose keeps one kind from being taken for another.
"""

from __future__ import annotations

import hmac
from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sitestack.seal.key_ring import ID_BYTES, KeyRing, SiteKey

NONCE_BYTES = 16
_CODE_BYTES = 32
#: Which key, and the authentication code.
PROOF_BYTES = ID_BYTES + _CODE_BYTES


class Proofs:
    """Makes and checks proofs with the keys of a site."""

    def __init__(self, cluster: str, ring: KeyRing) -> None:
        self.cluster = cluster
        #: Exchanged when the keys change; whoever was let in stays.
        self.ring = ring

    def make(self, purpose: str, *parts: bytes) -> bytes:
        """A proof with the key in use."""
        return self.ring.in_use + self._code(self.ring.keys[self.ring.in_use], purpose, parts)

    def are_sound(self, proof: bytes, purpose: str, *parts: bytes) -> bool:
        """Whether this proof was made of these parts for this purpose, with any key of the ring."""
        key = self.ring.keys.get(proof[:ID_BYTES])
        return key is not None and hmac.compare_digest(proof[ID_BYTES:], self._code(key, purpose, parts))

    def _code(self, key: SiteKey, purpose: str, parts: tuple[bytes, ...]) -> bytes:
        """HMAC over the parts, each with its length: no other parts say the same."""
        said = b"".join([len(part).to_bytes(4, "big") + part for part in parts])
        return hmac.digest(_key_for(key, self.cluster, purpose), said, "sha256")


@lru_cache(maxsize=64)
def _key_for(key: SiteKey, cluster: str, purpose: str) -> bytes:
    info = f"sitestack proof {purpose} {cluster}".encode()
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(key.pseudorandom_key)
