"""Slices: a datagram arrives whole from its pieces, in any order, and incomplete ones are bounded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.wire.codec import DATAGRAM_BYTES_MAX, Codec
from sitestack.wire.slices import SLICE_COST_BYTES, SLICES_MAX, Assembly, Slice, cut
from tests.harness.addresses import address

A, B = address("A"), address("B")
CODEC = Codec("NYC", {})
DATAGRAM = random.Random(1).randbytes(5_000)


def assembly(bytes_max: int = 1 << 20, each_bytes_max: int = 1 << 19) -> Assembly:
    return Assembly(bytes_max, each_bytes_max)


@given(st.binary(min_size=2, max_size=3_000), st.integers(60, 1_000), st.randoms())
def test_a_datagram_is_what_its_slices_make_in_any_order_and_however_often(data: bytes, size: int, rng: random.Random) -> None:
    slices = cut(A, data, size)
    put, shuffled = assembly().put, slices * 2
    rng.shuffle(shuffled)
    whole = [each for each in map(put, shuffled) if each is not None]
    assert whole[0] == data
    assert all(each == data for each in whole)


def test_what_is_lost_once_may_come_with_the_same_datagram_sent_again() -> None:
    parts = assembly()
    first, again = cut(A, DATAGRAM, 1_000), cut(A, DATAGRAM, 1_000)
    assert [parts.put(each) for each in first if each.index != 2] == [None] * 4
    assert parts.put(again[2]) == DATAGRAM
    assert parts.bytes.now == 0


def test_datagrams_of_two_sources_and_two_of_one_do_not_mix() -> None:
    other = DATAGRAM[::-1]
    parts = assembly()
    ways = [cut(A, DATAGRAM, 1_000), cut(B, DATAGRAM, 1_000), cut(A, other, 1_000)]
    whole = [parts.put(ways[way][index]) for index in range(5) for way in range(3)]
    assert whole == [None] * 12 + [DATAGRAM, DATAGRAM, other]


def test_the_oldest_of_a_source_goes_and_other_sources_keep_theirs() -> None:
    parts = assembly(each_bytes_max=3_000)
    first, second, third = [cut(A, bytes([n]) + DATAGRAM, 1_000) for n in range(3)]
    whole = cut(B, DATAGRAM, 2_500)
    parts.put(whole[0])
    for each in (first, second, third):
        parts.put(each[0])
    assert parts.bytes.now == 2 * (1_000 + SLICE_COST_BYTES) + 2_500 + SLICE_COST_BYTES
    assert parts.put(whole[1]) == DATAGRAM


def test_all_sources_together_are_bounded_too() -> None:
    parts = assembly(bytes_max=10_000)
    for n in range(100):
        parts.put(cut(Address(bytes([n]) * 16), DATAGRAM, 1_000)[0])
    assert parts.bytes.now <= 10_000
    assert parts.bytes.high is not None
    assert parts.bytes.high <= 10_000 + 1_000 + SLICE_COST_BYTES


def test_a_source_with_one_slice_above_its_bound_is_left_with_nothing() -> None:
    parts = assembly(each_bytes_max=500)
    assert parts.put(cut(A, DATAGRAM, 1_000)[0]) is None
    assert parts.bytes.now == 0


def test_the_largest_datagram_fits_into_slices_of_the_least_size() -> None:
    assert len(cut(A, bytes(DATAGRAM_BYTES_MAX), 548 - 128)) <= SLICES_MAX


def test_a_slice_is_no_datagram() -> None:
    """So a slice of a slice, which no member makes, is refused when assembled."""
    with pytest.raises(ProtocolError, match="slice"):
        CODEC.decode(CODEC.encode_slice(cut(A, DATAGRAM, 1_000)[0]))


def test_a_slice_survives_the_wire() -> None:
    for each in cut(A, DATAGRAM, 1_000):
        assert CODEC.decode_any(CODEC.encode_slice(each)) == each


@pytest.mark.parametrize(
    ("digest", "index", "count", "data"),
    [
        (b"x" * 7, 0, 2, b"x"),
        (b"x" * 8, 2, 2, b"x"),
        (b"x" * 8, -1, 2, b"x"),
        (b"x" * 8, 0, 1, b"x"),
        (b"x" * 8, 0, SLICES_MAX + 1, b"x"),
        (b"x" * 8, 0, 2, b""),
    ],
)
def test_a_slice_that_nobody_makes_is_refused(digest: bytes, index: int, count: int, data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        CODEC.decode(CODEC.encode_slice(Slice(A, digest, index, count, data)))
