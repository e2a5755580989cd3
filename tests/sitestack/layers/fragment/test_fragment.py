"""Fragments: a frame larger than a datagram arrives whole, and hostile pieces cost little."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.fragment.headers import PIECE_OVERHEAD_BYTES, FragmentHeader
from sitestack.model.address import Address
from sitestack.model.events import Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from sitestack.wire.codec import Codec
from sitestack.wire.size import fixed_bytes
from tests.harness.addresses import address, local_of
from tests.harness.talkers import Talkers
from tests.harness.wire import Fate, Faults

A, B = address("A"), address("B")
LIMIT = 1_300


@dataclass(frozen=True, slots=True)
class Small(Header):
    """A header whose size is known."""

    view: ViewId
    n: int | None


@dataclass(frozen=True, slots=True)
class Large(Header):
    """A header that can be large: views, states."""

    members: tuple[Address, ...]


HEADERS: dict[int, type[Header]] = {0x1F0: Small, 0x1F1: Large, **Fragment.HEADERS}
CODEC = Codec("NYC", HEADERS)
VIEW = View(ViewId(1, A), ViewId(1, A), (A, B), ("A", "B"))


def layer_of(limit: int = LIMIT, **bounds: int) -> Fragment:
    layer = Fragment(local_of("A"), FragmentConfig(fragment_bytes_max=limit, **bounds))
    layer.codec = CODEC
    return layer


def cast_of(size: int, *headers: Header) -> Frame:
    """A multicast of A with a body of this size."""
    return Frame(A, None, headers, Batch("NYC", A, Scope.ALL, 1, 1, bytes(4) + random.Random(size).randbytes(size)))


def frames_of(effects: list[Effect]) -> list[Frame]:
    frames = [effect.event for effect in effects if isinstance(effect, Down | Up)]
    return [frame for frame in frames if isinstance(frame, Frame)]


def over_the_wire(frame: Frame, source: Address, seqno: int = 0) -> Frame:
    """The frame as the layers below hand it up on the other side."""
    arrived = CODEC.decode_frame(CODEC.encode_frame(frame), source, frame.dest)
    return Frame(source, frame.dest, arrived.headers, arrived.batch, False, seqno)


def pieces_of(frame: Frame, source: Address = A, limit: int = LIMIT) -> list[Frame]:
    """The pieces of a frame as they arrive, numbered like a multicast stream."""
    sent = frames_of(layer_of(limit).down(frame, 0.0))
    return [over_the_wire(each, source, 7 + n) for n, each in enumerate(sent)]


def piece(index: int, count: int, data: bytes = b"x", number: int = 1, source: Address = A) -> Frame:
    return Frame(source, B, (FragmentHeader(number, index, count, data),))


# -- round trips -------------------------------------------------------------------------------------------------------

EDGES = [0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 65_535, 65_536, 65_537, 1 << 20]


@pytest.mark.parametrize("limit", [LIMIT, 60_000])
@pytest.mark.parametrize("size", EDGES)
def test_every_size_arrives_as_it_was(size: int, limit: int) -> None:
    check_round_trip(cast_of(size, Small(VIEW.id, 1)), limit)


def test_every_size_around_the_limit_arrives_as_it_was() -> None:
    for size in range(LIMIT - 200, LIMIT + 2):
        check_round_trip(cast_of(size, Small(VIEW.id, 1)), LIMIT)


def check_round_trip(frame: Frame, limit: int) -> None:
    """The frame is cut exactly if it has to be, no piece is above the limit, and it comes out whole."""
    sent = frames_of(layer_of(limit).down(frame, 0.0))
    assert max(len(CODEC.encode_frame(each)) for each in sent) <= limit
    assert (sent == [frame]) == (len(CODEC.encode_frame(frame)) <= limit)
    receiver = layer_of(limit)
    arrived = [receiver.up(over_the_wire(each, A, 7 + n), 0.0) for n, each in enumerate(sent)]
    assert arrived[:-1] == [[]] * (len(sent) - 1)
    assert arrived[-1] == [Up(Frame(A, None, frame.headers, frame.batch, False, 6 + len(sent)))]
    assert receiver.levels()["partial_bytes"].now == receiver.levels()["partials"].now == 0


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 4 * LIMIT), st.sampled_from(EDGES)), min_size=1, max_size=4),
    members=st.integers(0, 100),
    limit=st.sampled_from([200, LIMIT, 60_000]),
)
def test_streams_of_two_senders_and_two_kinds_do_not_mix(sizes: list[int], members: int, limit: int) -> None:
    """Each (sender, kind) stream is in order; between them anything goes."""
    sender, receiver = layer_of(limit), layer_of(limit)
    large = Large(tuple(Address(n.to_bytes(16, "big")) for n in range(members)))
    frames = [cast_of(size, large) for size in sizes]
    streams: list[list[Frame]] = []
    for source, seqno in ((A, 1), (B, 1), (A, 0), (B, 0)):
        sent = [each for frame in frames for each in frames_of(sender.down(frame, 0.0))]
        streams.append([over_the_wire(each, source, seqno and seqno + n) for n, each in enumerate(sent)])
    rng = random.Random(members)
    delivered: list[Frame] = []
    while any(streams):
        stream = rng.choice([stream for stream in streams if stream])
        delivered += frames_of(receiver.up(stream.pop(0), 0.0))
    for source in (A, B):
        for multicast in (True, False):
            mine = [each for each in delivered if each.source == source and (each.seqno > 0) == multicast]
            assert [(each.headers, each.batch) for each in mine] == [(each.headers, each.batch) for each in frames]


def test_a_large_header_is_cut_although_there_is_no_body() -> None:
    """Trap A14: a view of a hundred members is larger than a datagram."""
    frame = Frame(A, B, (Large(tuple(Address(bytes([n]) * 16) for n in range(100))),))
    arrived = pieces_of(frame)
    assert len(arrived) == 2
    receiver = layer_of()
    assert frames_of([each for one in arrived for each in receiver.up(one, 0.0)])[0].headers == frame.headers


@pytest.mark.parametrize("header", [Small(VIEW.id, None), Large((A, B))])
def test_a_batch_is_not_encoded_to_learn_its_size(header: Header, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Frame] = []

    def spy(codec: Codec, frame: Frame) -> bytes:
        encoded.append(frame)
        return b""

    monkeypatch.setattr(Codec, "encode_frame", spy)
    frame = cast_of(800, header)
    assert layer_of().down(frame, 0.0) == [Down(frame)]
    assert [each.batch for each in encoded] == [None] * isinstance(header, Large)


@pytest.mark.parametrize(
    ("kind", "size"),
    [(Small, 8 + (8 + 9 + 18) + (8 + 9 + 1)), (Large, None), (Batch, None), (View, None), (Scope, 9)],
)
def test_a_size_is_known_only_where_nothing_can_grow(kind: type, size: int | None) -> None:
    assert fixed_bytes(kind) == size


def test_the_known_size_is_never_too_small() -> None:
    layer = layer_of(700)
    for size in range(700):
        frame = Frame(A, None, (Small(ViewId((1 << 63) - 1, A), (1 << 63) - 1),) * 3, cast_of(size).batch)
        if layer._certainly_fits(frame):
            assert len(CODEC.encode_frame(frame)) <= 700


def test_pieces_count_as_payload_for_the_windows_below() -> None:
    sent = frames_of(layer_of().down(cast_of(5_000), 0.0))
    assert sum(each.payload_bytes for each in sent) > 5_000


# -- frames that are not cut
# -------------------------------------------------------------------------------------------


def test_a_frame_to_the_own_process_is_not_fragmented() -> None:
    frame = Frame(A, A, (), cast_of(100_000).batch)
    assert layer_of().down(frame, 0.0) == [Down(frame)]


def test_an_unreliable_frame_that_is_too_large_is_dropped() -> None:
    frame = Frame(A, None, (), cast_of(100_000).batch, unreliable=True)
    assert layer_of().down(frame, 0.0) == [Dropped("too_large")]


def test_a_message_above_the_maximum_is_dropped_and_a_unicast_reported() -> None:
    layer = layer_of(frame_bytes_max=10_000)
    assert layer.down(cast_of(10_001), 0.0) == [Dropped("too_large")]
    frame = Frame(A, B, (), cast_of(10_001).batch)
    assert layer.down(frame, 0.0) == [Dropped("too_large"), Up(Undeliverable(B, (frame,)))]


# -- above unicast -----------------------------------------------------------------------------------------------------


def talkers_of(limit: int = 200) -> Talkers:
    return Talkers(above=lambda local: [Fragment(local, FragmentConfig(fragment_bytes_max=limit))])


def test_over_a_lossy_wire_large_and_small_messages_arrive_in_order() -> None:
    group = talkers_of()
    group.wire.faults = Faults(0.3, 0.3, spread_s=0.02)
    texts = [str(n) * size for n, size in enumerate([1, 500, 10, 3_000, 100, 1, 1_000])]
    group.send("A", "B", *texts)
    group.run(0.05)
    group.close("B", "A")
    group.close("A", "B")
    group.run(20)
    assert group["B"].texts["A"] == texts


def test_undeliverable_pieces_are_reported_as_the_message_they_are_of() -> None:
    """Also when the first pieces have been acknowledged."""
    group = talkers_of()
    group.send("A", "B", "whole")
    group.run(0.1)
    passed = iter([Fate.PASS] * 5)
    group.wire.rule = lambda packet: next(passed, Fate.LOSE)
    texts = ["x" * 3_000, "small", "y" * 1_000]
    group.send("A", "B", *texts)
    group.run(70)
    assert group["A"].undeliverable == texts
    assert group["B"].texts["A"] == ["whole"]


def test_the_original_is_not_kept_for_multicasts() -> None:
    """They are not reported as undeliverable, and a retransmission buffer would hold everything twice."""
    headers = [frame.top(FragmentHeader) for frame in frames_of(layer_of().down(cast_of(5_000), 0.0))]
    assert all(header is not None and header.whole is None for header in headers)


# -- views, hostile pieces, bounds -------------------------------------------------------------------------------------


def test_a_view_discards_the_rest_of_a_multicast_and_keeps_the_rest_of_a_unicast() -> None:
    frame = cast_of(3_000)
    receiver = layer_of()
    multicast = pieces_of(frame)
    unicast = [Frame(each.source, B, each.headers) for each in multicast]
    for each in (*multicast[:-1], *unicast[:-1]):
        assert receiver.up(each, 0.0) == []
    receiver.up(ViewInstalled(VIEW, VIEW), 0.0)
    assert receiver.levels()["partials"].now == 1
    assert receiver.up(multicast[-1], 0.0) == [Dropped("fragment", 1)]
    assert receiver.up(unicast[-1], 0.0) == [Up(Frame(A, B, frame.headers, frame.batch))]
    again = [receiver.up(each, 0.0) for each in multicast]
    assert len(frames_of(again[-1])) == 1


def test_incomplete_unicasts_expire_and_incomplete_multicasts_are_kept() -> None:
    """B3. A multicast's pieces stay: a view decides about them."""
    receiver = layer_of()
    assert receiver.deadline() is None
    for each in (piece(0, 9), Frame(A, None, piece(0, 9).headers, seqno=7), piece(0, 9, source=B)):
        assert receiver.up(each, 5.0) == []
    assert receiver.up(piece(1, 9), 65.0) == []
    assert receiver.deadline() == 125.0
    assert receiver.expire(124.9) == []
    assert receiver.expire(125.0) == [Dropped("fragment", 1)]
    assert receiver.deadline() == 185.0
    assert receiver.expire(185.0) == [Dropped("fragment", 2)]
    assert receiver.deadline() is None
    assert (receiver.levels()["partials"].now, receiver.levels()["partial_bytes"].now) == (1, 1)


