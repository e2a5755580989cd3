"""The border between bytes and frames: valid ones survive a round trip, everything else is one ProtocolError."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import dataclass
from enum import IntEnum

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame, Header
from sitestack.model.message import UNICASTS, Batch, Scope, pack_body
from sitestack.model.view import SubView, View, ViewId
from sitestack.wire.codec import DATAGRAM_BYTES_MAX, FRAMES_MAX, HEADERS_MAX, MAGIC, VERSION, Codec, bundles, frames_max
from sitestack.wire.schema import INT_MAX
from tests.harness.addresses import address

A, B = map(address, "AB")


class Colour(IntEnum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Everything(Header):
    """One field of every kind that can travel."""

    number: int
    flag: bool
    part: float
    text: str
    raw: bytes
    who: Address
    proxy: ProxyUUID
    where: tuple[Physical, ...]
    view: View | None
    vector: dict[Address, int]
    ranges: tuple[tuple[int, int], ...]
    colour: Colour
    nested: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Small(Header):
    number: int


CODEC = Codec("NYC", {1: Everything, 2: Small})

addresses = st.binary(min_size=16, max_size=16).map(Address)
numbers = st.integers(min_value=0, max_value=2**62)
texts = st.text(max_size=20).filter(str.isprintable)
view_ids = st.builds(ViewId, numbers, addresses)
views = st.builds(
    lambda vid, lineage, members, subs: View(vid, lineage, tuple(members), tuple("n" for _ in members), tuple(subs)),
    view_ids,
    view_ids,
    st.lists(addresses, min_size=1, max_size=5),
    st.lists(st.builds(SubView, view_ids, st.lists(addresses, max_size=3).map(tuple), view_ids), max_size=2),
)
smalls = st.builds(Small, numbers)
everythings = st.builds(
    Everything,
    numbers,
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.binary(max_size=50),
    addresses,
    st.builds(ProxyUUID, addresses, texts, st.none() | addresses),
    st.lists(st.builds(Physical, st.just("10.0.0.1"), st.integers(1, 65535)), max_size=3).map(tuple),
    st.none() | views,
    st.dictionaries(addresses, numbers, max_size=4),
    st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
    st.sampled_from(Colour),
    st.lists(smalls, max_size=2).map(tuple),
)
batches = st.builds(
    lambda site, origin, scope, first, payloads, target: Batch(
        site,
        origin,
        scope,
        first,
        len(payloads),
        pack_body(payloads),
        target if scope in UNICASTS else None,
        "SFO" if scope in UNICASTS else "",
    ),
    texts,
    addresses,
    st.sampled_from(Scope),
    st.integers(min_value=1, max_value=2**40),
    st.lists(st.binary(max_size=30), min_size=1, max_size=6),
    addresses,
)
frames = st.builds(
    lambda dest, headers, batch, unreliable: Frame(A, dest, tuple(headers), batch, unreliable),
    st.just(B),
    st.lists(everythings | smalls, max_size=3),
    st.none() | batches,
    st.booleans(),
).filter(lambda frame: frame.headers or frame.batch)


def encode(*items: Frame, dest: Address | Physical | None = B) -> bytes:
    return CODEC.encode_datagram(A, dest, [CODEC.encode_frame(frame) for frame in items])


@given(st.lists(frames, min_size=1, max_size=20))
def test_every_frame_comes_back_as_it_was(sent: list[Frame]) -> None:
    datagram = CODEC.decode(encode(*sent))
    assert list(datagram.frames) == sent
    assert (datagram.source, datagram.dest, datagram.multicast) == (A, B, False)


def test_multicasts_and_datagrams_to_a_physical_address_have_no_destination() -> None:
    """A4: neither has one, so the datagram states its kind."""
    frame = Frame(A, None, (Small(1),))
    assert CODEC.decode(encode(frame, dest=None)).multicast
    to_whoever = CODEC.decode(encode(frame, dest=Physical("127.0.0.1", 1)))
    assert to_whoever.dest is None
    assert not to_whoever.multicast


def test_many_frames_fit_into_one_datagram() -> None:
    many = [Frame(A, B, (Small(n),), Batch("NYC", A, Scope.ALL, 1, 1, pack_body([b"x"]))) for n in range(FRAMES_MAX)]
    assert list(CODEC.decode(encode(*many)).frames) == many


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_and_never_raise_anything_else(data: bytes) -> None:
    for attempt in (data, MAGIC + bytes([VERSION]) + data):
        with pytest.raises(ProtocolError):
            CODEC.decode(attempt)


@given(st.lists(frames, min_size=1, max_size=2), st.data())
def test_a_truncated_or_lengthened_datagram_is_refused(sent: list[Frame], data: st.DataObject) -> None:
    whole = encode(*sent)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for bad in (whole[:cut], whole + b"\x00"):
        with pytest.raises(ProtocolError):
            CODEC.decode(bad)


@given(st.lists(frames, min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_a_damaged_datagram_gives_frames_or_a_protocol_error(sent: list[Frame], rng: random.Random) -> None:
    damaged = bytearray(encode(*sent))
    for _ in range(3):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    try:
        CODEC.decode(bytes(damaged))
    except ProtocolError:
        return


def test_another_cluster_is_refused() -> None:
    with pytest.raises(ProtocolError, match="cluster"):
        Codec("SFO", {2: Small}).decode(encode(Frame(A, B, (Small(1),))))


def test_a_sealed_datagram_is_refused_as_sealed() -> None:
    with pytest.raises(ProtocolError) as refused:
        CODEC.decode(b"H\xad\x01" + bytes(100))
    assert refused.value.reason == "sealed"


def test_another_version_is_refused() -> None:
    data = bytearray(encode(Frame(A, B)))
    data[2] += 1
    with pytest.raises(ProtocolError, match="version"):
        CODEC.decode(bytes(data))


def spoilt(frames_value: object, kind: object = 1, dest: object = bytes(B)) -> bytes:
    packed: bytes = msgpack.packb(["NYC", bytes(A), kind, dest, frames_value])
    return MAGIC + bytes([VERSION]) + packed


GOOD_BATCH = ["NYC", bytes(A), 0, 1, 1, b"\x00\x00\x00\x00", None, ""]


SMALL_FRAMES = [[False, [[2, 1]], None]]


@pytest.mark.parametrize(("kind", "dest"), [(0, None), (1, bytes(B)), (2, None)])
def test_only_a_datagram_to_one_member_names_it(kind: int, dest: bytes | None) -> None:
    assert CODEC.decode(spoilt(SMALL_FRAMES, kind, dest)).dest == (None if dest is None else B)
    for bad in ((kind, bytes(B) if dest is None else None), (kind + 4, dest), ("1", dest)):
        with pytest.raises(ProtocolError):
            CODEC.decode(spoilt(SMALL_FRAMES, *bad))


def test_a_batch_whose_next_number_could_not_travel_is_refused() -> None:
    """The table of received numbers carries the number after the last one; a joiner could not read a larger one."""
    for count, first in ((1, INT_MAX - 1), (2, INT_MAX - 2)):
        batch = [*GOOD_BATCH[:3], first, count, bytes(4 * count), None, ""]
        assert CODEC.decode(spoilt([[False, [], batch]])).frames[0].batch is not None
        with pytest.raises(ProtocolError, match="batch"):
            CODEC.decode(spoilt([[False, [], [*batch[:3], first + 1, *batch[4:]]]]))


@pytest.mark.parametrize(
    ("index", "value"),
    [(0, 5), (1, b"short"), (2, 3), (2, True), (3, 0), (3, -1), (4, 0), (4, 2), (5, "text"), (6, bytes(B)), (7, None)],
)
def test_a_batch_with_a_wrong_field_is_refused(index: int, value: object) -> None:
    assert CODEC.decode(spoilt([[False, [], GOOD_BATCH]])).frames[0].batch is not None
    batch = [*GOOD_BATCH[:index], value, *GOOD_BATCH[index + 1 :]]
    with pytest.raises(ProtocolError):
        CODEC.decode(spoilt([[False, [], batch]]))


def nested(depth: int, size: int) -> bytes:
    """Return arrays inside each other, each announcing about the length of all of the input."""
    return (b"\xdd" + size.to_bytes(4, "big")) * depth + b"\xc0" * (size - 5 * depth)


def lists(count: int) -> bytes:
    """An array of empty arrays."""
    return b"\xdd" + count.to_bytes(4, "big") + b"\x90" * count


@pytest.mark.parametrize(
    "bomb", [nested(1_000, 60_000), nested(250, 1_400), nested(1_000, 1 << 20), lists(1 << 21), lists(60_000)]
)
def test_a_refused_datagram_uses_memory_only_in_proportion_to_its_size(bomb: bytes) -> None:
    """An array may announce any length, and an empty one takes seventy bytes: it is counted before it is made."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="malformed"):
            CODEC.decode(MAGIC + bytes([VERSION]) + bomb)
        with pytest.raises(ProtocolError, match=r"malformed|header"):
            CODEC.parse(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(bomb) + 300_000


def test_after_refused_input_the_next_datagram_is_read() -> None:
    for bad in (nested(10, 1_000), lists(60_000), b"\x95\xc0", b"\xc0\xc0", b"\xc1"):
        with pytest.raises(ProtocolError):
            CODEC.decode(MAGIC + bytes([VERSION]) + bad)
        assert CODEC.decode(encode(Frame(A, B, (Small(1),)))).frames == (Frame(A, B, (Small(1),)),)


def test_empty_frames_are_refused() -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        CODEC.decode(spoilt([[False, [], None]] * (FRAMES_MAX - 1)))


@pytest.mark.parametrize(
    "header",
    [[], [99], [2], [2, 1, 1], [2, "1"], [2, True], [2, 1.0], [2, 1 << 63], ["2", 1], 2, [2, None], [True, 1]],
)
def test_a_header_that_does_not_have_its_exact_shape_is_refused(header: object) -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode(spoilt([[False, [header], None]]))


def test_the_number_of_headers_and_frames_is_bounded() -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode(spoilt([[False, [[2, 1]] * (HEADERS_MAX + 1), None]]))
    with pytest.raises(ProtocolError):
        CODEC.decode(spoilt([[False, [[2, 1]], None]] * (FRAMES_MAX + 1)))


def test_small_frames_are_few_so_that_every_byte_causes_bounded_work() -> None:
    """A frame costs far more than its bytes: a datagram of nothing but the smallest ones would hold up a member for long."""
    small = [False, [[2, 1]], None]
    assert len(CODEC.decode(spoilt([small] * frames_max(0))).frames) == frames_max(0)
    with pytest.raises(ProtocolError, match="malformed"):
        CODEC.decode(spoilt([small] * (frames_max(0) + 10)))
    with pytest.raises(ProtocolError, match="malformed"):
        CODEC.decode(spoilt([small] * FRAMES_MAX))
    assert frames_max(DATAGRAM_BYTES_MAX) == FRAMES_MAX <= 256


@pytest.mark.parametrize("count", [1, 8, 9, 200, 5_000])
@pytest.mark.parametrize("size", [7, 31, 33, 100, 1_000])
def test_frames_are_bundled_as_they_are_taken(count: int, size: int) -> None:
    for bundle in bundles([b"x" * size] * count, 20_000):
        assert len(bundle) <= frames_max(sum(map(len, bundle)))
        assert sum(map(len, bundle)) <= 20_000
    assert sum(map(len, bundles([b"x" * size] * count, 20_000))) == count


def test_the_largest_batch_of_a_datagram_is_read_without_a_copy_too_many() -> None:
    body = pack_body([b"x" * 60_000])
    datagram = CODEC.decode(encode(Frame(A, B, (), Batch("NYC", A, Scope.ALL, 1, 1, body))))
    assert len(encode(Frame(A, B, (), Batch("NYC", A, Scope.ALL, 1, 1, body)))) < DATAGRAM_BYTES_MAX
    assert datagram.frames[0].batch is not None
    assert list(datagram.frames[0].batch.payloads()) == [b"x" * 60_000]


@pytest.mark.conforms("LA-27")
def test_an_address_is_sixteen_bytes_and_a_tag_and_a_view_lists_its_members_once() -> None:
    plain = len(CODEC.pack(Small(1)))
    members = tuple(Address(bytes([n]) * 16) for n in range(10))
    vid = ViewId(1, members[0])
    view = View(vid, vid, members, ("n",) * 10)
    header = Everything(1, True, 1.0, "", b"", A, ProxyUUID(A, ""), (), view, {}, (), Colour.RED, ())
    without = Everything(1, True, 1.0, "", b"", A, ProxyUUID(A, ""), (), None, {}, (), Colour.RED, ())
    assert CODEC.pack(header).count(bytes(members[1])) == 1
    assert len(msgpack.packb(bytes(A))) == 18
    assert len(CODEC.pack(header)) - len(CODEC.pack(without)) < 10 * 18 + 10 * 2 + 2 * 22 + 8
    assert plain < 8


def test_equal_keys_in_a_vector_are_refused() -> None:
    header = Everything(1, True, 1.0, "", b"", A, ProxyUUID(A, ""), (), None, {A: 1}, (), Colour.RED, ())
    plain = CODEC.unpack(CODEC.pack(header))
    assert CODEC.schema.parse_header(plain) == header
    twice = [[bytes(A), 1, bytes(A), 2] if part == [bytes(A), 1] else part for part in plain]
    assert twice != plain
    with pytest.raises(ProtocolError):
        CODEC.schema.parse_header(twice)
