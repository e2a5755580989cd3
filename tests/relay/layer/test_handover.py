"""A joiner fetches a buffer piece by piece: with tokens, from one coordinator or several, within bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from relay.layer.handover import CHUNK_BYTES, JOINERS_MAX, KEPT_S, OPENING_S, BufferFetch, BufferSource
from relay.replica.buffer import Buffer
from relay.replica.config import BufferConfig
from relay.replica.entries import HeldChunk, HeldRequest, RelayState
from relay.replica.held_entries import Entry, HeldEntries
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.state_events import Fetched, Offered
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down
from tests.harness.relay.member import Member
from tests.harness.relay.world import sites_of

A, B, J = (Address(bytes([number]) * 16) for number in (1, 2, 9))
BODY = 25_000
VIEW = View(ViewId(1, A), ViewId(1, A), (A,), ("A",))


def batch(number: int, size: int = BODY) -> Batch:
    return Batch("NYC", A, Scope.ALL, number, 1, pack_body([bytes(size)]))


def buffer_of(*numbers: int) -> Buffer:
    buffer = Buffer(BufferConfig())
    for number in numbers:
        buffer.append(batch(number), None, 0.0)
    return buffer


def source_of(buffer: Buffer) -> BufferSource:
    return BufferSource(buffer, random.Random(1))


def answer(source: BufferSource, request: HeldRequest | None, joiner: Address = J) -> HeldChunk:
    assert request is not None
    chunk = source.answer(joiner, request)
    assert chunk is not None
    return chunk


def fetch(fetched: BufferFetch, source: BufferSource, coordinator: Address = A, steps: int = 1_000) -> int:
    """Let a joiner fetch; returns the number of chunks."""
    request: HeldRequest | None = fetched.start(coordinator, fetched.known(), 0.0)
    for step in range(steps):
        request = fetched.store_chunk(answer(source, request), 0.0)
        if request is None:
            return step + 1
    return steps


def have(fetched: BufferFetch) -> list[int]:
    return [number for _, first, last in fetched.known().runs for number in range(first, last + 1)]


def test_a_joiner_fetches_all_but_a_little() -> None:
    buffer = buffer_of(*range(1, 101))
    fetched = BufferFetch(1 << 30)
    chunks = fetch(fetched, source_of(buffer))
    assert have(fetched) == list(range(1, 101))
    assert chunks == 35, "one to begin with, and three batches each"
    assert fetched.find(A, 7) == batch(7)
    assert fetched.bytes.now == 100 * len(batch(1).body)
    fetched.clear()
    assert (fetched.bytes.now, fetched.known().runs, fetched.find(A, 7)) == (0, (), None)


def test_of_an_empty_buffer_nothing_is_fetched() -> None:
    fetched = BufferFetch(1 << 30)
    assert fetch(fetched, source_of(buffer_of())) == 1
    assert have(fetched) == []


@pytest.mark.parametrize(("left", "goes_on"), [(CHUNK_BYTES, False), (CHUNK_BYTES + 1, True)])
def test_a_fetch_ends_once_a_chunk_is_left_that_hardly_shrinks(left: int, goes_on: bool) -> None:
    fetched = BufferFetch(1 << 30)
    fetched.start(A, fetched.known(), 0.0)
    for bytes_left in (10 * CHUNK_BYTES, CHUNK_BYTES + 2):
        assert fetched.store_chunk(HeldChunk(7, 1, HeldEntries.of(()), bytes_left), 0.0) is not None
    assert (fetched.store_chunk(HeldChunk(7, 1, HeldEntries.of(()), left), 0.0) is not None) is goes_on


def test_a_batch_above_the_size_of_a_chunk_travels_alone() -> None:
    buffer = buffer_of()
    for number in (1, 2, 3):
        buffer.append(batch(number, 2 * CHUNK_BYTES), None, 0.0)
    fetched = BufferFetch(1 << 30)
    assert fetch(fetched, source_of(buffer)) == 4
    assert have(fetched) == [1, 2, 3]


def test_a_fetch_resumes_at_the_next_coordinator_without_duplicates() -> None:
    numbers = range(1, 101)
    fetched = BufferFetch(1 << 30)
    fetch(fetched, source_of(buffer_of(*numbers)), A, steps=11)
    assert have(fetched) == list(range(1, 31))
    assert fetch(fetched, source_of(buffer_of(*numbers)), B) == 25
    assert fetched.bytes.high == 100 * len(batch(1).body), "nothing was fetched twice"


def test_finding_the_start_position_reads_few_entries_of_a_large_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any process may ask."""
    buffer = Buffer(BufferConfig())
    for number in range(1, 10_001):
        buffer.append(None, VIEW, 0.0) if number % 1_000 == 0 else None
        buffer.append(batch(number, 1), None, 0.0)
    looked = 0

    def at(position: int) -> Entry:
        nonlocal looked
        looked += 1
        return look(position)

    look = buffer.at
    monkeypatch.setattr(buffer, "at", at)
    for last in (0, 1, 999, 1_000, 5_432, 9_999, 10_000):
        looked = 0
        chunk = answer(source_of(buffer), HeldRequest(0, 0, ((A, 1, last),) if last else ()))
        assert looked < 50
        assert chunk.position == buffer.end or look(chunk.position).batch == batch(last + 1, 1)