@pytest.mark.parametrize(
    "broken",
    [
        [piece(0, 3), piece(2, 3)],
        [piece(0, 3), piece(1, 4)],
        [piece(0, 3), piece(1, 3, number=2)],
        [piece(0, 3), piece(1, 3, data=b"")],
        [piece(1, 3)],
        [piece(0, 1)],
        [piece(0, 0)],
        [piece(0, -1)],
        [piece(-1, 3)],
        [piece(5, 3)],
        [piece(0, 2), piece(1, 2)],
        [piece(0, 2), piece(0, 2, number=2), piece(1, 2, number=1)],
    ],
)
def test_pieces_that_make_no_frame_are_dropped_and_leave_nothing(broken: list[Frame]) -> None:
    receiver = layer_of()
    effects = [effect for each in broken for effect in receiver.up(each, 0.0)]
    assert all(isinstance(effect, Dropped) and effect.reason == "fragment" for effect in effects)
    assert sum(effect.count for effect in effects if isinstance(effect, Dropped)) >= 1
    assert receiver.levels()["partials"].now == receiver.levels()["partial_bytes"].now == 0
    good = [Frame(each.source, B, each.headers) for each in pieces_of(cast_of(3_000))]
    assert len(frames_of([effect for each in good for effect in receiver.up(each, 0.0)])) == 1


