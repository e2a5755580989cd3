"""Whom the gateway calls, believes and gives up; and how long a silent site stays in the global view."""

from __future__ import annotations

import random

import pytest

from relay.events import BridgeConnected, Duty, Misconfigured, Role
from relay.gateway.config import GatewayConfig
from relay.gateway.wire import HOPS_MAX, Ack, Bye, Data, Heartbeat, Hello, RemoteUnicast, Routed, State
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector, UnicastReply
from relay.replica.remote_site import LINEAGES_MAX
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, E, F, Puppet, alone, alone_and_greeted, data, hello, remote_view
from tests.harness.relay.world import leave, two_linked_sites, two_sites


def said(member: Member) -> list[str]:
    return [event.sentence for event in member.events if isinstance(event, Misconfigured)]


@pytest.mark.conforms("REL-14")
@pytest.mark.parametrize("seed", range(100))
def test_two_sites_that_call_each_other_at_once_keep_one_and_the_same_connection(seed: int) -> None:
    """R25: a hundred times, with the bytes in every order; data under way on the losing connection is not lost."""
    world, nyc, sfo = two_sites(1)
    rng = random.Random(seed)
    a, d = nyc.relay, sfo.relay
    a.send("n")
    d.send("s")
    world.end_turns()
    world.forget_dials()
    calls = [(a, d), (d, a)]
    rng.shuffle(calls)
    numbers = {caller: world.connect(caller, called, called.site.name, called.physical)[0] for caller, called in calls}
    for _ in range(30):
        world.end_turns()
        for member in (a, d):
            for connection in list(member.pipes):
                world.move_some(member, connection, rng.choice([0, 0, 1, 20, 1_000]))
    world.run(3)
    assert list(a.pipes) == [numbers[a]], "the site with the lower name dialed it"
    assert [pipe.connection for pipe in a.pipes.values()] == list(d.pipes)
    assert sorted(a.words) == sorted(d.words) == ["n", "s"]


def linked(member: Member) -> list[str]:
    return [site for site, _ in member.layer.gateway.table.links]


@pytest.mark.parametrize(
    ("greeting", "word", "part"),
    [
        (hello(site="NYC"), "own_site", "site names must differ"),
        (hello(site="LAX"), "unknown_site", "not among the configured peers"),
        (hello(version=9), "version", "speaks bridge version 9"),
    ],
)
def test_a_peer_that_can_never_be_right_is_refused_with_one_clear_sentence(greeting: Hello, word: str, part: str) -> None:
    _world, nyc = alone()
    for _ in range(2):
        puppet = Puppet(nyc)
        puppet.say(greeting)
        assert not puppet.open
        assert Bye(word) in puppet.heard()
    assert nyc.relay.drops[f"hello_{word}"] == 2
    assert len(said(nyc.relay)) == 1, "said once"
    assert part in said(nyc.relay)[0]


@pytest.mark.parametrize("certified", ["SFO", "LAX"])
def test_the_site_must_be_the_one_that_the_certificate_names(certified: str) -> None:
    """C9."""
    _world, nyc = alone()
    puppet = Puppet(nyc, certified=certified)
    puppet.say(hello())
    assert puppet.open == (certified == "SFO")


@pytest.mark.parametrize(
    "frame",
    [
        data(1, site="LAX"),
        data(1, site="NYC"),
        data(1, scope=Scope.SITE),
        RemoteView("LAX", remote_view(1, D)),
        RemoteGap("LAX", D, 1, 2, GapReason.BUDGET),
        RemoteGap("SFO", D, 2, 1, GapReason.BUDGET),
        RemoteBaseline("NYC", {D: 4}),
        Data(("SFO",), data(1, site="LAX").batch),
        Data(("LAX", "SFO"), data(1).batch),
        Data(("SFO",) * (HOPS_MAX + 1), data(1).batch),
        State({"NYC": SiteVector({D: 1}), "LAX": SiteVector({D: 1})}),
        Ack({"LAX": SiteVector({D: 1})}),
        RemoteUnicast(0, 0, Batch("LAX", D, Scope.UNICAST, 1, 1, pack_body([b"no"]), E, "NYC")),
        RemoteUnicast(0, 0, Batch("SFO", D, Scope.UNICAST, 1, 1, pack_body([b"no"]), E, "LAX")),
        RemoteUnicast(0, 0, Batch("SFO", D, Scope.ALL, 1, 1, pack_body([b"no"]))),
        UnicastReply("NYC", E, "LAX", F, 1, 0, None),
        UnicastReply("LAX", E, "SFO", D, 1, 0, None),
        Routed("SFO", "NYC", D, 1, 0, ("SFO",), False, b"x"),
        Routed("LAX", "NYC", D, 1, 0, (), False, b"x"),
        Routed("LAX", "NYC", D, 1, 0, ("OSL",), False, b"x"),
        hello(),
    ],
)
def test_a_site_speaks_for_itself_only(frame: Header) -> None:
    """C9: a frame in another site's name is counted, and the link is closed."""
    _world, nyc, puppet = alone_and_greeted()
    puppet.say(frame)
    assert not puppet.open
    assert sum(nyc.relay.drops.get(reason, 0) for reason in ("foreign_site", "bridge_hello")) == 1
    assert nyc.relay.words == []


@pytest.mark.conforms("REL-5", "REL-8")
def test_data_whose_path_contains_this_site_is_not_delivered() -> None:
    """X6, R12: whatever its numbers."""
    _world, nyc, puppet = alone_and_greeted()
    puppet.say(Data(("SFO", "NYC"), data(1).batch))
    assert nyc.relay.words == []
    assert puppet.open


