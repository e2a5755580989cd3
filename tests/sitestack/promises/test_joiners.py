"""Ranges, and what members owe that join or leave."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.promises import find_ending
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Reception
from tests.harness.journals import Every, Told, broken, check, outlived_sender, paused_sender


@pytest.mark.parametrize("founded", [False, True])
def test_a_joiner_owes_no_message_of_its_state_that_is_delivered_after_a_merge(founded: bool) -> None:
    """Who founded a site alone and was merged has the senders' past as history like a joiner."""
    assert broken(check(*paused_sender(held=True, founded=founded))) == set()
    assert broken(check(*paused_sender(held=False, founded=founded))) == {"L3", "L9"}


def test_a_later_baseline_accounts_for_messages_of_a_received_state() -> None:
    """Its part of the site had no state until another one gave it, with messages that this member had not delivered."""
    for taken in (False, True):
        reception = Reception()
        reception.deliver(1, 4, 0)
        if taken:
            reception.start_at(8, may_inherit=True)
            reception.start_at(3, may_inherit=True)
        reception.deliver(8, 9, 1)
        reception.finish()
        assert bool(reception.holes) is not taken
        assert (reception.accounted == Ranges([(1, 9)])) is taken


def test_messages_that_the_application_has_not_read_come_again_after_a_state_without_them() -> None:
    """Only the baseline of such a state takes them back, and all of them have to come again."""
    for in_state, numbers, found in (
        (True, (2, 3, 4), set()),
        (False, (2, 3, 4), {"X2"}),
        (True, (1, 2, 3, 4), {"X2"}),
        (True, (3, 4), {"X1", "L9"}),
    ):
        late, other = [Told("NYC", name).view("1A", "AB").baseline("D", 1, "SFO") for name in "AB"]
        for number in (1, 2, 3):
            Every(late, other).deliver("D", number, site="SFO")
        late.view("2A", "AB").baseline("D", 2, "SFO", in_state)
        other.view("2A", "AB").deliver("D", 4, site="SFO")
        for number in numbers:
            late.deliver("D", number, site="SFO")
        sender = Told("SFO", "D").view("1D", "D", lineage="1D")
        for number in (1, 2, 3, 4):
            sender.send(number).deliver("D", number)
        assert broken(check(late, other, sender)) == found


@pytest.mark.parametrize("in_state", [False, True])
def test_a_joiner_that_takes_an_older_state_delivers_what_its_provider_delivered_in_an_earlier_view(in_state: bool) -> None:
    """It joined without a state, behind messages that the state of another part then lacked."""
    first, joiner = Told("NYC", "A").view("1A", "A").baseline("D", 1, "SFO"), Told("NYC", "B").view("2A", "AB")
    sender = Told("SFO", "D").view("1D", "D", lineage="1D")
    for number in (1, 2, 3):
        sender.send(number).deliver("D", number)
        first.deliver("D", number, site="SFO")
    first.view("2A", "AB").view("3A", "AB")
    joiner.baseline("D", 4, "SFO").view("3A", "AB").baseline("D", 2, "SFO", in_state)
    for number in (2, 3):
        joiner.deliver("D", number, site="SFO")
    assert broken(check(first, joiner, sender)) == (set() if in_state else {"L6"})


def test_history_is_inherited_although_no_living_member_delivered_it() -> None:
    assert broken(check(*outlived_sender(), crashed="B")) == set()


def test_views_that_members_install_in_opposite_orders_are_reported() -> None:
    """Each then seems to inherit from the other."""
    a = Told("NYC", "A").view("1A", "AB").view("2A", "AB").send(1).deliver("A", 1).send(2).deliver("A", 2)
    b = Told("NYC", "B").view("2A", "AB").view("1A", "AB").view("3A", "AB").deliver("A", 2)
    assert "L4" in broken(check(a, b))


def two_sites_and_one_is_away_for_a_while(*, comes_back: bool) -> tuple[Told, Told]:
    """A of NYC loses sight of D of SFO shortly before the end, and both keep sending."""
    a, d = Told("NYC", "A").view("1A", "A"), Told("SFO", "D").view("1D", "D", lineage="1D")
    Every(a, d).global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:D")
    a.global_view({"NYC": "1A"}, "NYC:A", down=["SFO"])
    if comes_back:
        a.global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:D")
    a.send(1).deliver("A", 1)
    return a.stop(), d.stop()


def test_a_process_that_reappears_had_not_left() -> None:
    """As when a site is taken offline and online again, or its link fails, within seconds of the end."""
    a, d = two_sites_and_one_is_away_for_a_while(comes_back=True)
    ending = find_ending({each.uuid: each.records for each in (a, d)})
    assert ending.lengths == {each.uuid: len(each.records) for each in (a, d)}


def test_a_process_that_vanishes_before_the_last_message_had_left() -> None:
    a, d = two_sites_and_one_is_away_for_a_while(comes_back=False)
    ending = find_ending({each.uuid: each.records for each in (a, d)})
    assert ending.lengths == {a.uuid: len(a.records)}


_pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(-2, 12)).map(lambda pair: (pair[0], sum(pair))), max_size=12)


def plain(ranges: Ranges) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def expand(pairs: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in pairs for number in range(first, last + 1)}


@given(_pairs)
def test_adding(pairs: list[tuple[int, int]]) -> None:
    ranges = Ranges(pairs)
    numbers = expand(pairs)
    assert plain(ranges) == numbers
    assert len(ranges) == len(numbers)
    assert bool(ranges) == bool(numbers)
    listed = list(ranges)
    assert all(first <= last for first, last in listed)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(listed))


@given(_pairs, _pairs, st.integers(0, 80), st.integers(0, 80))
def test_operations(one: list[tuple[int, int]], other: list[tuple[int, int]], first: int, last: int) -> None:
    left, right = Ranges(one), Ranges(other)
    assert plain(left | right) == plain(left) | plain(right)
    assert plain(left & right) == plain(left) & plain(right)
    assert plain(left - right) == plain(left) - plain(right)
    assert plain(left.within(first, last)) == plain(left) & set(range(first, last + 1))
    assert (left == right) == (plain(left) == plain(right))


def test_ranges_are_formatted_and_abbreviated() -> None:
    assert str(Ranges([(3, 7), (9, 9)])) == "3..7, 9"
    assert str(Ranges([(n, n) for n in range(0, 20, 2)])) == "0, 2, 4, 6, ... 6 more ranges"


def test_a_union_needs_memory_for_ranges_and_not_for_numbers() -> None:
    assert Ranges([(1, 1 << 60)]) | Ranges([(1 << 61, 1 << 61)]) == Ranges([(1, 1 << 60), (1 << 61, 1 << 61)])
