"""Entries held for a lost part of another site: a crash looks like a split, so the budget decides."""

from __future__ import annotations

import pytest

from relay.gateway.config import GatewayConfig
from relay.gateway.grace import Grace
from relay.layer.statistics import RelayStatistics, SiteStatistics
from relay.replica.config import BufferConfig
from relay.replica.entries import RemoteView, SiteDown
from relay.replica.remote_site import LINEAGES_MAX, REACHED_MAX, Remote
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.view import SubView, View, ViewId
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, E, F, Puppet, alone, remote_view
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, two_linked_sites

ADDRESS = Address(bytes(16))


def sfo_at(member: Member) -> SiteStatistics:
    numbers = member.layer.statistics()
    assert isinstance(numbers, RelayStatistics)
    return next(each for each in numbers.sites if each.site == "SFO")


def lose_the_first_of_two(config: BufferConfig) -> tuple[World, FakeSite, FakeSite]:
    """SFO's coordinator crashes; the other member cannot exclude a split, and starts a new lineage."""
    world, nyc, sfo = two_linked_sites(2, buffer=config)
    sfo.kill(sfo.relay)
    assert sfo.view is not None
    assert sfo.view.lineage == sfo.view.id
    world.run(12)
    return world, nyc, sfo


def test_entries_held_for_a_lost_part_are_no_lag_and_are_reported_separately() -> None:
    world, nyc, sfo = lose_the_first_of_two(BufferConfig())
    for n in range(5):
        nyc.relay.send(str(n))
        world.run(1)
    assert sfo.relay.words == ["0", "1", "2", "3", "4"]
    for member in nyc.members:
        numbers = sfo_at(member)
        assert (numbers.behind_entries, numbers.behind_s, numbers.down) == (0, 0.0, False)
        assert numbers.lost_parts_entries == 5
        assert len(member.layer.state.buffer) == 5


@pytest.mark.conforms("REL-13")
def test_it_goes_by_age_and_the_lineage_is_forgotten() -> None:
    world, nyc, _ = lose_the_first_of_two(BufferConfig(budget_age_s=60.0))
    nyc.relay.send("x")
    world.run(70)
    for member in nyc.members:
        assert len(member.layer.state.buffer) == 0
        assert len(member.layer.state.remotes["SFO"].lineages) == 1
    nyc.relay.send("y")
    world.run(1)
    assert {len(member.layer.state.buffer) for member in nyc.members} == {0}


@pytest.mark.conforms("REL-24")
def test_a_part_that_is_known_from_the_replay_of_another_alone_stays_for_the_grace_time() -> None:
    """G3: it never had a link of its own here. Hidden at once, and shown by the next replay, the site would flicker."""
    world, nyc = alone(2)
    world.run(60.0)
    puppet = Puppet(nyc).greet()
    puppet.say(RemoteView("SFO", remote_view(5, D, E, lineage=1)))
    puppet.say(RemoteView("SFO", remote_view(7, E, F, lineage=7)))
    shown = [view.components["SFO"].counter for view in nyc.members[1].global_views() if "SFO" in view.components]
    assert shown[-1] == 7
    world.run(GatewayConfig().grace_s - 1.0)
    assert [view.components["SFO"].counter for view in nyc.members[1].global_views() if "SFO" in view.components] == shown
    world.run(1.5)
    assert nyc.members[1].global_views()[-1].components["SFO"].counter == 5


def test_the_number_of_lost_parts_with_a_grace_time_is_bounded() -> None:
    """B1: parts come and go for as long as a relay lives, and the replicated state knows the last of them only."""
    state = ReplicatedState("NYC", BufferConfig())
    grace = Grace(state, 10.0, 600.0)
    for n in range(1, 100):
        part = ViewId(n, D)
        state.remote("SFO").lineage(part)
        grace.away(("SFO", part), float(n))
    assert len(grace._since) <= LINEAGES_MAX + 1
    assert grace.deadline({("SFO", ViewId(99, E)): 1}) == 692.0


@pytest.mark.conforms("REL-21", "REL-24")
def test_a_part_that_is_shown_is_not_forgotten_before_it_goes_down() -> None:
    """G3, G6: entries are held for a moment only, and a link that is away for less than the grace time changes nothing."""
    world, nyc, sfo = two_linked_sites(4, buffer=BufferConfig(budget_age_s=1.0))
    other = sfo.split(sfo.members[2:])
    world.run(3)
    assert sfo.view is not None
    other.install()  # so that it is the newer one, and not shown before the first one goes down
    world.run(1)
    assert other.view is not None
    shown = [member.global_views()[-1] for member in nyc.members]
    assert {view.components["SFO"] for view in shown} == {sfo.view.id}
    sfo.name = "SFO, cut off"
    world.part("NYC", sfo.name)
    world.run(5)
    assert [member.global_views()[-1] for member in nyc.members] == shown
    world.run(10)
    assert {member.global_views()[-1].components["SFO"] for member in nyc.members} == {other.view.id}
    assert {len(member.layer.state.remotes["SFO"].lineages) for member in nyc.members} == {1}


@pytest.mark.conforms("REL-14")
def test_a_link_that_came_up_while_it_was_being_forgotten_is_held_for() -> None:
    world, nyc, sfo = two_linked_sites(2)
    assert sfo.view is not None
    nyc.cast(SiteDown("SFO", sfo.view.lineage, True))
    nyc.relay.send("x")
    world.run(3)
    for member in nyc.members:
        lineage = member.layer.state.remotes["SFO"].lineages[sfo.view.lineage]
        assert (lineage.epoch, lineage.view) == (sfo.view.id, sfo.view)
    world.part("NYC", "SFO")
    nyc.relay.send("y")
    world.run(1)
    assert [len(member.layer.state.buffer) for member in nyc.members] == [1, 1]