@pytest.mark.parametrize("inner", [piece(0, 2), Frame(A, None, unreliable=True)])
def test_a_frame_that_is_never_fragmented_is_dropped_after_reassembly(inner: Frame) -> None:
    """No honest sender cuts a piece; unpacking pieces of pieces would be work without end."""
    data = CODEC.encode_frame(inner)
    receiver = layer_of()
    assert receiver.up(piece(0, 2, data[:2]), 0.0) == []
    assert receiver.up(piece(1, 2, data[2:]), 0.0) == [Dropped("fragment")]


def test_a_new_frame_replaces_the_unfinished_one_of_the_same_stream() -> None:
    receiver = layer_of()
    receiver.up(piece(0, 9), 0.0)
    receiver.up(piece(1, 9), 0.0)
    first, *rest = [Frame(each.source, B, each.headers) for each in pieces_of(cast_of(3_000))]
    assert receiver.up(first, 0.0) == [Dropped("fragment", 2)]
    assert len(frames_of([effect for each in rest for effect in receiver.up(each, 0.0)])) == 1


def test_a_frame_that_grows_beyond_the_maximum_is_discarded() -> None:
    receiver = layer_of(frame_bytes_max=1_000)
    half = bytes(501)
    assert receiver.up(piece(0, 9, half), 0.0) == []
    assert receiver.up(piece(1, 9, half), 0.0) == [Dropped("fragment", 2)]
    assert receiver.levels()["partial_bytes"].now == 0


