"""Messages, their bodies and their envelopes."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.envelope import HEADERS_BYTES_MAX, HEADERS_MAX, Envelope, Kind, unwrap, wrap
from sitestack.model.errors import LocalError, ProtocolError
from sitestack.model.message import Batch, Message, MessageId, Scope, pack_body, unpack_body
from sitestack.model.roster import Roster
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

A, B = address("A"), address("B")
NAMED = Roster("", [View(ViewId(1, A), ViewId(1, A), (A,), ("Ann",))])


def batch_of(*payloads: bytes) -> Batch:
    return Batch("NYC", A, Scope.ALL, 7, len(payloads), pack_body(payloads))


def delivered(*payloads: bytes) -> list[Message]:
    return list(Delivery(A, batch_of(*payloads), NAMED).messages())


@given(
    st.one_of(
        st.lists(st.binary(max_size=9), max_size=40),
        st.builds(lambda n, size: n * [bytes(size)], st.integers(0, 99), st.integers(0, 9)),
    )
)
def test_an_unpacked_body_equals_the_packed_payloads(payloads: list[bytes]) -> None:
    assert list(unpack_body(pack_body(payloads), len(payloads))) == payloads


@pytest.mark.parametrize("payloads", [(b"one", b"two"), (b"one", b"three"), (b"", b"")])
def test_a_body_of_another_length_is_refused_before_anything_is_cut(payloads: tuple[bytes, ...]) -> None:
    body = pack_body(payloads)
    wrong = [(body, 1), (body, 3), (body + b"x", 2), (body[:-1], 2), (body[:6], 2), (b"", 2), (b"\1", 1)]
    for data, number in wrong:
        with pytest.raises(ProtocolError, match="body"):
            unpack_body(data, number)


def test_the_messages_of_a_batch_carry_their_sender_and_id() -> None:
    first, second = delivered(b"x", b"yes")
    assert (first.source, first.payload, first.id, first.scope) == (A, b"x", MessageId("NYC", A, Scope.ALL, 7), Scope.ALL)
    assert (second.payload, second.id.n, second.sender) == (b"yes", 8, "Ann")
    assert repr(second) == f"Message(source={A!r}, payload=b'yes', id={second.id!r})"


def test_messages_are_equal_by_source_payload_and_id_and_never_to_a_tuple() -> None:
    first, second = delivered(b"x", b"x")
    same = Message(A, b"x", MessageId("NYC", A, Scope.ALL, 8))
    assert second == same, "though its number follows from another place, and it has no names"
    assert hash(second) == hash(same)
    others = (first, Message(B, b"x", same.id), Message(A, b"y", same.id), Message(A, b"x", MessageId("SFO", A, Scope.ALL, 8)))
    assert all(other != second for other in others)
    assert second != tuple(second)
    assert len({first, second, same}) == 2


def test_a_message_can_be_copied_stored_and_matched() -> None:
    [message] = delivered(b"x")
    for again in (copy.copy(message), copy.deepcopy(message)):
        assert (again, again.sender) == (message, "Ann")
    assert pickle.loads(pickle.dumps(Message(A, b"x", message.id))) == message
    match message:
        case Message(source, b"x", id=MessageId(n=n)):
            assert (source, n) == (A, 7)
        case _:
            pytest.fail("it is matched by its parts")


def test_a_message_that_is_kept_does_not_keep_the_batch_that_it_came_in() -> None:
    batch = batch_of(b"kept", random.Random(1).randbytes(1_000))
    watched = Watched(batch.site, batch.origin, batch.scope, batch.first, batch.count, batch.body)
    seen, kept = weakref.ref(watched), next(Delivery(A, watched).messages())
    del watched
    gc.collect()
    assert seen() is None
    assert kept.payload == b"kept"


class Watched(Batch):
    """A batch of which one can tell when it is gone."""

    __slots__ = ("__weakref__",)


headers = st.dictionaries(st.text(min_size=1, max_size=8), st.binary(max_size=20), max_size=HEADERS_MAX)
envelopes = st.builds(Envelope, st.sampled_from(Kind), st.integers(0, 2**64 - 1), headers)


def batch(body: bytes, count: int) -> Batch:
    return Batch("NYC", address("A"), Scope.ALL, 1, count, body)


@pytest.mark.conforms("REL-18", "SEQ-6")
@given(st.lists(st.tuples(envelopes, st.binary(max_size=30)), min_size=1, max_size=4))
def test_envelopes_and_payloads_survive_wrapping_and_packing(some: list[tuple[Envelope, bytes]]) -> None:
    wrapped = [wrap(envelope, payload) for envelope, payload in some]
    packed = batch(pack_body(wrapped, envelopes=True), len(some))
    assert packed.has_envelopes
    assert list(packed.opened()) == some
    assert list(packed.payloads()) == [payload for _, payload in some]
    assert packed.sizes == batch(pack_body(wrapped), len(some)).sizes, "as in a journal: the bit is no part of a size"


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_a_body_without_envelopes_is_recognised(payloads: list[bytes]) -> None:
    packed = batch(pack_body(payloads), len(payloads))
    assert not packed.has_envelopes
    assert list(packed.payloads()) == payloads


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_body_is_read_or_refused(body: bytes, count: int) -> None:
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
