"""Providers of the application's state, by the standings of the members in the stream."""

from __future__ import annotations

from sitestack.layers.state_transfer.headers import Standing
from sitestack.layers.state_transfer.holders import StateHolders
from sitestack.model.address import Address
from tests.harness.addresses import address

A, B, C, D, E = map(address, "ABCDE")


def holders_of(standings: dict[Address, Standing], *members: Address) -> StateHolders:
    """As they are at a view with these members."""
    holders = StateHolders()
    holders.restore(standings)
    holders.enter(members)
    return holders


def test_the_provider_is_the_first_in_rank_that_has_the_state() -> None:
    standings = {B: Standing.HOLDS, A: Standing.WAITS, C: Standing.HOLDS}
    assert holders_of(standings, A, C, B).provider == C


def test_without_a_state_holder_the_first_waiting_member_inherits_after_all_reports() -> None:
    holders = holders_of({A: Standing.ABSTAINS, B: Standing.WAITS, C: Standing.WAITS, D: Standing.HOLDS}, A, B, C)
    for member, standing in ((A, Standing.ABSTAINS), (C, Standing.WAITS)):
        assert holders.note(member, standing)
        assert (holders.undecided, holders.provider) == (True, None)
    holders.note(B, Standing.WAITS)
    assert (holders.undecided, holders.provider) == (False, B)
    assert holders.snapshot() == {A: Standing.ABSTAINS, B: Standing.INHERITED, C: Standing.WAITS}
    assert holders.waiting() == [C]


def test_a_waiting_member_that_reports_the_state_becomes_the_provider() -> None:
    holders = holders_of({B: Standing.WAITS, C: Standing.WAITS}, B, C)
    holders.note(C, Standing.HOLDS)
    assert (holders.undecided, holders.provider, holders.waiting()) == (False, C, [B])


def test_a_member_with_an_inherited_state_provides_it_only_without_a_true_holder() -> None:
    standings = {A: Standing.INHERITED, B: Standing.HOLDS}
    assert holders_of(standings, A, B, C).provider == B
    assert holders_of(standings, A, C).provider == A


def test_after_a_merge_a_member_of_the_primary_part_is_the_provider() -> None:
    standings = {A: Standing.HOLDS, B: Standing.HOLDS, C: Standing.HOLDS}
    minority, majority = holders_of(standings, A, B, C), holders_of(standings, B, C)
    minority.enter((A,), is_primary=False)
    assert minority.provider == A
    for part, other in ((minority, majority), (majority, minority)):
        known = part.snapshot()
        part.merge(other.snapshot())
        part.enter((A, B, C, D), [[A], [B, C]])
        assert part.provider == B
        part.restore(known)


def test_a_view_whose_only_known_member_abstains_has_no_provider() -> None:
    assert holders_of({A: Standing.ABSTAINS}, A, B).provider is None


def test_an_unknown_member_waits_and_a_non_member_is_not_recorded() -> None:
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


def test_a_waiting_member_uses_the_provider_of_its_own_part_or_the_first_in_rank() -> None:
    holders = StateHolders()
    holders.restore({A: Standing.HOLDS, B: Standing.HOLDS, C: Standing.WAITS, D: Standing.WAITS})
    holders.enter((A, B, C, D, E), [(A,), (B, C), (D,)])
    assert [holders.provider_of(each) for each in (C, D, E)] == [B, A, A]
    assert [holders.is_provider(each) for each in (A, B, C)] == [True, True, False]
    holders.enter((A, B, C, D))
    assert holders.provider_of(C) == A, "after the merge view the site is one"
    assert not holders.is_provider(B)


def test_a_waiting_member_of_a_part_that_only_inherited_receives_the_true_state() -> None:
    holders = StateHolders()
    holders.restore({A: Standing.HOLDS, B: Standing.INHERITED, C: Standing.WAITS})
    holders.enter((A, B, C), [(A,), (B, C)])
    assert holders.provider_of(C) == A


def test_without_a_true_holder_a_waiting_member_receives_the_state_that_its_part_inherited() -> None:
    holders = StateHolders()
    holders.restore({A: Standing.INHERITED, B: Standing.INHERITED, C: Standing.WAITS, D: Standing.WAITS})
    holders.enter((A, B, C, D), [(A, D), (B, C)])
    assert [holders.provider_of(each) for each in (C, D)] == [B, A]


def test_an_earlier_member_whose_report_was_dropped_is_asked_before_a_joiner_begins_without_a_state() -> None:
    """A blocked coordinator drops reports: B began in the last view, and may have the state by now."""
    elder = holders_of({A: Standing.ABSTAINS}, A, B)
    joiner = holders_of(elder.snapshot(), A, B, C)
    elder.enter((A, B, C))
    for holders in (elder, joiner):
        assert (holders.undecided, holders.provider) == (True, None)
        assert holders.note(B, Standing.HOLDS)
        assert (holders.undecided, holders.provider, holders.waiting()) == (False, B, [C])
    assert holders_of({}, A, B, C).undecided is False, "founders begin at once"