def test_fragment_memory_is_bounded_for_any_number_of_senders() -> None:
    """The oldest goes first: a dead sender has left it behind."""
    receiver = layer_of(partial_bytes_max=10_000, partials_max=20)
    for n in range(100):
        receiver.up(piece(0, 2, bytes(900), source=Address(n.to_bytes(16, "big"))), 0.0)
        assert receiver.levels()["partial_bytes"].now <= 10_000
    assert receiver.levels()["partials"].now == 11
    for n in range(100):
        receiver.up(piece(0, 2, b"x", source=Address(n.to_bytes(16, "big"))), 0.0)
    assert receiver.levels()["partials"].now == 20
    assert receiver.levels()["partial_bytes"].now == 20


def test_a_frame_that_makes_progress_stays_when_the_bound_is_reached() -> None:
    receiver = layer_of(partials_max=2)
    busy, dead, new = (Address(bytes([n]) * 16) for n in range(3))
    for index, source in ((0, busy), (0, dead), (1, busy)):
        assert receiver.up(piece(index, 9, source=source), 0.0) == []
    assert receiver.up(piece(0, 9, source=new), 0.0) == [Dropped("fragment", 1)]
    for index, source in ((2, busy), (1, new)):
        assert receiver.up(piece(index, 9, source=source), 0.0) == []


def test_a_piece_carries_as_much_as_the_limit_allows() -> None:
    sent = frames_of(layer_of().down(cast_of(100_000), 0.0))
    assert LIMIT - PIECE_OVERHEAD_BYTES < len(CODEC.encode_frame(sent[0])) <= LIMIT


def test_a_flood_of_pieces_discards_nothing_of_others() -> None:
    receiver = layer_of(partial_bytes_max=10_000)
    honest, flood = (Address(bytes([n]) * 16) for n in range(2))
    assert receiver.up(piece(0, 2, b"begin", source=honest), 0.0) == []
    for index in range(15):
        receiver.up(piece(index, 1_000, bytes(900), source=flood), 0.1)
        assert receiver.levels()["partial_bytes"].now <= 10_000
    assert receiver.levels()["partial_bytes"].now == len(b"begin")


def test_fragments_of_a_dead_sender_are_discarded_before_the_largest() -> None:
    receiver = layer_of(partial_bytes_max=10_000)
    busy, dead = (Address(bytes([n]) * 16) for n in range(2))
    receiver.up(piece(0, 9, bytes(600), source=dead), 0.0)
    for index in range(10):
        receiver.up(piece(index, 1_000, bytes(900), source=busy), 100.0)
    assert receiver.up(piece(10, 1_000, bytes(900), source=busy), 100.0) == [Dropped("fragment", 1)]
