"""Envelopes: a round trip keeps the contents, bounds are kept, and a body without envelope is unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.envelope import HEADERS_BYTES_MAX, HEADERS_MAX, Envelope, Kind, unwrap, wrap
from sitestack.model.errors import LocalError, ProtocolError
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.addresses import address

headers = st.dictionaries(st.text(min_size=1, max_size=8), st.binary(max_size=20), max_size=HEADERS_MAX)
envelopes = st.builds(Envelope, st.sampled_from(Kind), st.integers(0, 2**64 - 1), headers)


def batch(body: bytes, count: int) -> Batch:
    return Batch("NYC", address("A"), Scope.ALL, 1, count, body)


@pytest.mark.conforms("REL-18", "SEQ-6")
@given(st.lists(st.tuples(envelopes, st.binary(max_size=30)), min_size=1, max_size=4))
def test_what_is_put_into_envelopes_comes_out_of_them(some: list[tuple[Envelope, bytes]]) -> None:
    wrapped = [wrap(envelope, payload) for envelope, payload in some]
    packed = batch(pack_body(wrapped, envelopes=True), len(some))
    assert packed.has_envelopes
    assert list(packed.opened()) == some
    assert list(packed.payloads()) == [payload for _, payload in some]
    assert packed.sizes == batch(pack_body(wrapped), len(some)).sizes, "as in a journal: the bit is no part of a size"


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_a_body_without_envelopes_says_so(payloads: list[bytes]) -> None:
    packed = batch(pack_body(payloads), len(payloads))
    assert not packed.has_envelopes
    assert list(packed.payloads()) == payloads


@given(st.binary(max_size=60), st.integers(0, 5))
def test_whatever_arrives_is_read_or_refused(body: bytes, count: int) -> None:
    for each in (body, body[:3] + b"\x80" + body[4:]):
        try:
            list(batch(each, count).payloads())
        except ProtocolError as error:
            assert error.reason in ("body", "envelope")  # noqa: PT017 (mostly it is refused, and not always)


@pytest.mark.parametrize(
    "bad",
    [
        {str(n): b"" for n in range(HEADERS_MAX + 1)},
        {"large": bytes(HEADERS_BYTES_MAX)},
        {"": b"no name"},
        {"x" * 256: b"long name"},
    ],
)
def test_headers_have_bounds(bad: dict[str, bytes]) -> None:
    with pytest.raises(LocalError):
        wrap(Envelope(headers=bad), b"")


def test_a_header_is_bytes() -> None:
    with pytest.raises(TypeError, match="not str"):
        wrap(Envelope(headers={"name": "text"}), b"")  # type: ignore[dict-item]


def test_an_envelope_beyond_the_bounds_is_refused_by_its_reader() -> None:
    whole = wrap(Envelope(headers={"a": b"1"}), b"payload")
    for bad in (whole[:9] + b"\xff" + whole[10:], b"\x09" + whole[1:], whole[:10], whole[:11] + b"\xff" + whole[12:]):
        with pytest.raises(ProtocolError):
            unwrap(bad)
