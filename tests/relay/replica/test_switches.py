"""Switches: the offline sites, equal at every member, and the reason of gaps to one of them."""

from __future__ import annotations

import pytest

from relay.events import SwitchSite
from relay.replica.config import BufferConfig
from relay.replica.entries import LinkUp, RemoteView, SiteSwitch, SwitchState
from relay.replica.gone import Run
from relay.replica.outcome import refused
from relay.replica.remote_site import Admission
from relay.replica.replica import Replica
from relay.replica.switches import Switches, merge_switches
from sitestack.model.gap import Gap, GapReason
from tests.harness.relay.puppet import D, E, F, remote_view
from tests.harness.relay.world import split_sfo, two_linked_sites

OFF, ON = SiteSwitch("SFO", True), SiteSwitch("SFO", False)
VIEW = remote_view(1, D, E)


def linked() -> Replica:
    """A member of NYC that holds for SFO, which has linked."""
    replica = Replica(F, "NYC", BufferConfig(), ("SFO",), {})
    replica.apply(LinkUp("SFO", VIEW.lineage, VIEW.id), None, 0.0)
    replica.apply(RemoteView("SFO", VIEW), None, 0.0)
    return replica


def test_entries_in_flight_when_a_site_is_taken_offline_are_refused() -> None:
    replica = linked()
    state = replica.state
    assert state.remote("SFO").view == VIEW
    assert len(replica.apply(OFF, None, 0.0).events) == 2
    for entry in (LinkUp("SFO", VIEW.lineage, VIEW.id), RemoteView("SFO", VIEW)):
        assert replica.apply(entry, None, 0.0) == refused(Admission.OFFLINE)
    assert state.remote("SFO").lineages == {}
    assert state.remote("SFO").down
    assert replica.apply(OFF, None, 0.0).events == ()
    replica.apply(ON, None, 0.0)
    assert replica.apply(RemoteView("SFO", VIEW), None, 0.0).admission is Admission.NEXT


def test_a_site_that_this_one_does_not_hold_for_is_not_switched() -> None:
    replica = linked()
    replica.apply(SiteSwitch("LAX", True), None, 0.0)
    assert replica.state.switches.offline == {}
    assert replica.state.switches.give() == ()


def test_only_entries_not_held_while_offline_have_the_gap_reason_offline() -> None:
    switches = Switches()
    switches.apply(OFF, {D: 5})
    switches.apply(ON, {D: 8, E: 2})
    not_held = GapReason.NOT_HELD
    assert switches.explain("SFO", D, Run(3, 8), not_held) == [(Run(3, 8), GapReason.OFFLINE)]
    assert switches.explain("SFO", D, Run(3, 9), not_held) == [(Run(3, 8), GapReason.OFFLINE), (Run(9, 9), not_held)]
    assert switches.explain("SFO", D, Run(9, 9), not_held) == [(Run(9, 9), not_held)]
    assert switches.explain("SFO", D, Run(3, 8), GapReason.BUDGET) == [(Run(3, 8), GapReason.BUDGET)]
    assert switches.explain("SFO", F, Run(1, 1), not_held) == [(Run(1, 1), not_held)]
    assert switches.explain("LAX", D, Run(3, 8), not_held) == [(Run(3, 8), not_held)]


def test_after_a_split_the_higher_switch_number_wins_and_offline_wins_a_tie() -> None:
    off, on = SwitchState("SFO", 1, True, {D: 3}), SwitchState("SFO", 2, False, {D: 5, E: 1})
    assert merge_switches((off,), (on,)) == merge_switches((on,), (off,)) == (on,)
    again = SwitchState("SFO", 2, True, {E: 4})
    assert merge_switches((again,), (on,)) == merge_switches((on,), (again,)) == (SwitchState("SFO", 2, True, {D: 5, E: 4}),)
    assert merge_switches((off,), ()) == merge_switches((), (off,)) == (off,)


@pytest.mark.conforms("REL-23")
def test_a_switch_request_lost_in_the_last_view_of_a_part_can_be_repeated() -> None:
    """Entries cast in a part during its flush are lost for good."""
    world, nyc, _sfo = two_linked_sites(4)
    other = nyc.split(nyc.members[2:])
    world.run(1)
    seen = len(nyc.relay.global_views())
    nyc.block()
    nyc.relay.say(SwitchSite("SFO", True))
    nyc.waiting.clear()
    nyc.merge(other)
    world.run(1)
    nyc.relay.say(SwitchSite("SFO", True))
    world.run(1)
    for member in nyc.members:
        assert list(member.layer.state.switches.offline) == ["SFO"]
    assert [view.down for view in nyc.relay.global_views()[seen:]][-1] == ("SFO",)


def test_a_site_that_one_part_took_offline_is_offline_after_the_merge() -> None:
    world, nyc, sfo, other = split_sfo()
    other.relay.say(SwitchSite("NYC", True))
    world.run(1)
    assert [bool(each.layer.gateway.table.links) for each in (sfo.relay, other.relay)] == [True, False]
    sfo.members[1].send("in one part")
    other.members[1].send("in the other")
    world.run(1)
    silent = other.members[1].address
    sfo.merge(other)
    world.run(10)
    for member in sfo.members:
        assert list(member.layer.state.switches.offline) == ["NYC"]
        assert member.global_views()[-1].down == ("NYC",)
        assert len(member.layer.state.buffer) == 0
    assert not nyc.relay.layer.gateway.table.links
    sfo.relay.say(SwitchSite("NYC", False))
    world.run(1)
    sfo.relay.send("after")
    world.run(10)
    assert [member.words for member in nyc.members] == [["in one part", "after"]] * 4
    gaps = [[(event.origin, event.reason) for event in member.events if isinstance(event, Gap)] for member in nyc.members]
    assert gaps == [[(silent, GapReason.OFFLINE)]] * 4
