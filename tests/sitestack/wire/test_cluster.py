"""The first bytes of a datagram name its cluster, for every datagram and every name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitestack.model.address import Physical
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.seal import envelope
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal
from sitestack.wire.cluster import mark_of, marks_of
from sitestack.wire.codec import Codec
from sitestack.wire.slices import DIGEST_BYTES, Slice
from tests.harness.addresses import address

A, B = address("A"), address("B")
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=255)
PLACES = [None, B, Physical("127.0.0.1", 7_600)]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(names, st.sampled_from(PLACES), names)
def test_every_datagram_of_a_cluster_has_its_mark_and_no_others(cluster: str, dest: object, other: str) -> None:
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
def test_any_bytes_have_a_mark_that_may_be_nobodys(start: bytes, rest: bytes) -> None:
    assert isinstance(mark_of(start + rest), bytes)


def test_all_cuts_of_a_datagram_are_nobodys_until_the_name_is_whole() -> None:
    codec = Codec("NYC", {})
    whole = codec.encode_slice(Slice(A, bytes(DIGEST_BYTES), 0, 2, b"piece"))
    found = [mark_of(whole[:size]) in marks_of("NYC") for size in range(len(whole))]
    assert found == [False] * 8 + [True] * (len(whole) - 8)
