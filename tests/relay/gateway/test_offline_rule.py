"""`offline_after_s`: the relay takes a site offline that has had no link for a configured time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.events import OfflineByRule, SwitchSite
from sitestack.model.events import ViewInstalled
from sitestack.stack.layer import Up
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, leave, sites_of, two_linked_sites

AFTER_S = 60.0
RULE = {"offline_after_s": {"SFO": AFTER_S, "LAX": 1.0}}


def offline(site: FakeSite) -> list[list[str]]:
    return [list(member.layer.state.switches.offline) for member in site.members]


def orders(site: FakeSite) -> list[list[OfflineByRule]]:
    """Return the orders that each member has given by the rule."""
    return [[event for event in member.events if isinstance(event, OfflineByRule)] for member in site.members]


def goes_offline(world: World, nyc: FakeSite) -> None:
    """See that SFO is taken offline by all members after the whole time, and not before."""
    world.run(AFTER_S - 1)
    assert offline(nyc) == [[] for _ in nyc.members]
    world.run(2)
    assert offline(nyc) == [["SFO"] for _ in nyc.members]


def linked_then_cut() -> tuple[World, FakeSite, FakeSite]:
    world, nyc, sfo = two_linked_sites(gateway=RULE)
    world.part("NYC", "SFO")
    return world, nyc, sfo


def test_the_relay_takes_a_site_offline_once_after_the_time_without_a_link() -> None:
    world, nyc, sfo = linked_then_cut()
    goes_offline(world, nyc)
    world.heal()
    world.run(3 * AFTER_S)
    assert orders(nyc) == [[OfflineByRule("SFO", AFTER_S)], [], []]
    assert orders(sfo) == [[], [], []], "no site takes itself offline"
    assert offline(sfo) == [[], [], []]


def test_a_link_in_time_starts_the_time_again() -> None:
    world, nyc, _ = linked_then_cut()
    world.run(AFTER_S - 10)
    world.heal()
    world.run(10)
    world.part("NYC", "SFO")
    goes_offline(world, nyc)


def test_the_next_relay_counts_anew() -> None:
    world, nyc, _ = linked_then_cut()
    world.run(AFTER_S - 1)
    leave(nyc)
    nyc.install()
    goes_offline(world, nyc)


def test_a_site_switched_online_by_an_operator_has_the_whole_time_again() -> None:
    world, nyc, _ = linked_then_cut()
    world.run(AFTER_S + 30)
    nyc.members[1].say(SwitchSite("SFO", False))
    goes_offline(world, nyc)
    assert orders(nyc) == [[OfflineByRule("SFO", AFTER_S)] * 2, [], []]


def test_a_site_that_was_never_linked_is_waited_for() -> None:
    world, sites = sites_of({"NYC": 3, "SFO": 3}, gateway=RULE)
    world.part("NYC", "SFO")
    world.run(3 * AFTER_S)
    assert offline(sites["NYC"]) == [[], [], []]


@pytest.mark.parametrize("is_primary", [True, False])
def test_a_part_without_the_majority_takes_no_site_offline(is_primary: bool) -> None:
    world, nyc, _ = linked_then_cut()
    for member in nyc.members:
        before = member.layer.state.view
        assert before is not None
        effects = member.layer.up(ViewInstalled(replace(before, is_primary=is_primary), before), world.now)
        nyc.carry_out(member, [each for each in effects if not isinstance(each, Up)])
    world.run(AFTER_S + 2)
    assert offline(nyc) == [["SFO"] if is_primary else []] * 3
