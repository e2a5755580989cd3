"""When the addresses of a site are called: all at once, then less and less often, and in haste when a link has ended."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from relay.events import Dial
from relay.gateway.connections import Place
from relay.gateway.dialer import Dialer
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.view import ViewId
from tests.harness.relay.member import Member
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, two_sites

D, E, F = (Physical(host, 7900) for host in ("d", "e", "f"))
SFO = {"SFO": (D, E, F)}
RETRY_S, RETRY_S_MAX = 0.2, 5.0


def dialer() -> Dialer:
    started = Dialer(SFO, RETRY_S, RETRY_S_MAX, random.Random(1))
    started.start(0.0)
    return started


def refuse(calls: Dialer, since: float, until: float) -> dict[Place, list[float]]:
    """Return the times at which each address was called, without any answer."""
    times: dict[Place, list[float]] = {D: [], E: [], F: []}
    now = since
    while now <= until:
        for site, address in calls.due(now):
            times[address].append(now)
            calls.failed(site, address, now)
        due = calls.deadline()
        assert due is not None
        now = max(now, due)
    return times


@pytest.mark.conforms("REL-11")
def test_a_new_relay_calls_every_address_at_once() -> None:
    assert dialer().due(0.0) == [("SFO", D), ("SFO", E), ("SFO", F)]


@pytest.mark.conforms("USR-2")
def test_failed_dials_back_off_to_the_maximum_interval() -> None:
    for times in refuse(dialer(), 0.0, 60.0).values():
        pauses = [after - before for before, after in pairwise(times)]
        assert 0.5 * RETRY_S <= pauses[0] <= 1.5 * RETRY_S
        assert all(pause <= 1.5 * RETRY_S_MAX for pause in pauses)
        assert all(pause >= 0.5 * RETRY_S_MAX for pause in pauses[6:])


@pytest.mark.conforms("REL-12")
def test_after_a_lost_link_the_successor_is_looked_for_in_haste_and_then_as_ever() -> None:
    calls = dialer()
    calls.due(0.0)
    for address in (D, E, F):
        calls.failed("SFO", address, 0.0)
    calls.linked("SFO")
    assert calls.deadline() is None
    calls.lost("SFO", 10.0)
    for times in refuse(calls, 10.0, 70.0).values():
        assert times[0] - 10.0 <= RETRY_S / 4
        assert sum(time < 10.0 + RETRY_S for time in times) >= 2
        assert times[1] - times[0] <= 1.5 * RETRY_S / 4
        assert len(times) < 30


@pytest.mark.conforms("USR-2")
def test_an_address_whose_call_is_underway_is_not_called_again() -> None:
    calls = dialer()
    calls.due(0.0)
    assert calls.due(100.0) == []
    assert calls.deadline() is None


@pytest.mark.conforms("REL-11")
def test_a_stopped_dialer_makes_no_calls() -> None:
    calls = dialer()
    calls.stop()
    assert calls.due(0.0) == []
    calls.failed("SFO", D, 0.0)
    assert calls.deadline() is None


def test_a_place_that_is_added_is_called_at_once_one_that_is_gone_no_more_and_the_rest_as_before() -> None:
    peers: dict[str, tuple[Place, ...]] = {"SFO": (D, E)}
    calls = Dialer(peers, RETRY_S, RETRY_S_MAX, random.Random(1))
    calls.start(0.0)
    assert calls.due(0.0) == [("SFO", D), ("SFO", E)]
    peers["SFO"] = (E, F)
    calls.change(1.0)
    assert calls.due(1.0) == [("SFO", F)]
    for address in (D, E, F):
        calls.failed("SFO", address, 1.0)
    due = calls.deadline()
    assert due is not None
    assert {address for _, address in calls.due(due + RETRY_S_MAX)} == {E, F}


def test_a_site_that_is_offline_is_not_called_until_it_is_online() -> None:
    offline: dict[str, None] = {"SFO": None}
    calls = Dialer(SFO, RETRY_S, RETRY_S_MAX, random.Random(1), offline)
    calls.start(0.0)
    assert calls.due(60.0) == []
    assert calls.deadline() is None
    offline.clear()
    assert calls.due(60.0) == [("SFO", D), ("SFO", E), ("SFO", F)]


def watch_calls(world: World, caller: FakeSite, called: Physical) -> list[float]:
    """The times at which this site calls this address from now on."""
    calls: list[float] = []

    def watch(member: Member, event: Event) -> None:
        if member.site is caller and isinstance(event, Dial) and event.address == called:
            calls.append(world.now)

    world.watch = watch
    return calls


@pytest.mark.conforms("REL-11")
def test_a_relay_refused_as_stale_dials_less_and_less_often() -> None:
    """R9: SFO knows a later epoch of NYC's lineage, as after a pause of NYC's relay."""
    world, nyc, sfo = two_sites(2)
    assert nyc.view is not None
    for member in sfo.members:
        later = ViewId(9, nyc.members[1].address)
        member.layer.state.remote("NYC").lineage(nyc.view.lineage).epoch = later
    calls = watch_calls(world, nyc, sfo.relay.physical)
    world.run(30)
    assert sfo.relay.drops["hello_stale_epoch"] >= len(calls)
    assert 5 < len(calls) < 25
    assert calls[-1] - calls[-2] > 2


@pytest.mark.conforms("REL-12")
def test_after_a_link_that_both_sides_had_the_next_relay_is_called_in_haste() -> None:
    """However seldom calls had become before that link: the next relay takes a moment to stand up."""
    world, nyc, sfo = two_sites(3)
    world.part("NYC", "SFO")
    world.run(60)
    world.heal()
    world.run(10)
    assert nyc.relay.layer.gateway.table.linked("SFO")
    calls = watch_calls(world, nyc, sfo.members[1].physical)
    world.vanish(sfo.relay)
    world.run(0.5)
    assert len(calls) >= 3
    sfo.members.pop(0)
    sfo.block()
    sfo.install()
    world.run(0.5)
    assert nyc.relay.layer.gateway.table.linked("SFO")
