"""The protocol between a member and a gossip router, over one TCP connection.

    router -> member   challenge   nonce
    member -> router   hello       nonce, proof that it has a key of the site, cluster
    router -> member   welcome     proof that it has one too
    member -> router   REGISTER    its identity and addresses; repeated at intervals and after each reconnection
    member -> router   QUERY       answered by PRESENT for each other registered member, and LISTED
    router -> member   PRESENT, GONE    unrequested, as others come and go
    member -> router   PING        answered by PONG
    member -> router   CAST, SEND  a datagram for all others of the cluster, or for one: it arrives there as DATA

A relay uses further connections to link its site with others, one for each link (decision 31):

    relay  -> router   LISTEN      accept calls of other sites' relays; until one calls, PING as above
    relay  -> router   CALL        the site to call; answered by SPLICED, or by `NOBODY` and a reason
    router -> relay    CALLED      the calling site; answered by ACCEPT

After ACCEPT and SPLICED there are no frames: each byte of one connection leaves by the other one.

Each frame is its size and then its bytes. Frames before the proof have a fixed layout, so that no
stranger's bytes are parsed. A registration carries a separate proof, which shows the other members
that a member made it. The datagrams are sealed. Without keys the places of the proofs are empty.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.address_cache import HOST_CHARS_MAX, NAME_CHARS_MAX, PHYSICAL_MAX
from sitestack.model.errors import ProtocolError
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.wire.codec import DATAGRAM_BYTES_MAX

#: Begins a challenge; the last byte is the version.
MAGIC = b"SSR\x01"
REGISTER, QUERY, PING, CAST, SEND = b"r", b"q", b"p", b"c", b"s"
PRESENT, GONE, LISTED, PONG, DATA = b"P", b"G", b"L", b"O", b"D"
LISTEN, CALL, ACCEPT = b"l", b"k", b"a"
CALLED, SPLICED, NOBODY = b"C", b"S", b"N"
#: Reasons in `NOBODY`: no relay of the site waits there, the router does not serve the site, or it
#: has no room.
ABSENT, UNSERVED, FULL = b"absent", b"unserved", b"full"
#: The largest frame before the proof: a hello with the longest name of a cluster.
GREETING_BYTES_MAX = 512
FRAME_BYTES_MAX = 1 + UUID_BYTES + DATAGRAM_BYTES_MAX
#: The largest registration: all its addresses with the longest names.
ENTRY_BYTES_MAX = 4_096
_SIZE = struct.Struct("<I")
_PORT = struct.Struct("<H")
_NOBODY = bytes(PROOF_BYTES)
_NONCE_END = len(MAGIC) + NONCE_BYTES
_HELLO_END = _NONCE_END + PROOF_BYTES
_ENTRY_START = PROOF_BYTES + UUID_BYTES


def framed(*parts: bytes | memoryview) -> bytes:
    return b"".join((_SIZE.pack(sum(map(len, parts))), *parts))


class FrameReader:
    """Finds the frames in the bytes of one connection; holds less than one frame between two readings."""

    def __init__(self) -> None:
        self.bytes_max = GREETING_BYTES_MAX
        self._arrived = bytearray()

    def feed(self, data: bytes) -> None:
        self._arrived += data

    @property
    def has_begun(self) -> bool:
        """Whether an incomplete frame has arrived, or bytes that follow the frames."""
        return bool(self._arrived)

    def frames(self) -> Iterator[bytes]:
        """Yield the whole frames, each once. Raises ProtocolError for one that is empty or too large."""
        arrived = self._arrived
        at = 0
        try:
            while len(arrived) - at >= _SIZE.size:
                (size,) = _SIZE.unpack_from(arrived, at)
                if not 0 < size <= self.bytes_max:
                    raise ProtocolError("frame_size")
                end = at + _SIZE.size + size
                if len(arrived) < end:
                    return
                frame = bytes(arrived[at + _SIZE.size : end])
                at = end
                yield frame
        finally:
            del arrived[:at]


def challenge(nonce: bytes) -> bytes:
    return MAGIC + nonce


def read_challenge(frame: bytes) -> bytes:
    """Return the router's nonce. Raises ProtocolError."""
    if len(frame) != _NONCE_END or not frame.startswith(MAGIC):
        raise ProtocolError("greeting")
    return frame[len(MAGIC) :]


