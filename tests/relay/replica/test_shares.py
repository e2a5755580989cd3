"""Shares: who relays which origins, whatever the history of the view."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.replica.shares import MASTERS_MAX, Share, deal
from sitestack.model.address import Address
from tests.harness.addresses import address

pytestmark = pytest.mark.conforms("REL-35")

MEMBERS = [address(letter) for letter in "ABCDEFGHIJ"]


@given(st.integers(2, MASTERS_MAX), st.lists(st.booleans(), max_size=40), st.data())
def test_a_death_moves_the_share_of_the_dead_one_only_and_to_a_member_that_has_none(
    wanted: int, dies: list[bool], data: st.DataObject
) -> None:
    members, spare = MEMBERS[: wanted + 1], MEMBERS[wanted + 1 :]
    masters = deal((), members, wanted)
    assert masters == tuple(members[:wanted])
    for dead in dies:
        before = masters
        if dead and len(members) > wanted:
            gone = data.draw(st.sampled_from(members))
            members.remove(gone)
            masters = deal(before, members, wanted)
            moved = [k for k in range(wanted) if masters[k] != before[k]]
            assert moved == [k for k in range(wanted) if before[k] == gone]
        elif spare:
            members.append(spare.pop())
            masters = deal(before, members, wanted)
            assert masters == before, "who joins takes nothing away"
        assert sorted(masters) == sorted(members[:wanted]), "the first in rank relay, the coordinator among them"


@pytest.mark.parametrize(("members", "wanted", "count"), [(1, 2, 0), (2, 1, 0), (2, 2, 2), (2, 3, 2), (3, 8, 3)])
def test_a_small_site_has_as_many_masters_as_members_and_one_relays_alone(members: int, wanted: int, count: int) -> None:
    assert len(deal((), MEMBERS[:members], wanted)) == count


def test_when_there_are_fewer_members_than_masters_those_that_fit_keep_their_number() -> None:
    a, b, c = MEMBERS[:3]
    assert deal((a, b, c), (b, c), 3) == (c, b)
    assert deal((a, b), (b,), 2) == ()
    assert deal((b, a), (a, b, c), 3) == (b, a, c)


def test_each_origin_is_of_one_share_and_many_are_spread_evenly() -> None:
    rng = random.Random(1)
    origins = [Address.make(rng) for _ in range(1_000)]
    for of in range(1, MASTERS_MAX + 1):
        shares = [Share(number, of) for number in range(of)]
        found = Counter([share for origin in origins for share in shares if share.covers(origin)])
        assert sum(found.values()) == len(origins)
        assert max(found.values()) < 1.5 * len(origins) / of


def test_a_link_carries_the_smaller_number_of_shares() -> None:
    assert Share(0, 2).common(Share(0, 1)) == Share(0, 1)
    assert Share(1, 3).common(Share(1, 2)) == Share(1, 2)
