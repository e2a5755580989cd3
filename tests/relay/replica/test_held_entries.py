"""A joiner receives a buffer of any size; and a buffer knows its numbers without walking through it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.replica.buffer import Buffer
from relay.replica.config import BufferConfig
from relay.replica.entries import HEADERS, RelayState
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import Codec

D, E = (Address(bytes([number]) * 16) for number in (4, 5))
VIEW = View(ViewId(3, D), ViewId(1, D), (D, E), ("D", "E"))
CODEC = Codec("", HEADERS)
#: More than any sequence in a frame used to have, and than a budget could be.
MANY = 30_000


def batch(number: int, origin: Address = D, count: int = 1) -> Batch:
    return Batch("NYC", origin, Scope.ALL, number, count, pack_body([b"x"] * count))


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
        for held in buffer.give():
            assert held.batch is not None
            known = expected.setdefault(held.batch.origin, [])
            first = known.pop().first if known and known[-1].last + 1 == held.batch.first else held.batch.first
            known.append(Run(first, held.batch.last))
        assert buffer.numbers.runs() == expected
