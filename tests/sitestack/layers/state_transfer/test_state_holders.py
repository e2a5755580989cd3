"""Who gives the application's state, by what the stream says of the members."""

from __future__ import annotations

from sitestack.layers.state_transfer.headers import Standing
from sitestack.layers.state_transfer.holders import StateHolders
from sitestack.model.address import Address
from tests.harness.addresses import address

A, B, C, D = map(address, "ABCD")


def holders_of(standings: dict[Address, Standing], *members: Address) -> StateHolders:
    """As they are at a view with these members."""
    holders = StateHolders()
    holders.restore(standings)
    holders.enter(members)
    return holders


def test_the_provider_is_the_first_in_rank_that_has_the_state() -> None:
    standings = {B: Standing.HOLDS, A: Standing.WAITS, C: Standing.HOLDS}
    assert holders_of(standings, A, C, B).provider == C


def test_when_nobody_has_the_state_the_first_that_waits_inherits_it() -> None:
    holders = holders_of({A: Standing.ABSTAINS, B: Standing.WAITS, C: Standing.WAITS, D: Standing.HOLDS}, A, B, C)
    assert holders.provider == B
    assert holders.snapshot() == {A: Standing.ABSTAINS, B: Standing.HOLDS, C: Standing.WAITS}
    assert holders.waiting() == [C]


def test_where_nobody_wants_a_state_there_is_no_provider() -> None:
    assert holders_of({A: Standing.ABSTAINS}, A, B).provider is None


def test_of_whom_nothing_is_known_waits_and_a_stranger_is_not_noted() -> None:
    holders = holders_of({A: Standing.HOLDS}, A, B)
    assert holders.waiting() == [B]
    assert holders.note(B, Standing.ABSTAINS)
    assert not holders.note(C, Standing.HOLDS)
    assert holders.waiting() == []
    assert holders.count == 1


def test_in_a_merge_each_part_knows_its_own_members_best() -> None:
    holders = holders_of({A: Standing.WAITS, B: Standing.HOLDS}, A, B)
    holders.merge({B: Standing.WAITS, C: Standing.HOLDS})
    holders.enter((C, A, B))
    assert holders.provider == C
    assert holders.snapshot() == {C: Standing.HOLDS, A: Standing.WAITS, B: Standing.HOLDS}
