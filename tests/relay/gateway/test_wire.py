"""The bytes of the bridge: cut anywhere, and hostile."""

from __future__ import annotations

import time

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.gateway.wire import FRAMES, FrameParser, Heartbeat, encode
from relay.replica.entries import HEADERS, RelayState, UnicastRefusal, UnicastReply
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from tests.harness.relay.puppet import D, E, hello
from tests.relay.any_header import headers
from tests.relay.test_every_header import SLOW

any_frame = headers(tuple(FRAMES.values()))


def parse_all(chunks: list[bytes], bytes_max: int = 1 << 20) -> list[Header]:
    parser = FrameParser(bytes_max)
    frames = []
    for chunk in chunks:
        parser.feed(chunk)
        while (frame := parser.next_frame()) is not None:
            frames.append(frame)
    return frames


@pytest.mark.parametrize(
    ("word", "refusal"),
    [("", None), ("no_member", UnicastRefusal.NO_MEMBER), ("a_word_of_version_2", UnicastRefusal.OTHER)],
)
def test_a_refusal_is_encoded_as_text_and_unknown_text_is_another_refusal(word: str, refusal: UnicastRefusal | None) -> None:
    packed: bytes = msgpack.packb([0x112, "NYC", bytes(D), "SFO", bytes(E), 9, 2, word])
    reply = UnicastReply("NYC", D, "SFO", E, 9, 2, refusal)
    assert parse_all([len(packed).to_bytes(4, "big") + packed]) == [reply]
    assert (encode(reply)[4:] == packed) == (refusal is not UnicastRefusal.OTHER)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.lists(any_frame, max_size=4), st.lists(st.integers(1, 200), max_size=40))
def test_frames_that_are_cut_anywhere_come_back(sent: list[Header], sizes: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    chunks, at = [], 0
    for size in sizes:
        chunks.append(stream[at : at + size])
        at += size
    assert parse_all([*chunks, stream[at:]]) == sent
    assert parse_all([stream[at : at + 1] for at in range(len(stream))]) == sent, "a byte at a time"


@pytest.mark.parametrize("length", [0, 4_097, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_hostile_length_is_refused_before_anything_of_it_has_come(length: int) -> None:
    """C11."""
    with pytest.raises(ProtocolError, match="bridge_length"):
        parse_all([length.to_bytes(4, "big")], 4_096)


def test_the_limit_may_grow_between_two_frames() -> None:
    parser = FrameParser(200)
    parser.feed(encode(hello()) + (5_000).to_bytes(4, "big"))
    assert parser.next_frame() == hello()
    parser.bytes_max = 10_000
    assert parser.next_frame() is None


HOSTILE_VALUES: list[object] = [
    None,
    7,
    [],
    [0x999],
    [0x122],
    [0x122, ["SFO"], None],
    [0x122, "SFO", []],
    [0x125, 1],
    [0x126, 5],
    [0x126, "x" * 2_000],
    [0x121, {"NYC": 1}],
    [0x121, ["NYC", [[], None], "NYC", [[], None]]],
    [0x120, 1, "SFO", [1], [1], b"x", "n", 1, 1],
    [[[[[[[[[[]]]]]]]]]],
]
HOSTILE = [msgpack.packb(value, use_bin_type=True) for value in HOSTILE_VALUES]
BOMBS = [
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\x91" * 100_000,
    b"\xd9\x05\xff\xfe\xfd\xfc\xfb",
    encode(Heartbeat())[4:] + b"\xc0",
]


@pytest.mark.parametrize("body", [*HOSTILE, *BOMBS])
def test_hostile_content_is_a_protocol_error_and_nothing_else(body: bytes) -> None:
    """C12."""
    started = time.thread_time()
    with pytest.raises(ProtocolError):
        parse_all([len(body).to_bytes(4, "big") + body])
    assert time.thread_time() - started < 1.0


@settings(deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(st.binary(max_size=200), any_frame, st.integers(0, 300))
def test_damaged_bytes_are_a_protocol_error_and_nothing_else(noise: bytes, frame: Header, place: int) -> None:
    """Invariant of the fuzz: every input raises ProtocolError or nothing."""
    whole = encode(frame)
    place %= len(whole)
    for stream in (noise, whole[:place] + noise + whole[place:], whole[:place] + noise):
        parser = FrameParser(1 << 16)
        parser.feed(stream)
        try:
            while parser.next_frame() is not None:
                pass
        except ProtocolError:
            continue


def test_headers_that_belong_into_a_site_do_not_come_over_the_bridge() -> None:
    """A hostile relay must not trim our buffer or fence our links."""
    inside = set(HEADERS.values()) - set(FRAMES.values())
    assert RelayState in inside
    assert {kind.__name__ for kind in inside} >= {
        "Acked",
        "Trim",
        "LinkUp",
        "SiteDown",
        "Relayed",
        "ForwardUnicast",
        "DeliverUnicast",
    }


def test_ids_are_unique_over_stream_and_bridge_and_in_their_block() -> None:
    for number, kind in {**HEADERS, **FRAMES}.items():
        assert 0x100 <= number < 0x140
        assert HEADERS.get(number, kind) is FRAMES.get(number, kind)
