"""Small datagrams that announce a huge size (C11, C12): refused in little time and memory."""

from __future__ import annotations

import time
import tracemalloc
from functools import reduce

import msgpack
import pytest

from sitestack.layers.membership.headers import JoinRequest
from sitestack.model.errors import ProtocolError
from sitestack.wire.codec import DATAGRAM_BYTES_MAX, MAGIC, VERSION, Codec
from tests.relay.any_header import EVERY

CODEC = Codec("NYC", EVERY)
SIZE = 60_000
ADDRESS = b"\xc4\x10" + bytes(16)
JOIN_ID = next(number for number, kind in EVERY.items() if kind is JoinRequest)
HEAD = b"\x95\xa3NYC" + ADDRESS + b"\x00\xc0"
#: A JoinRequest, which contains the states of a joiner, in three hundred others.
JOIN = reduce(lambda inner, _: [JOIN_ID, "x", False, [inner]], range(300), [JOIN_ID, "x", False, []])
BOMBS = {
    "a long list": b"\xdd\xff\xff\xff\xff",
    "lists in lists": (b"\xdd" + SIZE.to_bytes(4, "big")) * 1_000 + bytes(SIZE - 5_000),
    "a hundred thousand lists in lists": b"\x91" * (DATAGRAM_BYTES_MAX - 10) + b"\xc0",
    "empty lists": b"\xdd" + SIZE.to_bytes(4, "big") + b"\x90" * SIZE,
    "numbers": b"\xdd" + SIZE.to_bytes(4, "big") + bytes(SIZE),
    "a map": b"\xdf\xff\xff\xff\xff",
    "a key twice": b"\x82\x01\xc0\x01\xc0",
    "keys that are lists": b"\x81\x90\xc0",
    "long bytes": b"\xc6\xff\xff\xff\xff",
    "bytes longer than the datagram": b"\x95\xa3NYC\xc5\xff\xff",
    "a long text": b"\xdb" + SIZE.to_bytes(4, "big") + b"x" * SIZE,
    "no UTF-8": b"\x95\xa3\xff\xff\xff" + ADDRESS + b"\x00\xc0\x90",
    "an extension": b"\xc9\xff\xff\xff\xff\x01",
    "a time": HEAD + b"\x91\xd6\xff\x00\x00\x00\x00",
    "not a number": HEAD + b"\x91\x93\xc2\x91\x92\x02\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\xc0",
    "a number beyond 63 bits": HEAD + b"\x91\x93\xc2\x91\x92\x02\xcf" + b"\xff" * 8 + b"\xc0",
    "many frames": HEAD + b"\xdc\xff\xff" + b"\x93\xc2\x91\x92\x02\x01\xc0" * 8_000,
    "many headers": HEAD + b"\x91\x93\xc2\xdc\x20\x00" + b"\x92\x02\x01" * 0x2000 + b"\xc0",
    "no frames": HEAD + b"\x90",
    "two datagrams": (HEAD + b"\x90") * 2,
    "a negative count of messages": HEAD
    + b"\x91\x93\xc2\x90\x98\xa3NYC"
    + ADDRESS
    + b"\x00\x01\xff\xc4\x04\x00\x00\x00\x00\xc0\xa0",
    "more messages than bytes": HEAD
    + b"\x91\x93\xc2\x90\x98\xa3NYC"
    + ADDRESS
    + b"\x00\x01\xce\xff\xff\xff\xff\xc4\x04\x00\x00\x00\x00\xc0\xa0",
    "headers in headers": HEAD + b"\x91\x93\xc2\x91" + msgpack.packb(JOIN) + b"\xc0",
    "nothing": b"",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_datagram_that_claims_more_than_it_has_is_refused_at_a_cost_of_its_bytes(bomb: bytes) -> None:
    data = MAGIC + bytes([VERSION]) + bomb
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            CODEC.decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert min(_cost_s(data) for _ in range(10)) < 0.02


def _cost_s(data: bytes) -> float:
    """Return the CPU seconds of this thread for a refusal."""
    began = time.thread_time()
    with pytest.raises(ProtocolError):
        CODEC.decode(data)
    return time.thread_time() - began