def test_linked_lineages_are_evicted_after_those_that_never_linked() -> None:
    remote = Remote()
    names = [ViewId(n, ADDRESS) for n in range(1, LINEAGES_MAX + 3)]
    shown, telling, *passed = names
    remote.show(View(shown, shown, (ADDRESS,), ("D",)))
    remote.lineage(shown).epoch = shown
    remote.lineage(telling).epoch = telling
    for name in passed:
        remote.show(View(name, name, (ADDRESS,), ("D",)))
    assert list(remote.lineages) == [shown, telling, *passed[2:]]
    remote.hide(shown, forget=False)
    later = [ViewId(n, ADDRESS) for n in range(100, 100 + LINEAGES_MAX - 1)]
    for name in later[:-1]:
        remote.lineage(name).epoch = name
    assert list(remote.lineages) == [shown, telling, *later[:-1]]
    remote.lineage(shown)
    remote.lineage(later[-1])
    assert list(remote.lineages) == [*later[:-1], shown, later[-1]], "of those that have linked the first without a view"


def test_a_lineage_that_returns_after_the_grace_time_outlives_its_replayed_history() -> None:
    remote, back = Remote(), ViewId(50, ADDRESS)
    remote.show(View(back, back, (ADDRESS,), ("D",)))
    remote.lineage(back).epoch = back
    remote.hide(back, forget=False)
    remote.lineage(back)
    for n in range(1, LINEAGES_MAX + 2):
        remote.show(View(ViewId(n, ADDRESS), ViewId(n, ADDRESS), (ADDRESS,), ("D",)))
        assert back in remote.lineages


def test_a_lineage_that_is_seen_again_is_no_longer_the_oldest() -> None:
    remote = Remote()
    names = [ViewId(n, ADDRESS) for n in range(1, LINEAGES_MAX + 2)]
    for name in names[:-1]:
        remote.show(View(name, name, (ADDRESS,), ("D",)))
    remote.lineage(names[0])
    remote.lineage(names[-1])
    assert list(remote.lineages) == [*names[2:-1], names[0], names[-1]]
    remote.hide(names[5], forget=False)
    remote.lineage(names[1])
    assert list(remote.lineages) == [*names[2:5], *names[6:-1], names[0], names[-1], names[1]]


@pytest.mark.conforms("REL-21")
@pytest.mark.parametrize("gone", ["forgotten", "ended by a merge view", "pushed out"])
def test_a_lineage_that_is_known_no_more_does_not_come_back_with_an_older_view(gone: str) -> None:
    """G3: its successor may begin with an old state of it."""
    remote = Remote()
    part = ViewId(1, D)
    for counter in (2, 4):
        remote.show(remote_view(counter, D, E))
    if gone == "forgotten":
        remote.hide(part, forget=True)
    elif gone == "pushed out":
        for n in range(10, 10 + LINEAGES_MAX):
            remote.show(remote_view(n, F, lineage=n))
    else:
        merged = View(ViewId(9, D), ViewId(9, D), (D, E), ("D", "E"), (SubView(ViewId(4, D), (D, E), part),))
        remote.lineage(merged.lineage).epoch = merged.id
        remote.show(merged)
        remote.hide(merged.lineage, forget=False)
    assert part not in remote.lineages
    taken = Remote.taken(remote.give("SFO"))
    for each in (remote, taken):
        before = each.view
        assert not each.show(remote_view(3, D, E))
        assert (each.view, part in each.lineages) == (before, False)
        assert each.show(remote_view(4, D, E)), "it lives, and this is its newest one"
        assert not each.show(remote_view(4, D, E))
        assert each.show(remote_view(5, D))


@pytest.mark.conforms("REL-21")
def test_replayed_views_older_than_the_shown_one_are_not_sequenced() -> None:
    world, nyc = alone(2, BufferConfig(budget_age_s=15.0))
    old = Puppet(nyc).greet()
    old.say(RemoteView("SFO", remote_view(2, D, E)), RemoteView("SFO", remote_view(3, D)))
    old.close()
    world.run(20.0)
    late = Puppet(nyc).greet(epoch=4, lineage=4, relay=E)
    world.run(1.0)
    assert list(nyc.relay.layer.state.remotes["SFO"].lineages) == [ViewId(4, D)]
    drops = dict(nyc.relay.drops)
    late.say(RemoteView("SFO", remote_view(2, D, E)), RemoteView("SFO", remote_view(4, E, lineage=4)))
    shown = [view.components["SFO"].counter for view in nyc.members[1].global_views() if "SFO" in view.components]
    assert shown == [2, 3, 4]
    assert nyc.relay.drops == {**drops, "relay_duplicate": drops.get("relay_duplicate", 0) + 1}


def test_the_number_of_remembered_departed_lineages_is_bounded() -> None:
    """Those that are still known are never among those that go."""
    remote = Remote()
    for n in range(1, 3 * REACHED_MAX):
        remote.show(remote_view(n, D, lineage=n))
        remote.lineage(ViewId(1, D))
    assert len(remote.reached) == REACHED_MAX
    assert set(remote.lineages) <= set(remote.reached)
    assert ViewId(1, D) in remote.reached