def test_entries_trimmed_during_a_transfer_are_skipped() -> None:
    buffer = buffer_of(*range(1, 101))
    source, fetched = source_of(buffer), BufferFetch(1 << 30)
    opening = answer(source, fetched.start(A, fetched.known(), 0.0))
    buffer.drop_through(49)
    chunk = answer(source, fetched.store_chunk(opening, 0.0))
    assert [each.batch.first for each in chunk.entries if each.batch] == [51, 52, 53]
    buffer.drop_through(99)
    last = answer(source, HeldRequest(chunk.token, chunk.position, ()))
    assert (len(last.entries), last.left_bytes) == (0, 0)


def test_a_site_that_writes_as_fast_as_the_joiner_fetches_is_not_caught_up_with() -> None:
    buffer = buffer_of(*range(1, 101))
    source, fetched = source_of(buffer), BufferFetch(1 << 30)
    request: HeldRequest | None = fetched.start(A, fetched.known(), 0.0)
    number = 100
    while request is not None:
        request = fetched.store_chunk(answer(source, request), 0.0)
        for _ in range(3):
            number += 1
            buffer.append(batch(number), None, 0.0)
        assert number < 1_000
    assert 190 < len(have(fetched)) < 220, "twice what there was at first"


def test_fetched_entries_expire_without_a_merge() -> None:
    fetched = BufferFetch(1 << 30)
    fetch(fetched, source_of(buffer_of(*range(1, 11))))
    assert fetched.deadline() == KEPT_S
    fetched.keep(20.0)
    fetched.expire(KEPT_S)
    assert have(fetched) == list(range(1, 11))
    fetched.expire(20.0 + KEPT_S)
    assert (have(fetched), fetched.deadline()) == ([], None)


def test_a_joiner_keeps_it_however_long_it_is_not_let_in() -> None:
    """Its coordinator knows its position, and leaves the earlier entries out of the state in the first view."""
    world, sites = sites_of({"NYC": 1, "SFO": 1})
    world.part("NYC", "SFO")
    nyc = sites["NYC"]
    for n in range(5):
        nyc.relay.send(str(n))
    joiner = Member(nyc, "J", 1)
    (asked,) = joiner.layer.up(Offered(nyc.relay.address), 0.0)
    while isinstance(asked, Down) and isinstance(asked.event, Frame):
        frame = replace(asked.event, source=joiner.address)
        (told,) = nyc.relay.layer.up(frame, 0.0)
        assert isinstance(told, Down)
        assert isinstance(told.event, Frame)
        asked = joiner.layer.up(told.event, 0.0)[-1]
    assert isinstance(asked, Down)
    assert isinstance(asked.event, Fetched)
    for hour in range(1, 4):
        joiner.layer.expire(3_600.0 * hour)
    state = nyc.relay.layer.give_rest(asked.event.known)
    assert isinstance(state, RelayState)
    assert not any(state.entries.bodies)
    joiner.layer.take_state(state)
    assert list(joiner.layer.state.buffer.give()) == list(nyc.relay.layer.state.buffer.give())


def test_a_coordinator_that_answers_nothing_is_given_up_after_a_while_and_not_before() -> None:
    world, sites = sites_of({"NYC": 1, "SFO": 1})
    world.settle()
    layer = sites["NYC"].relay.layer
    layer.up(Offered(B), world.now)
    told = [
        [effect.event for effect in layer.expire(world.now + after) if isinstance(effect, Down)]
        for after in (OPENING_S / 2, OPENING_S, 2 * OPENING_S)
    ]
    assert [any(isinstance(event, Fetched) for event in events) for events in told] == [False, True, False]


def test_the_fetched_bytes_are_bounded() -> None:
    fetched = BufferFetch(1_000_000)
    fetch(fetched, source_of(buffer_of(*range(1, 101))))
    assert 1_000_000 < fetched.bytes.now <= 1_000_000 + CHUNK_BYTES + BODY + 8


def test_a_chunk_costs_the_token_of_the_one_before() -> None:
    """A caller under a false name does not receive the answer, so it cannot make the provider send more."""
    source = source_of(buffer_of(*range(1, 101)))
    opening = answer(source, HeldRequest(0, 0, ()))
    assert len(opening.entries) == 0
    assert source.answer(J, HeldRequest(opening.token + 1, 0, ())) is None
    chunk = answer(source, HeldRequest(opening.token, 0, ()))
    assert len(chunk.entries) == 3
    assert source.answer(J, HeldRequest(opening.token, 0, ())) is None, "a token is good for one chunk"
    assert source.answer(B, HeldRequest(chunk.token, 0, ())) is None, "and for one joiner"


def test_too_many_joiners_evict_the_oldest_request() -> None:
    source = source_of(buffer_of(1))
    joiners = [Address(number.to_bytes(16, "big")) for number in range(JOINERS_MAX + 1)]
    chunks = [answer(source, HeldRequest(0, 0, ()), each) for each in joiners]
    assert source.level().now == JOINERS_MAX
    assert source.answer(joiners[0], HeldRequest(chunks[0].token, 0, ())) is None
    assert source.answer(joiners[-1], HeldRequest(chunks[-1].token, 0, ())) is not None


def test_invalid_positions_are_answered_with_the_available_entries() -> None:
    source = source_of(buffer_of(1, 2))
    for position, count in ((-5, 2), (1 << 62, 0)):
        opening = answer(source, HeldRequest(0, 0, ()))
        assert len(answer(source, HeldRequest(opening.token, position, ())).entries) == count
