"""A returning site is shown as it is: views of old lineages, sent because a third site lacks them, are history."""

from __future__ import annotations

import pytest

from relay.events import GlobalView, SwitchSite
from sitestack.model.frame import Frame
from tests.harness.relay.member import Member
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, sites_of

pytestmark = pytest.mark.conforms("REL-21")


def held_for_a_third(count: int) -> tuple[World, FakeSite, FakeSite]:
    """LON is away, so NYC holds its stream with all views; NYC and SFO are linked."""
    world, sites = sites_of({"LON": 1, "NYC": count, "SFO": 2})
    world.run(2)
    world.part("NYC", "LON")
    return world, sites["NYC"], sites["SFO"]


def meet_again(world: World) -> None:
    """NYC and SFO reach each other; LON stays away."""
    for pair in (("NYC", "SFO"), ("SFO", "NYC")):
        world.partitioned.pop(pair, None)
    world.run(8)


def shown(member: Member, since: int = 0) -> list[list[str]]:
    """The members of NYC in each global view, as names."""
    views = member.global_views()[since:]
    return [[name for each, name in zip(view.members, view.names, strict=True) if each.site == "NYC"] for view in views]


@pytest.mark.parametrize("how", ["cut", "offline"])
def test_a_returning_site_is_not_shown_with_long_dead_members(how: str) -> None:
    world, nyc, sfo = held_for_a_third(2)
    nyc.kill(nyc.relay)
    world.run(1)
    nyc.join("N")
    world.run(15)
    for member in sfo.members:
        assert shown(member)[-1] == ["B", "N"]
    before = len(sfo.members[1].global_views())
    for _ in range(2):
        if how == "cut":
            world.part("NYC", "SFO")
            world.run(12)
        else:
            sfo.relay.say(SwitchSite("NYC", True))
            world.run(2)
            sfo.relay.say(SwitchSite("NYC", False))
        meet_again(world)
    assert shown(sfo.members[1], before) == [[], ["B", "N"]] * 2


def test_newcomers_that_speak_are_in_the_global_view_though_most_of_an_old_one_died_at_once() -> None:
    world, nyc, sfo = held_for_a_third(3)
    for dead in nyc.members[:2]:
        world.vanish(dead)
        nyc.members.remove(dead)
    nyc.block()
    nyc.install()
    world.run(1)
    nyc.join("M")
    speaker = nyc.join("N")
    world.run(30)
    world.part("NYC", "SFO")
    world.run(12)
    before = len(sfo.members[1].global_views())
    meet_again(world)
    speaker.send("here")
    world.run(1)
    assert sfo.members[1].words[-1] == "here"
    assert shown(sfo.members[1], before) == [["C", "M", "N"]]


def test_a_late_message_follows_a_view_that_contains_its_dead_sender() -> None:
    """The relay of NYC wrote while it could not be reached, and died: its view was shown before, and is again (G5)."""
    world, nyc, sfo = held_for_a_third(2)
    world.part("NYC", "SFO")
    world.run(12)
    before = len(sfo.members[1].global_views())
    writer = nyc.relay.address
    nyc.relay.send("last words")
    world.run(1)
    nyc.kill(nyc.relay)
    nyc.join("N")
    world.run(1)
    meet_again(world)
    assert sfo.members[1].words == ["last words"]
    assert sfo.members[1].gaps() == []
    assert shown(sfo.members[1], before)[0] == ["A", "B"]
    assert shown(sfo.members[1])[-1] == ["B", "N"]
    order = [event for event in sfo.members[1].events if isinstance(event, GlobalView | Frame)]
    words = next(place for place, event in enumerate(order) if isinstance(event, Frame))
    views = [event for event in order[:words] if isinstance(event, GlobalView)]
    assert any(each.original == writer for each in views[-1].members)
