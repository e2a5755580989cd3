"""Identities: a process is its UUID, whatever its name, place and counters, and the other processes of this
interpreter.
"""

from __future__ import annotations

import pytest

from relay_lab.sim.world import World
from sitestack.journal.records import Send
from sitestack.layers.discovery.headers import IHave
from sitestack.layers.membership import Membership
from sitestack.layers.resolver import Resolver
from sitestack.model.address import Physical
from sitestack.model.events import ViewInstalled
from tests.harness.script import Script, site_maker
from tests.harness.stories import SOON, layer, one_each, say, site, verdict


@pytest.mark.conforms("LA-3", "SEQ-2")
def test_a_new_process_at_an_old_address_counts_from_one_and_is_delivered() -> None:
    """S8: under its old identity everything up to the highest number of before would be taken for a duplicate."""
    script = site("A", "B", "C")
    say(script, "C", "c1", "c2", "c3")
    script.everywhere("ABC", "c3")
    place = script["C"].physical
    script.kill("C")
    script.view("A", "B")
    script.start("NYC", "D", at=place)
    script.view("A", "B", "D")
    say(script, "D", "d1", "d2")
    script.everywhere("ABD", "d1", "d2", within=1.0)
    sent = [record.first for record in script["D"].records if isinstance(record, Send)]
    assert sent == [1, 2]
    assert script["A"].stack.drops.get("duplicate", 0) == 0
    verdict(script)


def test_two_processes_in_one_interpreter_share_no_addresses() -> None:
    """A9: tables belong to a node; a static cache would tell a process that heard nothing where the others are."""
    script = site("A", "B")
    script.hold("AB", "C")
    script.start("NYC", "C")
    script.run(0.5)
    known = {name: layer(script, name, Resolver).levels()["contacts"].now for name in "ABC"}
    assert (known["A"], known["B"]) == (3, 3), "C is heard"
    assert known["C"] <= 1, "and hears nobody"


# -- places: moves, restarts at the same address, many starts at once ------------------------------------------------------


def move(script: Script, name: str, to: Physical) -> None:
    """Move the process to another address, as when a network interface fails over."""
    script.transcript.note(f"{name} moves")
    script[name].move(to)


@pytest.mark.conforms("LA-5")
def test_a_moved_member_is_reached_at_its_new_address() -> None:
    """A1: "added to the cache if not yet present" would send to the old place for ever."""
    script = site("A", "B", "C")
    move(script, "C", Physical("10.0.9.9", 7800))
    script.run(SOON)
    script.send("B", "b1", to=script["C"].local.address)
    script.everywhere("C", "b1", within=1.0)
    say(script, "C", "c1")
    script.everywhere("ABC", "c1", within=1.0)
    verdict(script)


@pytest.mark.conforms("LA-5")
def test_a_sender_that_missed_a_move_reaches_the_member_at_its_new_address() -> None:
    """A16: it announces its new address a few times; a member cut off from it meanwhile has to ask for it."""
    script = site("A", "B", "C")
    announced = script.hold("C", "B", IHave)
    move(script, "C", Physical("10.0.9.9", 7800))
    script.run(2.0)
    announced.stop()
    script.send("B", "b1", to=script["C"].local.address)
    script.everywhere("C", "b1", within=3.0)
    verdict(script)


@pytest.mark.conforms("LA-4")
def test_messages_for_a_dead_process_are_not_delivered_to_a_new_one_at_its_address() -> None:
    """A3: unicasts and forwards of the old process's connections reach the new one's socket."""
    script = site("A", "B", "C", "D")
    old = script["C"]
    late = script.hold("ABD", "C")
    script.send("B", "for the old one", to=old.local.address)
    say(script, "D", "d1")
    script.run(0.3)
    script.kill("C")
    late.stop()
    script.start("NYC", "C2", at=old.physical)
    script.release(late)
    script.view("A", "B", "D", "C2")
    script.send("B", "for the new one", to=script["C2"].local.address)
    say(script, "A", "a1")
    script.everywhere(["A", "B", "D", "C2"], "a1", within=1.0)
    script.run(1.0)
    assert sorted(script.delivered("C2")) == ["a1", "for the new one"]
    verdict(script)


def test_when_all_start_at_once_one_founds_the_site_and_the_others_join_it() -> None:
    """A13: otherwise each would be a coordinator, and each would open a bridge."""
    script = Script(World(1, site_maker(one_each("NYC"))))
    names = ["A", "B", "C", "D", "E"]
    for name in names:
        script.start("NYC", name)
    script.view(*names)
    alone = [
        name
        for name in names
        for event in script[name].events
        if isinstance(event, ViewInstalled) and event.view.members == (script[name].local.address,)
    ]
    assert len(alone) == 1
    membership = [each for name in names for each in script[name].stack.layers if isinstance(each, Membership)]
    assert [each.statistics().merges_started for each in membership] == [0] * 5
    verdict(script, tells="all-at-once")