def hello(cluster: str, proofs: Proofs | None, theirs: bytes, mine: bytes) -> bytes:
    """Return a member's answer to the nonce `theirs`, with its own nonce."""
    proof = _NOBODY if proofs is None else proofs.make("router", theirs, mine)
    return b"".join((MAGIC, mine, proof, cluster.encode()))


@dataclass(frozen=True, slots=True)
class Hello:
    """A member's answer, untrusted before `is_sound`."""

    nonce: bytes
    proof: bytes
    cluster: str

    def is_sound(self, proofs: Proofs | None, mine: bytes) -> bool:
        """Return whether the member has a key of the site; without keys, whether it claims none."""
        if proofs is None:
            return self.proof == _NOBODY
        return proofs.are_sound(self.proof, "router", mine, self.nonce)


def read_hello(frame: bytes) -> Hello:
    if len(frame) <= _HELLO_END or not frame.startswith(MAGIC):
        raise ProtocolError("greeting")
    cluster = frame[_HELLO_END:].decode("utf-8", "replace")
    return Hello(frame[len(MAGIC) : _NONCE_END], frame[_NONCE_END:_HELLO_END], cluster)


def welcome(proofs: Proofs | None, mine: bytes, theirs: bytes) -> bytes:
    """Return the router's proof, over the same nonces."""
    return _NOBODY if proofs is None else proofs.make("routed", mine, theirs)


def is_welcome(frame: bytes, proofs: Proofs | None, theirs: bytes, mine: bytes) -> bool:
    """Return whether the router has a key of the site; without keys, whether it claims none."""
    return frame == _NOBODY if proofs is None else proofs.are_sound(frame, "routed", theirs, mine)


@dataclass(frozen=True, slots=True)
class Entry:
    """A member's registration: its uuid, its logical name and its physical addresses (LA-16)."""

    address: Address
    name: str
    physical: tuple[Physical, ...]


def pack_entry(entry: Entry, proofs: Proofs | None) -> bytes:
    """Return a registration as bytes. Long names are cut, and addresses beyond PHYSICAL_MAX omitted."""
    name = entry.name[:NAME_CHARS_MAX].encode()
    parts = [entry.address, _PORT.pack(len(name)), name]
    for host, port in entry.physical[:PHYSICAL_MAX]:
        encoded = host.encode()
        parts += [_PORT.pack(port), bytes([len(encoded)]), encoded]
    said = b"".join(parts)
    return (_NOBODY if proofs is None else proofs.make("registration", said)) + said


def parse_entry(data: bytes, proofs: Proofs | None) -> Entry:
    """Return the registration in these bytes. Raises ProtocolError, also for an invalid proof."""
    if not _ENTRY_START + _PORT.size <= len(data) <= ENTRY_BYTES_MAX:
        raise ProtocolError("registration")
    if proofs is not None and not proofs.are_sound(data[:PROOF_BYTES], "registration", data[PROOF_BYTES:]):
        raise ProtocolError("registration_proof")
    (name_bytes,) = _PORT.unpack_from(data, _ENTRY_START)
    at = _ENTRY_START + _PORT.size + name_bytes
    name = _text(data[at - name_bytes : at], name_bytes, 4 * NAME_CHARS_MAX)
    return Entry(Address(data[PROOF_BYTES:_ENTRY_START]), name, tuple(_places(data, at)))


def _places(data: bytes, at: int) -> Iterator[Physical]:
    count = 0
    while at < len(data):
        count += 1
        if len(data) < at + _PORT.size + 1 or count > PHYSICAL_MAX:
            raise ProtocolError("registration")
        (port,) = _PORT.unpack_from(data, at)
        size = data[at + _PORT.size]
        at += _PORT.size + 1 + size
        host = _text(data[at - size : at], size, HOST_CHARS_MAX)
        if not host or not port:
            raise ProtocolError("registration")
        yield Physical(host, port)


def _text(data: bytes, size: int, bytes_max: int) -> str:
    """Return a text of this size, which goes into logs and tables. Raises ProtocolError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("registration") from None
    if len(data) != size or size > bytes_max or not text.isprintable():
        raise ProtocolError("registration")
    return text


def listed(count: int) -> bytes:
    """Return the end of an answer to QUERY: the number of other registered members."""
    return LISTED + _SIZE.pack(count)
