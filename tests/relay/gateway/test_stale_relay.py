"""A relay that its site has replaced and that does not know it yet: refused, and no nuisance."""

from __future__ import annotations

import pytest

from relay.events import Dial
from sitestack.model.events import Event
from sitestack.model.view import ViewId
from tests.harness.relay.member import Member
from tests.harness.relay.world import two_sites


@pytest.mark.conforms("REL-11")
def test_who_is_refused_as_stale_calls_less_and_less_often() -> None:
    """R9: SFO knows a later epoch of NYC's lineage, as after a pause of NYC's relay."""
    world, nyc, sfo = two_sites(2)
    assert nyc.view is not None
    for member in sfo.members:
        later = ViewId(9, nyc.members[1].address)
        member.layer.state.remote("NYC").lineage(nyc.view.lineage).epoch = later
    calls: list[float] = []

    def watch(member: Member, event: Event) -> None:
        if member.site is nyc and isinstance(event, Dial) and event.address == sfo.relay.physical:
            calls.append(world.now)

    world.watch = watch
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
    next_place = sfo.members[1].physical
    calls: list[float] = []

    def watch(member: Member, event: Event) -> None:
        if member is nyc.relay and isinstance(event, Dial) and event.address == next_place:
            calls.append(world.now)

    world.watch = watch
    world.vanish(sfo.relay)
    world.run(0.5)
    assert len(calls) >= 3
    sfo.members.pop(0)
    sfo.block()
    sfo.install()
    world.run(0.5)
    assert nyc.relay.layer.gateway.table.linked("SFO")
