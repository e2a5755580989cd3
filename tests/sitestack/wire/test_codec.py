"""The border between bytes and frames: valid ones survive a round trip, everything else is one ProtocolError."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
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

EVERYTHING = Everything(
    1,
    True,
    1.5,
    "text",
    b"raw",
    A,
    ProxyUUID(A, "SFO", B),
    (Physical("10.0.0.1", 1),),
    View(ViewId(1, A), ViewId(1, A), (A, B), ("A", "B"), (SubView(ViewId(1, B), (B,), ViewId(1, B)),)),
    {A: 1},
    ((1, 2), (3, 4)),
    Colour.RED,
    (Small(2),),
)
BATCH = Batch("NYC", A, Scope.UNICAST, 1, 2, pack_body([b"x", b""]), B, "SFO")
SENT = [Frame(A, B, (EVERYTHING, Small(1)), BATCH), Frame(A, B, (Small(2),), None, True)]


def encode(*items: Frame, dest: Address | Physical | None = B) -> bytes:
    return CODEC.encode_datagram(A, dest, [CODEC.encode_frame(frame) for frame in items])


def test_a_datagram_comes_back_as_it_was_and_neither_truncated_nor_lengthened() -> None:
    whole = encode(*SENT)
    datagram = CODEC.decode(whole)
    assert list(datagram.frames) == SENT
    assert (datagram.source, datagram.dest, datagram.multicast) == (A, B, False)
    for bad in (*[whole[:size] for size in range(len(whole))], whole + b"\x00"):
        with pytest.raises(ProtocolError):
            CODEC.decode(bad)


def test_multicasts_and_datagrams_to_a_physical_address_have_no_destination() -> None:
    """A4: neither has one, so the datagram states its kind."""
    frame = Frame(A, None, (Small(1),))
    assert CODEC.decode(encode(frame, dest=None)).multicast
    to_whoever = CODEC.decode(encode(frame, dest=Physical("127.0.0.1", 1)))
    assert to_whoever.dest is None
    assert not to_whoever.multicast


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_and_never_raise_anything_else(data: bytes) -> None:
    for attempt in (data, MAGIC + bytes([VERSION]) + data):
        with pytest.raises(ProtocolError):
            CODEC.decode(attempt)


@given(st.randoms(use_true_random=False))
def test_a_damaged_datagram_gives_frames_or_a_protocol_error(rng: random.Random) -> None:
    damaged = bytearray(encode(*SENT))
    for _ in range(3):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    with suppress(ProtocolError):
        CODEC.decode(bytes(damaged))


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


@pytest.mark.conforms("LA-27")
def test_an_address_is_sixteen_bytes_and_a_tag_and_a_view_lists_its_members_once() -> None:
    plain = len(CODEC.pack(Small(1)))
    members = tuple(Address(bytes([n]) * 16) for n in range(10))
    vid = ViewId(1, members[0])
    view = View(vid, vid, members, ("n",) * 10)
    header, without = replace(EVERYTHING, view=view), replace(EVERYTHING, view=None)
    assert CODEC.pack(header).count(bytes(members[1])) == 1
    assert len(msgpack.packb(bytes(A))) == 18
    assert len(CODEC.pack(header)) - len(CODEC.pack(without)) < 10 * 18 + 10 * 2 + 2 * 22 + 8
    assert plain < 8


def test_equal_keys_in_a_vector_are_refused() -> None:
    plain = CODEC.unpack(CODEC.pack(EVERYTHING))
    assert CODEC.schema.parse_header(plain) == EVERYTHING
    twice = [[bytes(A), 1, bytes(A), 2] if part == [bytes(A), 1] else part for part in plain]
    assert twice != plain
    with pytest.raises(ProtocolError):
        CODEC.schema.parse_header(twice)
