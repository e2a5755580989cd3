"""Members of one site with different peers: all hold the same entries, for the peers of all."""

from __future__ import annotations

import pytest

from relay.gateway.config import GatewayConfig
from relay.gateway.grace import Grace
from relay.gateway.retention import Retention
from relay.layer import RelayConfig
from relay.replica.config import BufferConfig
from relay.replica.entries import HeldFor, SiteDown
from relay.replica.state import ReplicatedState
from sitestack.model.view import ViewId
from tests.harness.addresses import address, view_of
from tests.harness.relay.member import Member, places
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, sites_of
from tests.relay.gateway.test_gateway import said

pytestmark = pytest.mark.conforms("REL-13")

AGE_S = 60.0


def linked_to(*sites: str) -> RelayConfig:
    peers = {site: places(site) for site in sites}
    return RelayConfig(gateway=GatewayConfig(peers=peers), buffer=BufferConfig(budget_age_s=AGE_S))


def join(site: FakeSite, name: str, *sites: str) -> Member:
    """A member with this configuration joins."""
    before, site.config = site.config, linked_to(*sites)
    member = site.join(name)
    site.config = before
    return member


def begin(*others: str) -> tuple[World, FakeSite, dict[str, FakeSite]]:
    """NYC with one member that knows all others, and a message that they have."""
    world, sites = sites_of({"NYC": 1, **dict.fromkeys(others, 1)}, buffer=BufferConfig(budget_age_s=AGE_S))
    world.run(2)
    sites["NYC"].relay.send("0")
    world.run(1)
    return world, sites["NYC"], sites


def held_for(site: FakeSite) -> tuple[str, ...]:
    """Return the peers that hold entries: equal at every member, as the entries' positions are."""
    [sites] = {member.layer.state.sites for member in site.members}
    assert len({(each.layer.state.buffer.first, each.layer.state.buffer.end) for each in site.members}) == 1
    return sites


def test_a_join_through_a_coordinator_without_peers_loses_no_held_entries() -> None:
    world, nyc, sites = begin("SFO")
    m = join(nyc, "M")
    nyc.kill(nyc.relay)
    world.run(1)
    x = nyc.join("X")
    m.send("1")
    x.send("2")
    world.run(1)
    z = nyc.join("Z")
    assert held_for(nyc) == ("SFO",)
    assert z.layer.state.give() == x.layer.state.give() == m.layer.state.give()
    nyc.kill(m)
    nyc.kill(x)
    world.run(20)
    assert sites["SFO"].relay.words == ["0", "1", "2"]
    assert sites["SFO"].relay.gaps() == []
    assert len(z.layer.state.buffer) == 0


def test_a_coordinator_that_lacks_one_peer_drops_nothing_that_this_one_lacks() -> None:
    world, nyc, sites = begin("LON", "SFO")
    m, b = join(nyc, "M", "SFO"), nyc.join("B")
    nyc.kill(nyc.relay)
    for n in range(1, 4):
        b.send(str(n))
        world.run(1)
    assert held_for(nyc) == ("LON", "SFO")
    assert sites["SFO"].relay.words == ["0", "1", "2", "3"]
    nyc.kill(m)
    world.run(20)
    for site in ("LON", "SFO"):
        assert (sites[site].relay.words, sites[site].relay.gaps()) == (["0", "1", "2", "3"], [])
    assert len(b.layer.state.buffer) == 0


def test_only_a_member_with_a_different_peer_list_reports_it_and_only_once() -> None:
    world, nyc, _ = begin("LON", "SFO")
    m, b = join(nyc, "M", "SFO"), nyc.join("B")
    nyc.kill(nyc.relay)
    world.run(5)
    assert [each for each in said(m) if "configured to be" in each] == [
        "This member is configured to be linked to 'SFO', its site to 'LON' and 'SFO': "
        "all members of a site must have the same relay.bridge.peers and via."
    ]
    assert said(b) == []
    alone = join(nyc, "N")
    assert "is configured to be linked to no other site, its site to 'LON' and 'SFO'" in said(alone)[0]


def test_a_site_founded_without_peers_holds_entries_once_a_member_has_a_peer() -> None:
    world = World()
    nyc, sfo = world.site("NYC", 1, linked_to()), world.site("SFO", 1, linked_to("NYC"))
    for site in (nyc, sfo):
        site.install()
    m, nyc.config = nyc.relay, linked_to("SFO")
    m.send("of nobody's business")
    world.run(1)
    assert held_for(nyc) == ()
    b = nyc.join("B")
    world.run(1)
    assert held_for(nyc) == ("SFO",)
    m.send("1")
    b.send("2")
    world.run(1)
    c = nyc.join("C")
    assert held_for(nyc) == ("SFO",)
    nyc.kill(m)
    nyc.kill(b)
    world.run(10)
    assert sfo.relay.words == ["1", "2"]
    assert len(c.layer.state.buffer) == 0


def test_merged_parts_hold_entries_for_the_sites_of_either_part() -> None:
    world, sites = sites_of({"NYC": 2, "SFO": 1, "LON": 1}, buffer=BufferConfig(budget_age_s=AGE_S))
    nyc = sites["NYC"]
    world.run(2)
    other = nyc.split(nyc.members[1:])
    join(other, "M", "SFO")
    other.kill(other.relay)
    world.run(AGE_S + 1)
    assert (held_for(nyc), held_for(other)) == (("LON", "SFO"), ("SFO",))
    nyc.merge(other)
    world.run(1)
    assert held_for(nyc) == ("LON", "SFO")


@pytest.mark.conforms("REL-15")
def test_peer_lists_of_departed_members_take_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.gateway.retention.ADDRESSES_MAX", 1)
    world, nyc, _ = begin("LON", "SFO")
    join(nyc, "C", "SFO")
    nyc.kill(nyc.relay)
    m = join(nyc, "M", "SFO")
    world.run(1)
    nyc.kill(m)
    join(nyc, "D", "SFO")
    world.run(AGE_S + 1)
    assert held_for(nyc) == ("SFO",), "what D has said counts, so nobody is left who wants LON"


def test_a_peer_put_back_while_its_removal_is_on_its_way_is_held_for_again_behind_it() -> None:
    """A link that comes up meanwhile has to tell its view again, before messages: the removal hides it (G5)."""
    state = ReplicatedState("NYC", BufferConfig(budget_age_s=AGE_S), ("SFO",))
    state.install(view_of(1, "A"), 0.0)
    retention, grace = Retention(address("A"), (), state), Grace(state, 1.0, AGE_S)
    key = ("SFO", ViewId(1, address("F")))
    state.remote("SFO").lineage(key[1])
    assert retention.due(0.0) is None
    removal = retention.due(AGE_S)
    assert removal == HeldFor(())
    grace.leave_out(removal.sites)
    retention.change(("SFO",))
    assert retention.due(AGE_S) == HeldFor(("SFO",))
    assert retention.due(AGE_S) is None
    assert key in grace.going_down
    state.apply_held_for(removal, AGE_S)
    grace.left_out()
    assert not grace.going_down


def test_a_lost_part_is_forgotten_as_long_after_its_link_if_it_is_hidden_meanwhile() -> None:
    state, part = ReplicatedState("NYC", BufferConfig()), ViewId(1, address("F"))
    grace = Grace(state, 10.0, 600.0)
    state.remote("SFO").lineage(part)
    grace.away(("SFO", part), 100.0)
    grace.settled(SiteDown("SFO", part, False))
    assert grace.deadline({("SFO", ViewId(2, address("F"))): 1}) == 700.0
    grace.settled(SiteDown("SFO", part, True))
    assert grace._since == {}
