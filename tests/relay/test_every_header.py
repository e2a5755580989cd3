"""Every registered header, in a stack or on a bridge: valid ones survive a round trip, others are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame, Header
from sitestack.model.short_ids import ShortIds
from sitestack.wire.codec import MAGIC, VERSION, Codec, Datagram
from tests.relay.any_header import ADDRESSES, EVERY, addresses, batches, headers, values

T = TypeVar("T")

A, B = ADDRESSES[:2]
CODEC = Codec("NYC", EVERY)
#: The largest states are drawn slowly, and often again, as they exceed the limit of a draw.
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
#: Reasons of a decoder, with one word for each.
REASONS = {"magic", "version", "malformed", "cluster", "header", "field", "batch", "body"}

any_header = headers(tuple(EVERY.values()))
frames = st.builds(
    lambda dest, carried, batch, unreliable: Frame(A, dest, tuple(carried), batch, unreliable),
    st.just(B),
    st.lists(any_header, max_size=3),
    st.none() | batches(),
    st.booleans(),
).filter(lambda frame: frame.headers or frame.batch)
#: What msgpack can hold, whether it means anything or not.
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=20)
    | addresses.map(bytes),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


def outcome(decode: Callable[[bytes], T], data: bytes) -> T | str:
    """Return the decoded value, or the reason of its refusal."""
    try:
        return decode(data)
    except ProtocolError as error:
        return error.reason


@pytest.mark.parametrize("number", EVERY, ids=lambda number: f"{number:#x}")
def test_every_class_comes_back_as_it_was_with_its_own_type(number: int) -> None:
    """A15: a view and a merge view are one class, and no header is read back as another one."""

    @settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=SLOW)
    @given(values(EVERY[number]))
    def check(header: Header) -> None:
        back = CODEC.parse(CODEC.pack(header))
        assert back == header
        assert type(back) is type(header) is EVERY[number]

    check()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.lists(frames, min_size=1, max_size=5))
def test_frames_of_them_come_back_in_a_datagram(sent: list[Frame]) -> None:
    datagram = CODEC.decode(CODEC.encode_datagram(A, B, [CODEC.encode_frame(frame) for frame in sent]))
    assert list(datagram.frames) == sent


@pytest.mark.slow
@pytest.mark.conforms("LA-22")
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.lists(frames, min_size=1, max_size=5), st.lists(addresses, unique=True))
def test_frames_with_short_ids_survive_a_round_trip_for_addresses_in_any_field(
    sent: list[Frame], numbered: list[Address]
) -> None:
    ids = ShortIds(0, {member: number for number, member in enumerate(numbered, 1)})
    codec = Codec("NYC", EVERY)
    codec.learn(ids)
    datagram = codec.decode(codec.encode_datagram(A, B, [codec.encode_frame(frame, ids) for frame in sent], ids))
    assert list(datagram.frames) == sent


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.sampled_from(sorted(EVERY)), st.lists(plain, max_size=8))
def test_random_fields_are_refused_or_parse_to_a_header_that_survives_a_round_trip(number: int, fields: list[Any]) -> None:
    header = outcome(CODEC.parse, msgpack.packb([number, *fields], use_bin_type=True))
    if isinstance(header, Header):
        assert type(header) is EVERY[number]
        assert CODEC.parse(CODEC.pack(header)) == header
    else:
        assert header in REASONS


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(any_header, st.data())
def test_one_field_too_many_too_few_or_of_another_kind_is_refused(header: Header, data: st.DataObject) -> None:
    """A15: trailing fields are not ignored."""
    packed = CODEC.unpack(CODEC.pack(header))
    broken = [[*packed, None], packed[:-1] if len(packed) > 1 else []]
    if len(packed) > 1:
        place = data.draw(st.integers(1, len(packed) - 1))
        broken.append([*packed[:place], {}, *packed[place + 1 :]])
    for value in broken:
        with pytest.raises(ProtocolError):
            CODEC.schema.parse_header(value)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.lists(frames, min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_a_damaged_datagram_of_them_gives_frames_or_one_reason(sent: list[Frame], rng: random.Random) -> None:
    damaged = bytearray(CODEC.encode_datagram(A, B, [CODEC.encode_frame(frame) for frame in sent]))
    for _ in range(rng.randrange(1, 4)):
        damaged[rng.randrange(3, len(damaged))] = rng.randrange(256)
    for data in (bytes(damaged), bytes(damaged[: rng.randrange(len(damaged))])):
        datagram = outcome(CODEC.decode, data)
        if isinstance(datagram, Datagram):
            assert all(type(header) in EVERY.values() for frame in datagram.frames for header in frame.headers)
        else:
            assert datagram in REASONS


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([0x70, 5], "field"),
        ([0x70, [5, "text"]], "field"),
        ([0x70, [1.5, bytes(A)]], "field"),
        ([0x71, b"name"], "field"),
        ([0x71, "n" * 2_000], "field"),
        ([0x75, [2**63, bytes(A)]], "field"),
        ([0x999], "header"),
        (["0x70"], "header"),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(fields: list[Any], reason: str) -> None:
    """The reasons that a member counts for another one's frames."""
    frame = [False, [fields], None]
    packed: bytes = msgpack.packb(["NYC", bytes(A), 1, bytes(B), [frame]], use_bin_type=True)
    with pytest.raises(ProtocolError, match=f"^{reason}$"):
        CODEC.decode(MAGIC + bytes([VERSION]) + packed)


@pytest.mark.parametrize(("members", "names"), [([], []), ([bytes(A)], []), ([bytes(A)], ["a", "b"])])
def test_a_view_without_members_or_with_other_names_than_members_is_refused(members: list[bytes], names: list[str]) -> None:
    """A15: code that uses a view asks for its coordinator, and for the name of each member."""
    vid = [1, bytes(A)]
    good = [0xC2, [vid, vid, [bytes(A)], ["a"], []]]
    assert type(CODEC.schema.parse_header(good)) is EVERY[0xC2]
    with pytest.raises(ProtocolError, match=r"^field$"):
        CODEC.schema.parse_header([0xC2, [vid, vid, members, names, []]])


def test_an_address_is_never_taken_for_text_or_a_number() -> None:
    """A8: members are compared by their uuids, and nothing else stands for one."""
    assert Address(bytes(A)) == A
    for other in (bytes(A).hex(), int.from_bytes(A, "big"), [*A], bytes(A) + b"\x00"):
        with pytest.raises(ProtocolError):
            CODEC.schema.parse_address(other)
