"""What the ends of a TCP connection between members say first.

    C -> A   magic, port, host: where C can be reached

With keys the one that accepts speaks first, a nonce, and the other one's frame ends in a proof over it:

    A -> C   sealed magic, nonce
    C -> A   magic, port, host, proof

Several clusters with keys that share their connections (`shared.py`) cannot know which of them the other end has, so C proves
that it has the keys of all, and A is content with one:

    C -> A   shared magic, port, size of host, host, proofs
"""

from __future__ import annotations

import secrets
import struct

from sitestack.model.address import Physical
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport.interfaces import is_address

#: Begins the first frame of the connecting member. The last byte is the version.
MAGIC = b"SST\x01"
#: Begins the first frame of the accepting member where both have keys.
SEALED_MAGIC = b"SST\x02"
#: Begins the first frame of a connecting process with several clusters.
SHARED_MAGIC = b"SST\x03"
#: The largest first frame: one with the proofs of as many clusters as may share a transport, and some more.
GREETING_BYTES_MAX = 1_024
_PORT = struct.Struct("<H")
_HOST_AT = len(MAGIC) + _PORT.size


class Greeting:
    """Makes and checks what is said first."""

    def __init__(self, place: Physical, proofs: Proofs | None) -> None:
        """`place` is where this process can be reached."""
        self._place = place
        self._proofs: list[Proofs] = []
        #: Whether both ends prove that they have a key. That it once was so stays.
        self.is_proved = False
        if proofs is not None:
            self.add(proofs)

    def add(self, proofs: Proofs) -> None:
        """Prove these, too, and let in whoever does."""
        self._proofs.append(proofs)
        self.is_proved = True

    def remove(self, proofs: Proofs) -> None:
        """Do so no longer. Connections that are made stay."""
        self._proofs.remove(proofs)

    def draw_nonce(self) -> bytes:
        """What an accepting end draws, for the proof of the other one."""
        return secrets.token_bytes(NONCE_BYTES)

    def hello(self) -> bytes:
        """The first frame of the connecting end where nothing is proved."""
        return MAGIC + _PORT.pack(self._place.port) + self._place.host.encode()

    def proven_hello(self, challenge: bytes) -> bytes:
        """The first frame of the connecting end, for what the accepting one has said; empty if that is no challenge."""
        nonce = challenge[len(SEALED_MAGIC) :]
        if not challenge.startswith(SEALED_MAGIC):
            return b""
        hello = self.hello()
        if len(self._proofs) > 1:
            host = self._place.host.encode()
            hello = SHARED_MAGIC + _PORT.pack(self._place.port) + bytes([len(host)]) + host
        return hello + b"".join([each.make("connection", nonce, hello) for each in self._proofs])

    def admit(self, hello: bytes, nonce: bytes) -> Physical | None:
        """Where the connecting end can be reached; None if it must not be let in."""
        if not self.is_proved:
            return _place(hello, _HOST_AT) if hello.startswith(MAGIC) else None
        if hello.startswith(SHARED_MAGIC):
            start = _HOST_AT + 1
            end = start + int.from_bytes(hello[_HOST_AT:start], "big")
        else:
            start, end = _HOST_AT, len(hello) - PROOF_BYTES
            if not hello.startswith(MAGIC):
                return None
        hello, shown = hello[:end], hello[end:]
        proofs = [shown[at : at + PROOF_BYTES] for at in range(0, len(shown), PROOF_BYTES)]
        if any(mine.are_sound(each, "connection", nonce, hello) for mine in self._proofs for each in proofs):
            return _place(hello, start)
        return None


def _place(hello: bytes, host_at: int) -> Physical | None:
    host = hello[host_at:].decode("ascii", "replace")
    return Physical(host, _PORT.unpack_from(hello, len(MAGIC))[0]) if is_address(host) else None
