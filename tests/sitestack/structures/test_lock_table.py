"""Locks as a state machine: FIFO, released with their holder, with tokens that only grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address
from sitestack.structures import lock_table
from sitestack.structures.lock_table import Claimant, LockTable
from tests.harness.addresses import address

A, B, C = map(address, "ABC")


def asks(table: LockTable, member: Address, number: int = 1, clock_us: int = 0, name: str = "l") -> bool:
    return table.request(name, Claimant(member, number, clock_us))


def holder(table: LockTable, name: str = "l") -> Address | None:
    held = table.holder(name)
    return None if held is None else held[0].member


def test_members_hold_the_lock_in_the_order_of_their_requests() -> None:
    table = LockTable()
    for member in (A, B, C):
        assert asks(table, member)
    assert holder(table) == A
    table.release("l", B, 1)
    table.release("l", A, 1)
    assert holder(table) == C
    table.release("l", C, 1)
    assert holder(table) is None
    assert table.count == 0


def test_a_request_that_is_repeated_counts_once() -> None:
    table = LockTable()
    asks(table, A)
    asks(table, A)
    assert table.count == 1
    asks(table, A, number=2)
    assert table.count == 2, "another task of the same member"


def test_who_leaves_the_view_loses_its_locks_and_its_place() -> None:
    table = LockTable()
    for member in (A, B, C):
        asks(table, member)
    table.retain([C])
    assert holder(table) == C
    table.retain([])
    assert table.count == 0


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C]), st.sampled_from(["l", "m"]), st.booleans(), st.integers(0, 50)), max_size=40)
)
def test_tokens_only_grow(steps: list[tuple[Address, str, bool, int]]) -> None:
    table, seen = LockTable(), [0]
    for member, name, is_request, clock_us in steps:
        before = {each: table.holder(each) for each in ("l", "m")}
        if is_request:
            asks(table, member, clock_us=clock_us, name=name)
        else:
            table.release(name, member, 1)
        for each in ("l", "m"):
            held = table.holder(each)
            if held is not None and held != before[each]:
                assert held[1] > max(seen)
                assert held[1] >= held[0].clock_us
                seen.append(held[1])
        restored = LockTable.restore(table.snapshot())
        assert restored.snapshot() == table.snapshot()


def test_at_the_bound_requests_are_refused() -> None:
    table = LockTable()
    for number in range(lock_table.REQUESTS_MAX):
        assert asks(table, A, number)
    assert not asks(table, B)
