"""The numbers that travel with an application's state: the last multicast of each stream that it contains."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from sitestack.channel.receiving.inbox import StateMark
from sitestack.channel.receiving.state_extras import split_extras
from sitestack.channel.receiving.state_handover import NUMBERS_MAX
from sitestack.model.address import Address
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Scope
from sitestack.model.state_events import GiveSnapshot, StateArrived
from tests.harness.addresses import view_of
from tests.sitestack.channel.receiving.test_state_extras import A, delivery, filled, started


@pytest.mark.parametrize("majority", [True, False])
async def test_a_state_without_numbers_contains_what_precedes_its_view_or_nothing(
    autojump_clock: MockClock, majority: bool
) -> None:
    """A provider of release 0.2.0 names none. It knows no `when_split: majority`, where none means that it has read nothing."""
    view, early, late = view_of(9, "AB"), delivery(1, 1), delivery(1, 2)
    joiner = filled(view, [early], [late], majority)
    joiner.handover.handle(StateArrived(view.id, b"state"))
    items = [view, early, late] if majority else [view, late]
    assert await joiner.reads(len(items)) == items
    assert len(joiner.inbox) == 0


async def test_numbers_do_not_travel_to_another_site(autojump_clock: MockClock) -> None:
    provider, given = started(), list[Any]()
    provider.inbox.put(delivery(1, 1))
    await provider.reads(1)
    provider.handover.handle(GiveSnapshot(1))
    provider.handover.reach(StateMark(1), given.append)
    assert [each.data for each in given] == [b"state"]


async def test_an_older_gap_of_a_state_lowers_no_number_of_the_next_one(autojump_clock: MockClock) -> None:
    provider, old = started(), Gap("NYC", A, 1, 1, GapReason.BACKLOG)
    for item in (old, delivery(1, 2)):
        provider.inbox.put(item)
    await provider.reads(2)
    view = view_of(9, "AB")
    joiner = filled(view, [], [])
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(2) == [view, old]
    assert split_extras(joiner.given())[0].numbers == (("NYC", A, Scope.ALL, 2),)


def test_the_numbers_of_a_state_are_those_of_the_latest_streams() -> None:
    provider = started()
    for number in range(NUMBERS_MAX + 1):
        provider.handover.count(("NYC", Address(number.to_bytes(16, "big")), Scope.ALL), 1)
        provider.handover.count(("NYC", A, Scope.ALL), number + 1)
    numbers = split_extras(provider.given())[0].numbers
    assert (len(numbers), numbers[-1]) == (NUMBERS_MAX, ("NYC", A, Scope.ALL, NUMBERS_MAX + 1))