@pytest.mark.conforms("USR-2")
def test_no_hello_in_time_closes_the_connection() -> None:
    """C17."""
    world, nyc = alone()
    puppet = Puppet(nyc)
    world.run(2.9)
    assert [puppet.open] == [True]
    world.run(0.2)
    assert not puppet.open
    assert nyc.relay.drops["link_hello_timeout"] == 1


def test_anything_before_hello_closes_the_connection() -> None:
    _world, nyc = alone()
    puppet = Puppet(nyc)
    puppet.say(data(1))
    assert not puppet.open
    assert nyc.relay.drops["bridge_hello"] == 1


@pytest.mark.conforms("USR-2")
def test_a_silent_link_is_closed_after_three_heartbeats_and_bulk_counts_as_life() -> None:
    """F24: a half-open connection is found by heartbeats, not by the kernel."""
    world, nyc, sfo = two_sites(1)
    world.run(10)
    assert linked(nyc.relay) == ["SFO"]
    world.mute = True
    world.run(2.9)
    assert linked(nyc.relay) == ["SFO"]
    world.run(0.3)
    assert linked(nyc.relay) == []
    assert sfo.relay.drops["link_silent"] == 1


def test_a_site_that_opens_many_connections_takes_no_place_of_another() -> None:
    """C9: the certificates tell them apart, also before HELLO."""
    world, nyc, _ = two_sites(1, gateway={"connections_max": 20})
    del world.sites["SFO"]
    world.settle()
    puppets = [Puppet(nyc, certified="LAX") for _ in range(30)]
    assert sum(puppet.open for puppet in puppets) == LINEAGES_MAX
    assert Puppet(nyc, certified="SFO").open


@pytest.mark.conforms("USR-2")
def test_silent_callers_do_not_keep_a_relay_from_dialing() -> None:
    """Nor do calls take the places of those that call."""
    world, nyc, _sfo = two_sites(1, gateway={"connections_max": 2})
    world.part("NYC", "SFO")
    world.settle()
    strangers = [Puppet(nyc) for _ in range(2)]
    assert places_taken(nyc.relay) == (2, 2)
    world.heal()
    world.run(2.5)
    assert all(stranger.open for stranger in strangers), "they are waited for"
    assert linked(nyc.relay) == ["SFO"]
    assert places_taken(nyc.relay) == (2, 2)
    for stranger in strangers:
        stranger.close()
    assert places_taken(nyc.relay) == (0, 2)
    assert [puppet.open for puppet in [Puppet(nyc) for _ in range(3)]] == [True, True, False]
    assert nyc.relay.drops["bridge_refused"] == 1


def places_taken(member: Member) -> tuple[int, int | None]:
    """The connections that count against the bound, and the bound."""
    found = member.layer.levels()["connections"]
    return found.now, found.bound


@pytest.mark.conforms("REL-2")
def test_a_member_that_does_not_relay_refuses_and_counts_a_connection() -> None:
    world, nyc = alone()
    nyc.members[1].say(BridgeConnected(77, None))
    world.settle()
    assert nyc.members[1].drops["bridge_refused"] == 1


def test_only_a_link_of_which_entries_wait_is_closed_when_too_much_waits() -> None:
    """An innocent link would be closed for a heartbeat, and each that follows for its HELLO."""
    world, nyc, _ = two_sites(3, gateway={"waiting_bytes_max": 100})
    del world.sites["SFO"]
    world.settle()
    guilty, innocent = Puppet(nyc).greet(), Puppet(nyc).greet(lineage=2)
    nyc.block()
    guilty.say(*[data(n) for n in range(1, 50)])
    innocent.say(Heartbeat())
    late = Puppet(nyc).greet(lineage=3)
    assert (guilty.open, innocent.open, late.open) == (False, True, True)
    assert nyc.relay.drops["bridge_overrun"] == 1


@pytest.mark.parametrize("neighbours", [0, 1, 2, 8, 9, 10, 100])
def test_the_windows_of_all_neighbours_together_fit_into_what_may_wait(neighbours: int) -> None:
    config = GatewayConfig(peers={f"S{n}": () for n in range(neighbours)})
    assert neighbours * config.window_bytes_max(64 << 20) <= config.waiting_bytes_max
    assert config.window_bytes_max(64 << 20) >= min(8 << 20, config.waiting_bytes_max // max(1, neighbours))


@pytest.mark.conforms("REL-11")
def test_each_role_change_is_reported() -> None:
    world, nyc, sfo = two_linked_sites(2)
    roles = [(event.duty, event.sites) for event in nyc.relay.events if isinstance(event, Role)]
    assert roles == [(Duty.COORDINATOR, ()), (Duty.RELAY, ("SFO",))]
    left = leave(sfo)
    assert [event.duty for event in left.events if isinstance(event, Role)][-1] is Duty.MEMBER
    world.run(1)
    assert [event.sites for event in sfo.relay.events if isinstance(event, Role)][-1] == ("NYC",)


@pytest.mark.conforms("REL-14")
def test_a_change_of_lineage_replaces_the_links() -> None:
    """Links are keyed by lineage: the other part of a split site may continue the old one."""
    world, nyc, sfo = two_linked_sites(3)
    old = list(nyc.relay.pipes)
    for member in nyc.members[1:]:
        nyc.members.remove(member)
        world.vanish(member)
    nyc.block()
    nyc.install()
    world.run(1)
    assert nyc.view is not None
    assert list(nyc.relay.pipes) != old
    assert ("NYC", nyc.view.lineage) in sfo.relay.layer.gateway.table.links
