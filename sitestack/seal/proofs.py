"""Proofs that the other end of a connection inside a site has a key of the site.

Each end draws a nonce, so that no proof is valid for a second connection. The caller chooses the
parts of a proof; the purpose separates its kinds.
"""

from __future__ import annotations

import hmac
from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sitestack.seal.key_ring import ID_BYTES, KeyRing, SiteKey

NONCE_BYTES = 16
_CODE_BYTES = 32
#: Key id and authentication code.
PROOF_BYTES = ID_BYTES + _CODE_BYTES


class Proofs:
    def __init__(self, cluster: str, ring: KeyRing) -> None:
        self.cluster = cluster
        #: Replaced when the keys change; open connections stay.
        self.ring = ring

    def make(self, purpose: str, *parts: bytes) -> bytes:
        return self.ring.in_use + self._code(self.ring.keys[self.ring.in_use], purpose, parts)

    def are_sound(self, proof: bytes, purpose: str, *parts: bytes) -> bool:
        """Return whether this proof covers these parts for this purpose, with any key of the ring."""
        key = self.ring.keys.get(proof[:ID_BYTES])
        return key is not None and hmac.compare_digest(proof[ID_BYTES:], self._code(key, purpose, parts))

    def _code(self, key: SiteKey, purpose: str, parts: tuple[bytes, ...]) -> bytes:
        """Return the HMAC over the parts, each with its length, so that the split is unambiguous."""
        said = b"".join([len(part).to_bytes(4, "big") + part for part in parts])
        return hmac.digest(_key_for(key, self.cluster, purpose), said, "sha256")


@lru_cache(maxsize=64)
def _key_for(key: SiteKey, cluster: str, purpose: str) -> bytes:
    info = f"sitestack proof {purpose} {cluster}".encode()
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(key.pseudorandom_key)
