"""Bodies that all takers already hold are left out of a state, and restored from their own."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.replica.entries import HEADERS, HeldRuns, RelayState, RemoteBaseline, RemoteGap
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.known import Known, completed, runs_of, without
from relay.replica.remote_site import Remote
from relay.replica.vectors import ORIGINS_MAX
from sitestack.model.address import Address
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import Codec
from sitestack.wire.schema import ITEMS_MAX

D, E = (Address(bytes([number]) * 16) for number in (4, 5))
VIEW = View(ViewId(3, D), ViewId(1, D), (D, E), ("D", "E"))
CODEC = Codec("", HEADERS)


def batch(number: int, origin: Address = D, count: int = 1) -> Batch:
    return Batch("NYC", origin, Scope.ALL, number, count, pack_body([f"{number}".encode()] * count))


def held(numbers: list[int], origin: Address = D) -> list[HeldEntry]:
    return [HeldEntry(batch(number, origin), None) for number in numbers]


def runs(*each: tuple[int, int], origin: Address = D) -> HeldRuns:
    return HeldRuns(tuple([(origin, first, last) for first, last in each]))


def test_nothing_is_left_out_for_a_taker_that_knows_nothing() -> None:
    entries = HeldEntries.of(held([1, 2, 3]))
    assert without(entries, Known(())) == entries
    assert without(entries, Known((HeldRuns(()),))) == entries


def test_a_batch_is_left_out_only_if_all_of_it_is_in_one_run_of_every_taker() -> None:
    entries = HeldEntries.of([HeldEntry(batch(1, count=3), None), *held([4, 5, 6]), HeldEntry(None, VIEW), *held([1], E)])
    rest = without(entries, Known((runs((1, 2), (3, 5)), runs((1, 9)), runs((4, 4), (5, 6)))))
    assert [bool(body) for body in rest.bodies] == [True, False, False, True, True]
    assert list(rest)[4].view == VIEW


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
