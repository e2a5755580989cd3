"""A site's keys: one seals, all open, so that a key can be exchanged while the members run.

    add      every member opens with the new key, none seals with it
    use      members seal with the new key, one by one; the old key still opens
    remove   members with only the old key are excluded

As text, a line each:

    use 6f1c09aa
    key 6f1c09aa <64 hexadecimal digits>
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sitestack.model.errors import ConfigurationError

SECRET_BYTES = 32
ID_BYTES = 4
#: Maximum keys of a ring: an exchange needs two, and an abandoned one a third.
KEYS_MAX = 8
_SALT = b"sitestack site key"


@dataclass(frozen=True, slots=True)
class SiteKey:
    """One key of a site. A process with it is a trusted member."""

    secret: bytes = field(repr=False)
    #: Names the key on the wire and in files. Derived from the key, which it does not reveal.
    id: bytes = field(init=False)
    #: Root of all keys derived for a site (HKDF-Extract, RFC 5869).
    pseudorandom_key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a secret of another size."""
        if len(self.secret) != SECRET_BYTES:
            raise ConfigurationError(f"a key has {SECRET_BYTES} bytes, not {len(self.secret)}.")
        extracted = hmac.digest(_SALT, self.secret, "sha256")
        object.__setattr__(self, "pseudorandom_key", extracted)
        object.__setattr__(self, "id", HKDFExpand(algorithm=SHA256(), length=ID_BYTES, info=b"key id").derive(extracted))


@dataclass(frozen=True, slots=True)
class KeyRing:
    keys: dict[bytes, SiteKey]
    in_use: bytes

    @classmethod
    def of(cls, secret: bytes) -> KeyRing:
        """Return a ring with one key. The secret is 32 random bytes."""
        key = SiteKey(secret)
        return cls({key.id: key}, key.id)

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        """Return the ring in a text.

        Raises ConfigurationError, without quoting the text: it may be part of a key.
        """
        keys: dict[bytes, SiteKey] = {}
        used: list[bytes] = []
        for number, words in _statements(text):
            try:
                if words[0] == "use" and len(words) == 2:
                    used.append(bytes.fromhex(words[1]))
                    continue
                _, name, secret = words
                key = SiteKey(bytes.fromhex(secret))
                sound = words[0] == "key" and bytes.fromhex(name) == key.id
            except (ValueError, ConfigurationError):
                sound = False
            if not sound:
                raise ConfigurationError(f"line {number} is not a line of a key ring; copy the file of another member.")
            keys[key.id] = key
        if len(used) != 1 or used[0] not in keys:
            raise ConfigurationError("the key in use is not in the ring; copy the file of another member.")
        if len(keys) > KEYS_MAX:
            raise ConfigurationError(f"a key ring has at most {KEYS_MAX} keys.")
        return cls(keys, used[0])

    def format(self) -> str:
        lines = [f"key {each.id.hex()} {each.secret.hex()}" for each in self.keys.values()]
        return "\n".join([f"use {self.in_use.hex()}", *lines, ""])

    def add(self, key: SiteKey) -> KeyRing:
        """Return a ring with another key, which opens and does not seal. Raises ConfigurationError."""
        if key.id in self.keys:
            raise ConfigurationError(f"the ring has a key {key.id.hex()} already.")
        if len(self.keys) == KEYS_MAX:
            raise ConfigurationError(f"the ring has {KEYS_MAX} keys already; remove one that no member uses any more.")
        return KeyRing({**self.keys, key.id: key}, self.in_use)

    def use(self, key_id: bytes) -> KeyRing:
        """Return a ring that seals with this key. Raises ConfigurationError."""
        self._require(key_id)
        return KeyRing(self.keys, key_id)

    def remove(self, key_id: bytes) -> KeyRing:
        """Return a ring without this key. Raises ConfigurationError for the one in use."""
        self._require(key_id)
        if key_id == self.in_use:
            raise ConfigurationError(f"the key {key_id.hex()} is in use; use another one before you remove it.")
        return KeyRing({each: key for each, key in self.keys.items() if each != key_id}, self.in_use)

    def _require(self, key_id: bytes) -> None:
        if key_id not in self.keys:
            raise ConfigurationError(f"the ring has no key {key_id.hex()}; it has {', '.join(map(bytes.hex, self.keys))}.")


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words
