"""The peers in the configuration of running members change: sites are added, moved, and taken out."""

from __future__ import annotations

from dataclasses import replace

from relay.events import BridgeClose, Peers
from relay.replica.config import BufferConfig
from relay_lab.simulation.process import BRIDGE_PORT
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from tests.harness.linked_sites import Sites
from tests.harness.stories import SETTLED, numbered, say, verdict

NYC, SFO = "ABC", "DEF"
AWAY: dict[str, tuple[Physical, ...]] = {"SFO": (Physical("10.9.9.9", BRIDGE_PORT),)}


def places(script: Sites, **members: str) -> dict[str, tuple[Physical, ...]]:
    """The addresses of these members of sites, as in a configuration."""
    return {site: tuple([Physical(script.hosts[each].host, BRIDGE_PORT) for each in names]) for site, names in members.items()}


def sites(*, nyc_knows: bool, budget: BufferConfig | None = None) -> Sites:
    """Return NYC and SFO, of which SFO calls no peer: only NYC's configuration can link them."""
    script = Sites({"NYC": NYC, "SFO": SFO}, budget or BufferConfig())
    for site, peers in (("SFO", {"NYC": AWAY["SFO"]}), ("NYC", places(script, SFO=SFO) if nyc_knows else {})):
        config, relay = script.configs[site]
        script.configs[site] = config, replace(relay, gateway=replace(relay.gateway, peers=peers))
    script.form(*SFO, *NYC)
    if nyc_knows:
        script.linked(*NYC, *SFO)
    script.run(SETTLED)
    return script


def change(script: Sites, names: str, peers: dict[str, tuple[Physical, ...]]) -> None:
    """The configuration of these members names these peers from now on."""
    for name in names:
        script.relay(name).input(Peers(peers))
    script.run(0.1)


def held_for(script: Sites, names: str = NYC) -> set[tuple[str, ...]]:
    return {script.relay(name).relay.state.sites for name in names}


def test_a_first_site_that_is_added_begins_after_what_the_dead_have_sent() -> None:
    """Else an audit would miss at SFO what B sent before SFO was there."""
    script = sites(nyc_knows=False)
    say(script, "B", *numbered("b", 1, 3))
    script.kill("B")
    script.view("A", "C")
    change(script, "AC", places(script, SFO=SFO))
    script.linked(*"AC", *SFO)
    say(script, "C", "c1")
    script.everybody_has(SFO, "c1")
    verdict(script)


def test_a_successor_links_a_new_peer_after_the_relay_dies_during_the_change() -> None:
    script = sites(nyc_knows=False)
    change(script, "A", places(script, SFO=SFO))
    script.kill("A")
    script.view("B", "C")
    say(script, "B", "b1")
    change(script, "BC", places(script, SFO=SFO))
    script.linked(*"BC", *SFO)
    script.everybody_has(SFO, "b1")
    verdict(script)


def test_the_link_to_a_site_that_is_taken_out_ends_and_in_the_end_nothing_is_held_for_it() -> None:
    script = sites(nyc_knows=True, budget=BufferConfig(budget_age_s=60.0))
    closed: list[str] = []

    def listen(event: Event | Frame) -> None:
        if isinstance(event, BridgeClose):
            closed.append(event.reason)

    script["A"].on_event = listen
    change(script, NYC, {})
    assert closed == ["removed"]
    say(script, "B", *numbered("b", 1, 3))
    script.run(30.0)
    assert held_for(script) == {("SFO",)}, "it may be a mistake"
    assert not script.relay("A").relay.gateway.table.linked("SFO")
    script.run(60.0)
    assert held_for(script) == {()}
    say(script, "B", *numbered("b", 4, 6))
    script.run(1.0)
    assert [len(script.relay(name).relay.state.buffer) for name in NYC] == [0, 0, 0]
    assert script.delivered("E") == []
    for name in NYC:
        assert script.relay(name).relay.state.global_view().down == ()
        assert script.relay(name).relay.statistics().sites == (), "no site is away, or behind"


def test_an_address_that_changes_is_called_the_next_time_and_the_link_stays() -> None:
    script = sites(nyc_knows=True)
    [link] = script.relay("A").relay.gateway.table.links.values()
    change(script, NYC, AWAY)
    say(script, "B", "b1")
    script.everybody_has(NYC + SFO, "b1")
    assert [*script.relay("A").relay.gateway.table.links.values()] == [link]
    script.kill("D")
    script.run(20.0)
    assert not script.relay("A").relay.gateway.table.linked("SFO")
    say(script, "B", "b2")
    change(script, NYC, places(script, SFO="F"))
    script.run(10.0)
    assert not script.relay("A").relay.gateway.table.linked("SFO"), "E relays, and is not called"
    change(script, NYC, places(script, SFO="EF"))
    script.linked(*NYC, *"EF")
    script.everybody_has("EF", "b1", "b2")
    verdict(script)
