"""Which views are primary, for sites that split, shrink, lose members and meet again."""

from __future__ import annotations

from sitestack.layers.membership.headers import MajorityState, Standing
from sitestack.layers.membership.majority import Majority
from sitestack.model.view import SubView, View, ViewId, next_lineage
from tests.harness.addresses import address


def view(members: str, number: int, lineage: ViewId | None = None, parts: tuple[View, ...] = ()) -> View:
    id = ViewId(number, address(members[0]))
    subviews = tuple([SubView(part.id, part.members, part.lineage) for part in parts])
    return View(id, lineage or id, tuple(map(address, members)), tuple(members), subviews)


def after(old: View, members: str, number: int) -> View:
    survivors = [member for member in old.members if member in tuple(map(address, members))]
    return view(members, number, next_lineage(old, survivors, ViewId(number, address(members[0]))))


def formed(members: str, size: int) -> tuple[Majority, View]:
    """A member of the first primary view of a site of this size, and that view."""
    majority, first = Majority(size), view(members, 2)
    majority.is_primary(view(members[0], 1), ())
    assert majority.is_primary(first, ())
    return majority, first


def test_without_the_option_every_view_is_primary() -> None:
    majority = Majority(None)
    assert majority.is_primary(view("A", 1), ())
    assert majority.give_state() is None


def test_a_founder_waits_for_more_than_half_of_the_complete_site() -> None:
    majority = Majority(5)
    first = view("A", 1)
    assert not majority.is_primary(first, ())
    second = after(first, "AB", 2)
    assert not majority.is_primary(second, ())
    assert majority.is_primary(after(second, "ABC", 3), ())


def test_two_founders_of_halves_are_both_refused_and_primary_together() -> None:
    one, other = Majority(4), Majority(4)
    left, right = view("AB", 2), view("CD", 2)
    assert not one.is_primary(left, ())
    assert not other.is_primary(right, ())
    state = other.give_state()
    assert state is not None
    assert one.is_primary(view("ABCD", 3, parts=(left, right)), (state,))


def test_a_joiner_computes_what_the_members_compute() -> None:
    majority, first = formed("AB", 3)
    state = majority.give_state()
    assert state is not None
    following = after(first, "ABC", 3)
    assert majority.is_primary(following, ())
    assert Majority(3).is_primary(following, (state,))


def test_the_rest_of_a_split_stays_refused_with_fresh_joiners_until_an_heir_or_all_members_are_there() -> None:
    majority, first = formed("ABCDE", 5)
    assert not majority.is_primary(after(first, "DE", 3), ())
    lost = after(after(first, "DE", 3), "DEF", 4)
    assert not majority.is_primary(lost, ()), "three of five, and A and B may have delivered more"
    heirs = after(first, "ABC", 3)
    merged = view("DEFAB", 5, parts=(lost, heirs))
    assert majority.is_primary(merged, (MajorityState(Standing.HEIR, heirs.lineage),))


def test_all_members_of_the_site_are_primary_though_a_majority_has_died() -> None:
    majority, first = formed("ABC", 3)
    alone = after(first, "C", 3)
    assert not majority.is_primary(alone, ())
    two = after(alone, "CD", 4)
    assert not majority.is_primary(two, ())
    assert majority.is_primary(after(two, "CDE", 5), ())


def test_an_heir_below_the_majority_of_the_site_waits_and_goes_on_with_a_joiner() -> None:
    majority, first = formed("ABC", 5)
    two = after(first, "AB", 3)
    assert two.lineage == first.lineage
    assert not majority.is_primary(two, ())
    assert majority.is_primary(after(two, "ABF", 4), ())


def test_exactly_half_of_the_last_view_continues_only_with_its_first_member() -> None:
    for members, expected in (("AB", True), ("CD", False)):
        majority, first = formed("ABCD", 3)  # more members than the site should have, so that half is a majority
        assert majority.is_primary(after(first, members, 3), ()) is expected
