"""A site that an operator takes offline: no entry is held for it, no sender waits, and it gets gaps for its missed
messages.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relay.events import SiteSwitched, SwitchSite
from relay.replica.config import BufferConfig
from sitestack.config import Order
from sitestack.journal import records
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from tests.harness.linked_sites import Sites, formed, two_sites
from tests.harness.stories import SETTLED, numbered, say, verdict
from tests.simulation.relay.test_pace import Flood


def switch(script: Sites, name: str, site: str, *, offline: bool, seen_by: str = "ABC") -> None:
    """Have a member take a site offline or online, and wait until these members have it in their state."""
    script.relay(name).input(SwitchSite(site, offline))
    script.until(
        lambda: all((site in script.relay(each).relay.state.switches.offline) is offline for each in seen_by),
        f"{site} is {'offline' if offline else 'online'}",
        within=5.0,
    )


def told(script: Sites, name: str) -> list[tuple[int, int, str]]:
    """Return a process's gaps, with their reasons."""
    return [(each.first, each.last, each.reason) for each in script[name].records if isinstance(each, records.Gap)]


def switched(script: Sites, name: str) -> list[bool]:
    """Return a member's switch events, in order."""
    return [event.is_offline for event in script[name].events if isinstance(event, SiteSwitched)]


def shown(script: Sites, name: str) -> tuple[list[str], list[str]]:
    """The sites in a member's global view, and those that are down."""
    view = script.relay(name).global_view
    assert view is not None
    return list(view.components), list(view.down)


def is_switched(offline: bool) -> Callable[[Event | Frame], bool]:
    return lambda event: isinstance(event, SiteSwitched) and event.is_offline is offline


def test_an_offline_site_gets_one_gap_for_its_missed_messages_and_loses_no_other() -> None:
    script = two_sites()
    say(script, "B", *numbered("b", 1, 3))
    script.everybody_has("ABCDEF", *numbered("b", 1, 3))
    script.run(SETTLED)
    switch(script, "C", "SFO", offline=True)
    assert [shown(script, name) for name in "ABC"] == [(["NYC"], ["SFO"])] * 3
    say(script, "B", *numbered("b", 4, 9))
    script.run(20.0)
    assert [len(script.relay(name).relay.state.buffer) for name in "ABC"] == [0, 0, 0]
    assert not script.relay("A").relay.gateway.table.linked("SFO")
    assert script["A"].stack.drops["hello_offline"] > 0, "whoever calls is told why not"
    switch(script, "B", "SFO", offline=False)
    say(script, "B", *numbered("b", 10, 12))
    script.linked(*"ABCDEF")
    script.everywhere("DEF", *numbered("b", 10, 12))
    script.everywhere("ABC", *numbered("b", 1, 12))
    assert [told(script, name) for name in "DEF"] == [[(4, 9, "offline")]] * 3
    assert [script.delivered(name) for name in "DEF"] == [[*numbered("b", 1, 3), *numbered("b", 10, 12)]] * 3
    assert [switched(script, name) for name in "ABC"] == [[True, False]] * 3
    verdict(script)


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("knows", ["A", "C", "ABC"])
def test_a_site_switch_survives_the_death_of_the_relay(offline: bool, knows: str) -> None:
    """`knows`: members that have the order when the relay dies. An order that died with the relay is sent again by
    its author.
    """
    script = two_sites()
    say(script, "B", "b1")
    script.everybody_has("ABCDEF", "b1")
    script.run(SETTLED)
    if not offline:
        switch(script, "C", "SFO", offline=True)
        say(script, "B", "b2")
    if knows == "A":
        script.kill_at("A", is_switched(offline))
        script.relay("C").input(SwitchSite("SFO", offline))
        script.view("B", "C")
        switch(script, "C", "SFO", offline=offline, seen_by="BC")
    else:
        switch(script, "C", "SFO", offline=offline, seen_by=knows)
        script.kill("A")
        script.view("B", "C")
    if offline:
        script.run(15.0)
        assert not script.relay("B").relay.gateway.table.linked("SFO")
        say(script, "B", "b2")
        script.run(1.0)
        switch(script, "B", "SFO", offline=False, seen_by="BC")
    say(script, "B", "b3")
    script.linked(*"BCDEF")
    script.everywhere("DEF", "b3")
    assert [told(script, name) for name in "DEF"] == [[(2, 2, "offline")]] * 3
    assert switched(script, "B") == switched(script, "C") == [True, False]
    verdict(script)


