"""The global view: one component a site, equal everywhere, never backwards, reported only on a change."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from relay.events import GlobalView
from relay.replica.config import BufferConfig
from relay.replica.entries import RemoteView
from relay.replica.merge import merge_parts
from relay.replica.state import ReplicatedState
from sitestack.model.address import ProxyUUID
from sitestack.model.events import ViewInstalled
from sitestack.model.view import SubView, View, ViewId
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, E, F, Puppet, alone, data, remote_view
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, sites_of, two_linked_sites


def last(member: Member) -> GlobalView:
    return member.global_views()[-1]


def shown(member: Member) -> list[str]:
    view = last(member)
    return [view.name_of(each) for each in view.members]


@pytest.mark.conforms("REL-19", "REL-20", "REL-30")
def test_all_members_see_the_members_of_all_sites_by_name_in_one_order() -> None:
    world, nyc, sfo = two_linked_sites()
    names = ["A@NYC", "B@NYC", "C@NYC", "A@SFO", "B@SFO", "C@SFO"]
    for member in nyc.members + sfo.members:
        assert shown(member) == names
        assert last(member) == last(nyc.relay)
    joiner = sfo.join("G")
    world.run(1)
    for member in nyc.members + sfo.members:
        assert shown(member) == [*names, "G@SFO"], "who joined after the link came up, too"
    assert joiner.global_views()[0] == last(joiner), "a joiner knows all at once (R23)"


@pytest.mark.conforms("REL-25")
def test_the_global_view_names_the_sites_that_it_joins() -> None:
    """First contact, or a bridge that is back: separate sites are joined again, and the application is notified."""
    world, nyc, sfo = two_linked_sites()
    assert [view.joined for view in nyc.members[1].global_views()][1] == ("SFO",)
    sfo.join("G")
    world.run(1)
    assert last(nyc.members[1]).joined == (), "a change in there is no joining"
    world.part("NYC", "SFO")
    world.run(60)
    assert last(nyc.members[1]).down == ("SFO",)
    world.heal()
    world.run(30)
    assert [view.joined for view in nyc.members[1].global_views() if view.joined] == [("SFO",), ("SFO",)]


@pytest.mark.conforms("REL-21")
def test_consecutive_global_views_differ_and_no_component_decreases() -> None:
    world, sites = sites_of({"LAX": 1, "NYC": 3, "SFO": 2})
    world.run(1)
    sites["NYC"].kill(sites["NYC"].relay)
    world.run(1)
    sites["SFO"].join("G")
    world.break_links("NYC", "SFO")
    world.run(3)
    for site in sites.values():
        for member in site.members:
            views = member.global_views()
            for one, other in itertools.pairwise(views):
                assert one != other
                for name in set(one.components) & set(other.components):
                    assert one.components[name] <= other.components[name]
            assert views[-1] == last(sites["LAX"].relay)


@pytest.mark.conforms("REL-24")
def test_a_relay_failover_removes_no_living_member_from_any_view() -> None:
    """R18, G6."""
    world, nyc, sfo = two_linked_sites()
    lives = [ProxyUUID(member.address, "SFO") for member in sfo.members[1:]]
    before = [len(member.global_views()) for member in nyc.members]
    sfo.world.vanish(sfo.relay)
    world.run(3)
    sfo.members.pop(0)
    sfo.block()
    sfo.install()
    world.run(3)
    for member, seen in zip(nyc.members, before, strict=True):
        for view in member.global_views()[seen - 1 :]:
            assert [each for each in view.members if each in lives] == lives
            assert view.down == ()


@pytest.mark.conforms("REL-23", "REL-29")
def test_a_site_without_a_link_goes_down_once_after_the_grace_time_and_comes_back() -> None:
    world, nyc, sfo = two_linked_sites(2, gateway={"grace_s": 10.0})
    world.part("NYC", "SFO")
    seen = len(nyc.members[1].global_views())
    world.run(9.5)
    assert len(nyc.members[1].global_views()) == seen
    world.run(1)
    for member in nyc.members:
        assert shown(member) == ["A@NYC", "B@NYC"]
        assert last(member).down == ("SFO",)
    assert len(nyc.members[1].global_views()) == seen + 1
    world.run(60)
    assert len(nyc.members[1].global_views()) == seen + 1
    world.heal()
    world.run(10)
    for member in nyc.members + sfo.members:
        assert shown(member) == ["A@NYC", "B@NYC", "A@SFO", "B@SFO"]
        assert last(member).down == ()


def linked_while_taken_down() -> tuple[World, FakeSite, Puppet]:
    """NYC, which shows D and E of SFO, and a link that comes up after the grace time."""
    world, nyc = alone()
    first = Puppet(nyc).greet()
    first.say(RemoteView("SFO", remote_view(1, D, E)))
    first.close()
    world.run(9.9)
    nyc.block()
    world.run(0.2)  # it goes down, but nothing is sequenced
    second = Puppet(nyc).greet(epoch=2)
    return world, nyc, second


@pytest.mark.conforms("REL-22")
def test_a_link_that_comes_up_while_the_site_is_taken_down_brings_it_back() -> None:
    world, nyc, second = linked_while_taken_down()
    second.heard()
    nyc.install()
    world.run(1)
    states = second.states()
    assert states, "asked again"
    assert states[-1].vectors["SFO"].view is None
    second.say(RemoteView("SFO", remote_view(1, D, E)))
    assert [name.split("@")[1] for name in shown(nyc.members[1])] == ["NYC"] * 3 + ["SFO"] * 2


@pytest.mark.conforms("REL-20", "REL-22")
def test_a_link_that_comes_up_while_its_site_is_taken_down_brings_the_view_before_the_messages() -> None:
    """G5: the view that NYC has is hidden by the entry that is on its way."""
    world, nyc, second = linked_while_taken_down()
    [asked] = second.states()
    view = asked.vectors["SFO"].view
    second.say(*([RemoteView("SFO", remote_view(1, D, E))] if view is None else []), data(1))  # later numbers of its stream
    nyc.install()
    world.settle()
    for member in nyc.members:
        [message] = member.frames
        before = [event for event in member.events[: member.events.index(message)] if isinstance(event, GlobalView)]
        assert [each.site for each in before[-1].members].count("SFO") == 2


@pytest.mark.conforms("REL-22")
def test_a_view_whose_message_is_lost_arrives_with_the_next_link() -> None:
    world, nyc, sfo = two_linked_sites(2)
    world.mute = True
    sfo.join("G")
    world.run(0.5)
    world.break_links("NYC", "SFO")
    world.mute = False
    world.run(2)
    assert shown(nyc.members[1])[-1] == "G@SFO"


@pytest.mark.conforms("REL-21")
def test_a_late_view_of_a_lost_part_does_not_flip_the_site() -> None:
    """R10, R19: views of two lineages; the newer one stands for the site."""
    _world, nyc = alone()
    one, other = Puppet(nyc).greet(epoch=5), Puppet(nyc).greet(epoch=6, lineage=6)
    one.say(RemoteView("SFO", remote_view(5, D, E, F)))
    other.say(RemoteView("SFO", remote_view(6, E, F, lineage=6)))
    seen = len(nyc.relay.global_views())
    one.say(RemoteView("SFO", remote_view(4, D, E, F)), data(1))
    assert len(nyc.relay.global_views()) == seen
    assert last(nyc.relay).components["SFO"].counter == 6
    one.say(RemoteView("SFO", View(ViewId(6, D), ViewId(1, D), (D,), ("d",))))
    assert len(nyc.relay.global_views()) == seen, "newer for its part, and not for the site"
    assert nyc.members[2].words == ["1"], "its messages count all the same"


@pytest.mark.conforms("REL-21")
def test_of_two_views_on_their_way_at_once_the_newer_one_stays() -> None:
    _world, nyc = alone()
    old = Puppet(nyc).greet(epoch=5)
    nyc.block()
    new = Puppet(nyc).greet(epoch=6)
    new.say(RemoteView("SFO", remote_view(6, D, E)))
    old.say(RemoteView("SFO", remote_view(5, D)))
    third = Puppet(nyc).greet(epoch=7)
    third.say(RemoteView("SFO", remote_view(5, D)))
    nyc.install()
    nyc.world.settle()
    for member in nyc.members:
        assert {view.components["SFO"].counter for view in member.global_views() if "SFO" in view.components} == {6}
        assert member.drops["relay_view_duplicate"] == 1


@pytest.mark.conforms("REL-21")
def test_a_site_that_died_and_came_back_with_lower_numbers_is_shown_when_the_old_one_is_down() -> None:
    """F29: views of the new process group begin at 1."""
    world, nyc = alone()
    old = Puppet(nyc).greet(epoch=50)
    old.say(RemoteView("SFO", remote_view(50, D)))
    old.close()
    fresh = Puppet(nyc).greet(epoch=1, lineage=2)
    fresh.say(RemoteView("SFO", remote_view(1, E, lineage=2)))
    assert last(nyc.relay).components["SFO"].counter == 50
    world.run(10.5)
    assert last(nyc.members[1]).components["SFO"].counter == 1
    assert last(nyc.members[1]).down == ()


@pytest.mark.conforms("REL-19")
def test_the_global_view_comes_right_after_the_view_of_this_site() -> None:
    _world, nyc, _sfo = two_linked_sites(2)
    nyc.join("G")
    for member in nyc.members:
        kinds = [type(event) for event in member.events if isinstance(event, ViewInstalled | GlobalView)]
        assert kinds[kinds.index(ViewInstalled) + 1] is GlobalView


def test_a_newer_view_of_a_few_members_does_not_remove_the_others() -> None:
    """They may live: their part is shown until the merge, or until its lineage was without a link for the grace time."""
    _world, nyc = alone()
    link = Puppet(nyc).greet(epoch=5)
    lone, rest = remote_view(9, D, lineage=9), remote_view(6, E, F)
    Puppet(nyc).greet(epoch=9, lineage=9).say(RemoteView("SFO", remote_view(5, D, E, F)), RemoteView("SFO", lone))
    assert last(nyc.relay).components["SFO"].counter == 5
    link.say(RemoteView("SFO", rest))
    assert last(nyc.relay).components["SFO"].counter == 6
    parts = tuple([SubView(each.id, each.members, each.lineage) for each in (lone, rest)])
    merged = replace(remote_view(10, D, E, F, lineage=10), subviews=parts)
    link.say(RemoteView("SFO", merged))
    assert last(nyc.relay).components["SFO"].counter == 10


def test_the_part_of_a_few_members_is_shown_when_the_other_one_was_away_for_the_grace_time() -> None:
    world, nyc = alone()
    link = Puppet(nyc).greet(epoch=5)
    link.say(RemoteView("SFO", remote_view(5, D, E, F)))
    Puppet(nyc).greet(epoch=9, lineage=9).say(RemoteView("SFO", remote_view(9, D, lineage=9)))
    link.close()
    world.run(9.5)
    assert last(nyc.members[1]).components["SFO"].counter == 5
    world.run(1.0)
    assert last(nyc.members[1]).components["SFO"].counter == 9


def test_a_newer_view_of_half_of_the_members_is_shown_at_once() -> None:
    """A site of two whose coordinator dies begins another lineage, and the dead one is not waited for."""
    _world, nyc = alone()
    Puppet(nyc).greet(epoch=5).say(RemoteView("SFO", remote_view(5, D, E)), RemoteView("SFO", remote_view(6, E, lineage=6)))
    assert last(nyc.relay).components["SFO"].counter == 6


def test_a_merge_keeps_the_remote_view_that_one_part_showed() -> None:
    state = ReplicatedState("NYC", BufferConfig())
    for view in (remote_view(5, D, E, F), remote_view(9, D, lineage=9)):
        state.apply_view(RemoteView("SFO", view))
    stranger = replace(state.give(), view=ViewId(9, E), remotes=())
    merged = merge_parts([replace(state.give(), view=ViewId(8, D)), stranger], {})
    other = ReplicatedState("NYC", BufferConfig())
    other.adopt(merged, 0.0)
    assert other.global_view().components["SFO"].counter == 5
