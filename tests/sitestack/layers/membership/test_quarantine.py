"""When a member stands still because others are in a later view, and what ends that."""

from __future__ import annotations

import pytest

from sitestack.layers.membership.config import QuarantineTimes
from sitestack.layers.membership.headers import Prepare
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.quarantine import Quarantine
from sitestack.model.events import Blocked, SeenView, Unblocked
from sitestack.model.view import SubView, View
from sitestack.stack.layer import Announce, Effect
from tests.harness.addresses import address, view_id, view_of

BLOCK: list[Effect] = [Announce(Blocked(quarantined=True))]
UNBLOCK: list[Effect] = [Announce(Unblocked())]
TIMES = QuarantineTimes(silence_s=3.0, limit_s=10.0)


class Member:
    """One process in a view, by default the third one of A, B and C."""

    def __init__(self, view: View | None = None) -> None:
        self.promises = Promises()
        self.quarantine = Quarantine(self.promises, TIMES)
        self.install(view or view_of(3, "ABC"))

    def install(self, view: View) -> bool:
        self.promises.install(view)
        return self.quarantine.install(view)

    def sees(self, name: str, view: str, now: float = 1.0) -> list[Effect]:
        return self.quarantine.seen(SeenView(address(name), view_id(view)), now)


def test_a_companion_in_a_later_view_stops_it_and_no_other_heartbeat_does() -> None:
    member = Member()
    assert member.sees("B", "2B") == [], "an earlier view: B has not installed this one yet"
    assert member.sees("D", "9D") == [], "a stranger"
    assert not member.quarantine
    assert member.sees("B", "4B") == BLOCK
    assert member.sees("C", "4B") == []
    assert member.quarantine


def test_the_view_that_it_has_prepared_does_not_stop_it() -> None:
    member = Member()
    later = view_of(4, "BC")
    member.promises.promise(later.id, 1.0)
    member.promises.prepare = Prepare(view_id("3A"), later, {}, {}, False, ())
    assert member.sees("B", "4B") == []
    assert not member.quarantine
    assert member.sees("B", "5B") == [], "it is blocked already"
    assert member.quarantine


def test_it_ends_when_no_companion_is_heard_any_more() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    member.sees("C", "4B", 3.0)
    assert member.quarantine.deadline() == 6.0
    assert member.quarantine.expire(5.9) == []
    assert member.quarantine.expire(6.0) == UNBLOCK
    assert member.quarantine.deadline() is None
    assert member.sees("B", "4B", 7.0) == BLOCK, "it is heard again"


def test_it_ends_after_the_longest_time_and_does_not_begin_again_in_that_view() -> None:
    member = Member()
    for second in range(1, 11):
        member.sees("B", "4B", second)
    assert member.quarantine.deadline() == 11.0
    assert member.quarantine.expire(11.0) == UNBLOCK
    assert member.sees("B", "4B", 11.5) == []
    member.install(view_of(5, "ABC"))
    assert member.sees("B", "6B", 12.0) == BLOCK


def test_a_flush_that_is_under_way_when_it_ends_goes_on() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    member.promises.promise(view_id("4A"), 1.5)
    assert member.quarantine.expire(4.0) == []
    assert member.install(view_of(4, "A")) is False


@pytest.mark.parametrize(
    ("old", "new", "lasts"), [("ABC", "A", True), ("ABC", "AC", False), ("AB", "A", True), ("ABC", "ADEF", True)]
)
def test_a_view_with_more_than_half_of_the_members_ends_it(old: str, new: str, lasts: bool) -> None:
    member = Member(view_of(3, old))
    member.sees("B", "4B", 1.0)
    assert member.install(view_of(4, new)) is lasts
    assert bool(member.quarantine) is lasts


def test_a_merge_view_ends_it() -> None:
    member = Member()
    member.sees("B", "4B", 1.0)
    assert member.install(view_of(4, "A"))
    parts = (SubView(view_id("4A"), (address("A"),), view_id("4A")), SubView(view_id("4B"), (address("B"),), view_id("1A")))
    merged = view_of(5, "AB")
    assert not member.install(View(merged.id, merged.id, merged.members, merged.names, parts))
    assert member.quarantine.deadline() is None
