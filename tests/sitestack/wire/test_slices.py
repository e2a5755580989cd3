"""The marks of clusters, and the slices of large datagrams."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.seal import envelope
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal
from sitestack.wire.cluster import mark_of, marks_of
from sitestack.wire.codec import Codec
from sitestack.wire.slices import DIGEST_BYTES, SLICE_COST_BYTES, SLICES_MAX, Assembly, Slice, cut
from tests.harness.addresses import address

A, B = address("A"), address("B")
CODEC = Codec("NYC", {})
DATAGRAM = random.Random(1).randbytes(5_000)


def assembly(bytes_max: int = 1 << 20, each_bytes_max: int = 1 << 19) -> Assembly:
    return Assembly(bytes_max, each_bytes_max)


@given(st.binary(min_size=2, max_size=3_000), st.integers(60, 1_000), st.randoms())
def test_a_datagram_is_reassembled_from_duplicated_slices_in_any_order(data: bytes, size: int, rng: random.Random) -> None:
    slices = cut(A, data, size)
    put, shuffled = assembly().put, slices * 2
    rng.shuffle(shuffled)
    whole = [each for each in map(put, shuffled) if each is not None]
    assert whole[0] == data
    assert all(each == data for each in whole)


def test_a_lost_slice_may_arrive_with_a_retransmission_of_its_datagram() -> None:
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
def test_an_invalid_slice_is_refused(digest: bytes, index: int, count: int, data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        CODEC.decode(CODEC.encode_slice(Slice(A, digest, index, count, data)))


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=255)
PLACES = [None, B, Physical("127.0.0.1", 7_600)]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(names, st.sampled_from(PLACES), names)
def test_every_datagram_of_a_cluster_carries_only_the_mark_of_that_cluster(cluster: str, dest: object, other: str) -> None:
    codec = Codec(cluster, {})
    batch = Batch(cluster, A, Scope.ALL, 1, 1, pack_body([b"x"]))
    assert dest is None or isinstance(dest, (bytes, Physical))
    whole = codec.encode_datagram(A, dest, [codec.encode_frame(Frame(A, None, (), batch))])  # type: ignore[arg-type]
    piece = codec.encode_slice(Slice(A, bytes(DIGEST_BYTES), 0, 2, b"piece"))
    plain, sealed = marks_of(cluster)
    seal = Seal(cluster, KeyRing.of(bytes(32)), bytes(16), lambda: bytes(8), 0.0)
    assert mark_of(whole) == mark_of(piece) == plain
    assert mark_of(seal.seal(whole, 0.0)) == sealed
    assert mark_of(envelope.head(envelope.INTRODUCTION, cluster) + bytes(60)) == sealed
    if other != cluster:
        assert plain not in marks_of(other)


@pytest.mark.parametrize("start", [b"", b"\xb7R\x02\x95", b"H\xad\x01\x00", b"\xb7R\x02\x95\xd9", b"\xb7R\x02\x95\xda\xff"])
@settings(deadline=None, derandomize=True, max_examples=30)
@given(rest=st.binary(max_size=20))
def test_any_bytes_yield_a_mark(start: bytes, rest: bytes) -> None:
    assert isinstance(mark_of(start + rest), bytes)


def test_a_truncated_datagram_has_a_cluster_mark_only_with_the_whole_name() -> None:
    codec = Codec("NYC", {})
    whole = codec.encode_slice(Slice(A, bytes(DIGEST_BYTES), 0, 2, b"piece"))
    found = [mark_of(whole[:size]) in marks_of("NYC") for size in range(len(whole))]
    assert found == [False] * 8 + [True] * (len(whole) - 8)
