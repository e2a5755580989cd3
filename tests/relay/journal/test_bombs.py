"""Small records that announce a huge size: a reader refuses them at a cost of their bytes."""

from __future__ import annotations

import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from pyspark_relay.source.bulk import _columns
from relay.journal import Problem, read_segment
from relay.journal.encoding import FRAME, framed, read_wall_ns
from sitestack.journal import records
from tests.relay.journal.test_damage import WRITTEN, segment

__all__ = ["segment"]

SIZE = 1 << 20
BOMBS = {
    "long": b"\xdd\xff\xff\xff\xff",
    "nested": (b"\xdd" + SIZE.to_bytes(4, "big")) * 1_000 + bytes(SIZE - 5_000),
    "deep": b"\x91" * 100_000 + b"\xc0",
    "empty lists": b"\xdd" + SIZE.to_bytes(4, "big") + b"\x90" * SIZE,
    "map": b"\xdf\xff\xff\xff\xff",
    "colliding keys": b"\x82\x01\xc0\x01\xc0",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "text": b"\xdb" + SIZE.to_bytes(4, "big") + b"x" * SIZE,
    "no UTF-8": b"\x92\x05\xa2\xff\xff",
    "extension": b"\xc9\xff\xff\xff\xff\x01",
    "time": b"\x92\x05\xd6\xff\x00\x00\x00\x00",
    "big number": b"\x92\x05\xcf" + b"\xff" * 8,
    "not a number": b"\x94\x05\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\xc0\xc0",
    "two values": b"\x91\x05\x91\x05",
    "nothing": b"",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_record_bomb_is_reported_at_low_cost_and_later_records_are_read(bomb: bytes, segment: Path) -> None:
    whole = segment.read_bytes()
    (first,) = struct.unpack_from("<I", whole)
    at = FRAME.size + first
    segment.write_bytes(whole[:at] + framed(bomb) + whole[at:])
    problems: list[Problem] = []
    tracemalloc.start()
    began = time.thread_time()
    try:
        read = list(read_segment(segment, problems))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == WRITTEN
    assert [(problem.offset, problem.kind) for problem in problems] == [(at, "corrupt")]
    assert peak < 12 * len(bomb) + (1 << 20)
    assert time.thread_time() - began < 5.0


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bulk_and_clock_readers_allocate_little_for_a_record_bomb(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        assert _columns(records.Deliver, [bomb] * 2) is None
        read_wall_ns(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(bomb) + (2 << 20)
