"""Members ahead after a merge, and joiners with the state of one: another site's messages arrive once."""

from __future__ import annotations

import pytest

from relay.replica.entries import RemoteGap
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from sitestack.model.state_events import Baseline, StateArrived, StateAwaited
from sitestack.model.view import ViewId
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, Puppet, alone, data
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World


def split(count: int) -> tuple[World, FakeSite, FakeSite]:
    """NYC is split: two members have 1..3 of D, the others have 1. SFO, played by the test, is away."""
    world, nyc = alone(count)
    Puppet(nyc).greet().say(data(1))
    other = nyc.split(nyc.members[2:])
    puppet = Puppet(nyc).greet(epoch=2)
    puppet.say(data(2), data(3))
    puppet.close()
    return world, nyc, other


def merged() -> tuple[World, FakeSite]:
    """NYC is whole again."""
    world, nyc, other = split(4)
    nyc.merge(other)
    world.settle()
    return world, nyc


def told(member: Member) -> list[object]:
    """Return a member's items about D: a delivered number, a gap, or its beginning."""
    heard: list[object] = []
    for event in member.events:
        if isinstance(event, Frame) and event.batch is not None:
            heard.append(event.batch.first)
        elif isinstance(event, Gap):
            heard.append((event.first, event.last))
        elif isinstance(event, Baseline):
            heard.append({"after": event.origins[D]})
    return heard


def joiner(site: FakeSite, provider: int | None) -> Member:
    """Return a member that joins before the missing entries are resent, with this provider of its state."""
    member = site.join("J")
    if provider is not None:
        site.carry_out(member, member.layer.up(StateAwaited(site.members[provider].address), site.world.now))
    return member


@pytest.mark.parametrize(
    ("provider", "hears"),
    [
        (0, [{"after": 1}, {"after": 2}, {"after": 3}, 4]),
        (1, [{"after": 1}, {"after": 2}, {"after": 3}, 4]),
        (2, [{"after": 1}, 2, 3, 4]),
        (None, [{"after": 1}, 2, 3, 4]),
    ],
)
def test_a_joiner_delivers_the_messages_missing_from_the_state_of_its_provider(
    provider: int | None, hears: list[object]
) -> None:
    _world, nyc = merged()
    late = joiner(nyc, provider)
    Puppet(nyc).greet(epoch=3).say(data(2), data(3), data(4))
    assert told(late) == hears
    assert [told(member) for member in nyc.members[:4]] == [[1, 2, 3, 4]] * 4


@pytest.mark.parametrize(
    ("provider", "gap", "hears", "behind"),
    [
        (0, 5, [{"after": 1}, {"after": 3}, (4, 5), 6], (2, 5)),
        (0, 3, [{"after": 1}, {"after": 3}, 4], (2, 3)),
        (0, 2, [{"after": 1}, {"after": 2}, {"after": 3}, 4], (2, 2)),
        (2, 5, [{"after": 1}, (2, 5), 6], (2, 5)),
    ],
)
def test_a_joiner_reports_the_part_of_a_gap_that_its_state_does_not_contain(
    provider: int, gap: int, hears: list[object], behind: tuple[int, int]
) -> None:
    _world, nyc = merged()
    late = joiner(nyc, provider)
    frames = [data(n) for n in range(gap + 1, 4)]
    Puppet(nyc).greet(epoch=3).say(RemoteGap("SFO", D, 2, gap, GapReason.BUDGET), *frames, data(max(gap, 3) + 1))
    assert told(late) == hears
    assert told(nyc.members[2])[:2] == [1, behind]
    assert told(nyc.members[0])[:3] == [1, 2, 3]


def test_the_next_provider_counts_as_soon_as_there_is_one() -> None:
    _world, nyc = merged()
    late = joiner(nyc, 0)
    nyc.carry_out(late, late.layer.up(StateAwaited(nyc.members[2].address), nyc.world.now))
    Puppet(nyc).greet(epoch=3).say(data(2), data(3), data(4))
    assert told(late) == [{"after": 1}, {"after": 1}, 2, 3, 4]


def test_a_joiner_that_gets_no_state_delivers_what_the_state_of_its_provider_had() -> None:
    """The provider was ahead, and left; no other member has a state. Otherwise these messages would be lost silently."""
    _world, nyc = merged()
    late = joiner(nyc, 0)
    nyc.carry_out(late, late.layer.up(StateArrived(ViewId(9, D), None), nyc.world.now))
    Puppet(nyc).greet(epoch=3).say(data(2), data(3), data(4))
    assert told(late) == [{"after": 1}, 2, 3, 4]


@pytest.mark.parametrize(("provider", "hears"), [(-1, [{"after": 3}, {"after": 1}, 2, 3, 4]), (0, [{"after": 3}, 4])])
def test_a_member_of_a_part_that_was_ahead_continues_its_own_numbers_without_a_state(
    provider: int, hears: list[object]
) -> None:
    world, nyc, late = ahead_without_a_state()
    for event in (StateAwaited(nyc.members[provider].address), StateArrived(ViewId(9, D), None)):
        nyc.carry_out(late, late.layer.up(event, world.now))
    Puppet(nyc).greet(epoch=3).say(data(2), data(3), data(4))
    assert told(late) == hears


def ahead_without_a_state() -> tuple[World, FakeSite, Member]:
    """The joiner is of the part that was ahead, and had no state from it before the merge."""
    world, nyc, other = split(3)
    late = nyc.join("J")
    nyc.merge(other)
    world.settle()
    return world, nyc, late


@pytest.mark.parametrize("providers", [[-1], [0, -1]])
def test_a_joiner_whose_provider_is_of_another_part_begins_at_the_state_of_the_provider(providers: list[int]) -> None:
    """Its part was ahead, and had not given it a state before the merge, nor before the view that follows."""
    world, nyc, late = ahead_without_a_state()
    for provider in providers:
        nyc.carry_out(late, late.layer.up(StateAwaited(nyc.members[provider].address), world.now))
    begun = [event for event in late.events if isinstance(event, Baseline)]
    assert [(each.in_state, each.at_join) for each in begun] == [(False, True), (True, True)]
    Puppet(nyc).greet(epoch=3).say(data(2), data(3), data(4))
    assert told(late) == [{"after": 3}, {"after": 1}, 2, 3, 4]


def test_members_ahead_are_known_to_all_and_to_joiners_until_settled_or_departed() -> None:
    _world, nyc = merged()
    first, second = (member.address for member in nyc.members[:2])
    late = joiner(nyc, None)

    def ahead(member: Member) -> dict[Address, dict[Address, int]]:
        return member.layer.state.remotes["SFO"].ahead

    assert [ahead(member) for member in nyc.members] == [{first: {D: 3}, second: {D: 3}}] * 5
    assert late in nyc.members
    nyc.kill(nyc.members[1])
    assert [ahead(member) for member in nyc.members] == [{first: {D: 3}}] * 4
    puppet = Puppet(nyc).greet(epoch=3)
    puppet.say(data(2))
    assert [ahead(member) for member in nyc.members] == [{first: {D: 3}}] * 4
    puppet.say(data(3))
    assert [ahead(member) for member in nyc.members] == [{}] * 4


def test_members_ahead_deliver_each_message_once_after_another_split() -> None:
    """The part that it is in has less than it has itself."""
    _world, nyc = merged()
    other = nyc.split(nyc.members[1:3])
    nyc.merge(other)
    Puppet(nyc).greet(epoch=9).say(data(2), data(3), data(4))
    for member in nyc.members:
        assert told(member) == [1, 2, 3, 4]
