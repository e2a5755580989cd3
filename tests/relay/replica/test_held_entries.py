"""A joiner receives a buffer of any size, without the bodies that it already has; a buffer knows its numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.replica.buffer import Buffer
from relay.replica.config import BufferConfig
from relay.replica.entries import HEADERS, HeldRuns, RelayState, RemoteBaseline, RemoteGap
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.known import Known, completed, runs_of, without
from relay.replica.remote_site import Remote
from relay.replica.state import ReplicatedState
from relay.replica.vectors import ORIGINS_MAX
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import Codec
from sitestack.wire.schema import ITEMS_MAX

D, E = (Address(bytes([number]) * 16) for number in (4, 5))
VIEW = View(ViewId(3, D), ViewId(1, D), (D, E), ("D", "E"))
CODEC = Codec("", HEADERS)
#: More than any sequence in a frame used to have, and than a budget could be.
MANY = 30_000


def batch(number: int, origin: Address = D, count: int = 1) -> Batch:
    return Batch("NYC", origin, Scope.ALL, number, count, pack_body([f"{number}".encode()] * count))


def test_a_joiner_is_handed_a_buffer_of_tens_of_thousands_of_batches() -> None:
    state = ReplicatedState("NYC", BufferConfig(), ("SFO",))
    state.install(VIEW, 0.0)
    for number in range(1, MANY + 1):
        state.append(batch(number, D if number % 3 else E), 1.0)
    given = CODEC.parse(CODEC.pack(state.give()))
    assert isinstance(given, RelayState)
    joiner = ReplicatedState("NYC", BufferConfig(), ("SFO",))
    joiner.adopt(given, 2.0)
    assert len(joiner.buffer) == MANY + 1
    assert list(joiner.buffer.give()) == list(state.buffer.give())
    assert (joiner.buffer.numbers.runs(), joiner.buffer.bytes) == (state.buffer.numbers.runs(), state.buffer.bytes)


GOOD = HeldEntries.of([HeldEntry(None, VIEW), HeldEntry(batch(1), None), HeldEntry(batch(7, E), None)])
STATE = RelayState(None, 0, GOOD, None, {}, (), ())


@pytest.mark.parametrize(
    "broken",
    [
        replace(GOOD, views=()),
        replace(GOOD, views=(VIEW, VIEW)),
        replace(GOOD, firsts=(1,)),
        replace(GOOD, counts=(1, 1, 1)),
        replace(GOOD, bodies=(b"abcd",)),
        replace(GOOD, origin_of=(-1, 0, 2)),
        replace(GOOD, origin_of=(-2, 0, 1)),
        replace(GOOD, counts=(1, 0)),
        replace(GOOD, counts=(1, 2)),
        replace(GOOD, firsts=(1, 0)),
        replace(GOOD, firsts=(1, 2**63 - 1)),
    ],
)
def test_columns_that_do_not_go_together_are_refused(broken: HeldEntries) -> None:
    assert CODEC.parse(CODEC.pack(STATE)) == STATE
    with pytest.raises(ProtocolError, match=r"^field$"):
        CODEC.parse(CODEC.pack(replace(STATE, entries=broken)))


steps = st.tuples(st.sampled_from([D, E]), st.integers(0, 2), st.integers(1, 3)) | st.integers(0, 4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=40))
def test_the_runs_are_those_of_the_entries_that_are_held(done: list[tuple[Address, int, int] | int]) -> None:
    """Batches with holes between them, and entries that go from the front."""
    buffer, last = Buffer(BufferConfig()), {D: 0, E: 0}
    for step in done:
        if isinstance(step, int):
            buffer.drop_through(buffer.first + step - 1)
        else:
            origin, hole, count = step
            buffer.append(batch(last[origin] + 1 + hole, origin, count), None, 0.0)
            last[origin] += hole + count
        expected: dict[Address, list[Run]] = {}
        for each in buffer.give():
            assert each.batch is not None
            known = expected.setdefault(each.batch.origin, [])
            first = known.pop().first if known and known[-1].last + 1 == each.batch.first else each.batch.first
            known.append(Run(first, each.batch.last))
        assert buffer.numbers.runs() == expected


def held(numbers: list[int], origin: Address = D) -> list[HeldEntry]:
    return [HeldEntry(batch(number, origin), None) for number in numbers]


def runs(*each: tuple[int, int], origin: Address = D) -> HeldRuns:
    return HeldRuns(tuple([(origin, first, last) for first, last in each]))


def test_a_batch_is_left_out_only_if_all_of_it_is_in_one_run_of_every_taker() -> None:
    entries = HeldEntries.of([HeldEntry(batch(1, count=3), None), *held([4, 5, 6]), HeldEntry(None, VIEW), *held([1], E)])
    rest = without(entries, Known((runs((1, 2), (3, 5)), runs((1, 9)), runs((4, 4), (5, 6)))))
    assert [bool(body) for body in rest.bodies] == [True, False, False, True, True]
    assert list(rest)[4].view == VIEW
    for nothing in (Known(()), Known((HeldRuns(()),))):
        assert without(entries, nothing) == entries


@given(st.lists(st.tuples(st.sampled_from((D, E)), st.integers(1, 4)), max_size=30), st.randoms())
def test_a_receiver_restores_exactly_the_bodies_left_out_of_a_state(
    sizes: list[tuple[Address, int]], rng: random.Random
) -> None:
    numbers = {D: 1, E: 1}
    entries: list[HeldEntry] = []
    for origin, count in sizes:
        entries.append(HeldEntry(batch(numbers[origin], origin, count), None))
        numbers[origin] += count + rng.choice((0, 0, 2))
        if rng.random() < 0.2:
            entries.append(HeldEntry(None, VIEW))
    mine = {(each.batch.origin, each.batch.first): each.batch for each in entries if each.batch and rng.random() < 0.6}
    known = runs_of(
        {origin: [Run(one.first, one.last) for (who, _), one in mine.items() if who == origin] for origin in (D, E)}
    )
    rest = without(HeldEntries.of(entries), Known((known,)))
    assert sum(not body for body in rest.bodies) == len(mine)
    state = CODEC.parse(CODEC.pack(RelayState(None, 0, rest, None, {}, (), ())))
    assert isinstance(state, RelayState)
    whole, dropped = completed(state.entries, lambda origin, first: mine.get((origin, first)))
    assert list(whole) == entries
    assert dropped == 0


def test_a_body_that_cannot_be_restored_is_dropped_with_all_earlier_entries() -> None:
    entries = HeldEntries.of([*held([1, 2]), HeldEntry(None, VIEW), *held([3, 4])])
    rest = without(entries, Known((runs((2, 3)),)))
    have = {(D, 2): batch(2)}
    whole, dropped = completed(rest, lambda origin, first: have.get((origin, first)))
    assert (list(whole), dropped) == (held([4]), 4)
    whole, dropped = completed(rest, lambda origin, first: batch(first, count=1 if first == 3 else 2))
    assert (list(whole), dropped) == ([HeldEntry(None, VIEW), *held([3, 4])], 2), "another batch than the one left out"


def test_known_runs_beyond_the_bound_of_a_message_are_left_out() -> None:
    many = {D: [Run(2 * n, 2 * n) for n in range(1, ITEMS_MAX + 10)]}
    told = runs_of(many)
    assert len(told.runs) == ITEMS_MAX
    assert Known((told,)).has(D, 2, 2)
    assert not Known((told,)).has(D, 2 * (ITEMS_MAX + 5), 2 * (ITEMS_MAX + 5))


def origin(number: int) -> Address:
    return Address(number.to_bytes(16, "big"))


@pytest.mark.parametrize("how", ["gaps", "baselines"])
def test_invented_origins_stay_within_the_bound(how: str) -> None:
    """C28: a state above the bound would be refused by every joiner."""
    remote = Remote()
    for number in range(1, ORIGINS_MAX + 100):
        if how == "gaps":
            remote.skip(RemoteGap("SFO", origin(number), 1, 1, GapReason.BUDGET))
        else:
            remote.begin(RemoteBaseline("SFO", {origin(number): 1}))
    assert len(remote.admitted) == ORIGINS_MAX
    assert origin(ORIGINS_MAX + 99) in remote.admitted