def test_a_joiner_knows_that_a_site_is_offline_after_all_others_die() -> None:
    script = two_sites(spare="G")
    switch(script, "A", "SFO", offline=True)
    script.start("NYC", "G")
    script.view("A", "B", "C", "G")
    script.kill(*"ABC")
    script.view("G")
    say(script, "G", "g1")
    script.run(15.0)
    assert not script.relay("G").relay.gateway.table.linked("SFO")
    switch(script, "G", "SFO", offline=False, seen_by="G")
    say(script, "G", "g2")
    script.linked(*"GDEF")
    script.everywhere("DEF", "g2")
    assert {reason for *_, reason in told(script, "D")} <= {"offline"}
    verdict(script)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["total", "fifo"])
def test_each_message_amid_site_switches_is_delivered_or_reported_as_a_gap(order: Order) -> None:
    script = two_sites(order=order)
    there, here = Flood(script, "E", size=200), Flood(script, "B", size=200)
    for _ in range(3):
        for seconds, offline in ((0.4, True), (0.3, False)):
            for _ in range(round(seconds / 0.01)):
                here.run(0.005)
                there.run(0.005)
            script.relay("C").input(SwitchSite("SFO", offline))
    script.linked(*"ABCDEF")
    here.run(0.5)
    script.everywhere("DEF", here.sent[-1])
    script.everywhere("ABC", *there.sent)
    assert script.gaps("A") == [], "the other site holds what it has for this one"
    lost = sum(last - first + 1 for first, last, _ in told(script, "D"))
    assert lost > 0
    assert len([word for word in script.delivered("D") if word in {*here.sent}]) == len(here.sent) - lost
    assert {reason for *_, reason in told(script, "D")} == {"offline"}
    verdict(script, order=order)


def test_messages_in_flight_from_a_site_switched_off_are_dropped_and_arrive_later() -> None:
    script = two_sites()
    floods = [Flood(script, name, size=200) for name in "DEF"]
    for offline in (True, False) * 3:
        for step in range(40):
            if step == 30:
                script.relay("A").input(SwitchSite("SFO", offline))
            for flood in floods:
                flood.run(0.001, every_s=0.001)
        script.run(1.0)
    script.linked(*"ABCDEF")
    assert script["A"].stack.drops["relay_offline"] > 0
    for flood in floods:
        script.everybody_has("ABC", *flood.sent)
    verdict(script)


def test_the_others_get_everything_and_hold_nothing_for_it() -> None:
    script = formed({"LON": "GH", "NYC": "ABC", "SFO": "DE"})
    switch(script, "B", "SFO", offline=True)
    say(script, "B", *numbered("b", 1, 5))
    script.everybody_has("ABCGH", *numbered("b", 1, 5))
    script.run(1.0)
    assert [len(script.relay(name).relay.state.buffer) for name in "ABC"] == [0, 0, 0]
    assert shown(script, "G") == (["LON", "NYC", "SFO"], []), "only this site has taken it offline"
    switch(script, "B", "SFO", offline=False)
    script.linked(*"GHABCDE")
    script.until(lambda: told(script, "D") == [(1, 5, "offline")], "it is told", within=5.0)
    verdict(script)


def test_senders_do_not_wait_for_an_offline_site_that_wait_for_names() -> None:
    """Another site is down, so that the budget is full all the same."""
    script = formed({"LON": "GH", "NYC": "ABC", "SFO": "DE"}, budget=BufferConfig(budget_bytes=50_000), wait_for="SFO")
    script.kill(*"GH")
    script.stall("ABC", "DE")
    flood = Flood(script, "B")
    flood.run(script.configs["NYC"][1].gateway.grace_s + 3.0, every_s=0.02)
    assert script.relay("B").held_back, "for a site that is away"
    switch(script, "C", "SFO", offline=True)
    script.run(0.1)
    before, flood.longest_wait_s = len(flood.sent), 0.0
    flood.run(1.0, every_s=0.01)
    assert flood.longest_wait_s == 0.0
    assert len(flood.sent) - before == 100
    assert script.relay("B").relay.state.buffer.bytes > 25_000
