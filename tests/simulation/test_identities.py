"""Identities: a process is its UUID, whatever its name, place and counters, and the other processes of this
interpreter.
"""

from __future__ import annotations

import pytest

from relay_lab.sim.world import World
from sitestack.journal.records import Send
from sitestack.layers.resolver import Resolver
from sitestack.layers.sequencer import Forward
from sitestack.model.message import Scope
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


@pytest.mark.conforms("SEQ-20")
def test_a_message_forwarded_to_the_coordinator_of_another_part_is_not_delivered() -> None:
    """S12, M2: C's message reaches A when A's view is without C, and C has sequenced it in its own part meanwhile."""
    script = site("A", "B", "C")
    late = script.hold("C", "A", Forward)
    say(script, "C", "c1")
    heal = script.lose("AB", "C")
    script.view("A", "B")
    script.view("C")
    script.everywhere("C", "c1")
    script.release(late)
    script.run(SOON)
    say(script, "A", "a1")
    assert [script.delivered(name) for name in "AB"] == [["a1"], ["a1"]]
    heal()
    script.until(lambda: script["A"].view is not None and len(script["A"].view.members) == 3, "both parts are one again")
    say(script, "C", "c2")
    script.everywhere("ABC", "c2")
    assert [script.delivered(name) for name in "ABC"] == [["a1", "c2"], ["a1", "c2"], ["c1", "c2"]]
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


@pytest.mark.conforms("LA-1")
def test_members_with_the_same_name_are_distinguished() -> None:
    """A10: a name is for display; no protocol decides by names."""
    world = World(1, site_maker(one_each("NYC")))
    script = Script(world)
    script.site("NYC", "A", "B")
    twin = world.spawn("NYC", "B")
    script.processes["the other B"] = twin
    script.view("A", "B", "the other B")
    one = script["B"].local.address
    script["A"].send(b"to one", Scope.UNICAST, one)
    script["A"].send(b"to the other", Scope.UNICAST, twin.local.address)
    script["B"].send(b"from one")
    twin.send(b"from the other")
    script.everywhere(["A", "B", "the other B"], "from one", "from the other")
    assert [text for text in script.delivered("B") if text.startswith("to")] == ["to one"]
    assert [text for text in script.delivered("the other B") if text.startswith("to")] == ["to the other"]
    view = script["A"].view
    assert view is not None
    assert view.names == ("A", "B", "B")
    verdict(script)
