"""Messages of one part of a split site become gaps for the members of the other parts, right after the merge view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.sim.world import World
from relay_lab.simulation.verdict import unaccounted
from sitestack.config import Order
from sitestack.model.address import Physical
from sitestack.model.events import ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from sitestack.promises import History
from tests.harness.script import Script, site_maker
from tests.harness.stories import one_each, say, site, verdict

BOTH = pytest.mark.parametrize("order", ["total", "fifo"])


def gaps(script: Script, name: str) -> list[tuple[str, Scope, int, int]]:
    """Return the gaps of a process: sender, scope, first and last number."""
    names = {script[each].local.address: each for each in script.processes}
    told = [event for event in script[name].events if isinstance(event, Gap)]
    assert all(gap.reason is GapReason.OTHER_PART and gap.site == "NYC" for gap in told)
    return sorted([(names[gap.origin], gap.scope, gap.first, gap.last) for gap in told])


@BOTH
def test_each_part_gets_exact_gaps_for_the_messages_of_the_other(order: Order) -> None:
    script = site(*"ABCD", order=order)
    say(script, "A", "a1", "a2")
    say(script, "C", "c1")
    script.split("AB", "CD")
    say(script, "A", "a3", "a4", "a5")
    say(script, "B", "b1")
    script.send("D", "d1", scope=Scope.SITE)
    script.run(0.1)
    script.heal(*"ABCD")
    say(script, "A", "a6")
    say(script, "D", "d2")
    script.everywhere("ABCD", "a6", "d2")
    for name in "AB":
        assert gaps(script, name) == [("D", Scope.SITE, 1, 1)], name
    for name in "CD":
        assert gaps(script, name) == [("A", Scope.ALL, 3, 5), ("B", Scope.ALL, 1, 1)], name
    verdict(script, order=order)


@BOTH
def test_departures_during_a_split_hide_no_gap(order: Order) -> None:
    """More members leave than there are tombstones, so the received-table forgets those of the other part."""
    base = one_each("NYC", order)
    sequencer = replace(base.protocols.sequencer, tombstones_max=1)
    script = Script(World(1, site_maker(replace(base, protocols=replace(base.protocols, sequencer=sequencer)))))
    script.site("NYC", *"ABC")
    say(script, "C", "c1")
    places = [Physical(f"10.9.0.{n}", 7800) for n in range(1, 4)]
    script.split("AB", "C")
    for n, place in enumerate(places):
        script.start("NYC", f"J{n}", place)
        script.cut([f"J{n}"], "C")
        script.view("A", "B", f"J{n}")
        script[f"J{n}"].leave()
        script.view("A", "B")
    say(script, "C", "c2", "c3")
    script.heal(*"ABC")
    say(script, "C", "c4")
    script.everywhere("ABC", "c4")
    assert gaps(script, "A") == gaps(script, "B") == [("C", Scope.ALL, 2, 3)]
    assert not list(unaccounted([History.of(each.records, running=each.alive) for each in script.world.processes]))


def test_an_excluded_member_gets_its_gap_right_after_the_merge_view() -> None:
    """S21: before, its application had nothing but a merge view to guess from."""
    script = site(*"ABC")
    script["A"].pause()
    script.view("B", "C")
    say(script, "B", "b1", "b2")
    script["A"].resume()
    script.view("A", "B", "C")
    say(script, "B", "b3")
    script.everywhere("A", "b3")
    kinds = [type(event) for event in script["A"].events if isinstance(event, Gap | Frame | ViewInstalled)]
    assert kinds[-3:] == [ViewInstalled, Gap, Frame]
    assert gaps(script, "A") == [("B", Scope.ALL, 1, 2)]
    assert gaps(script, "B") == gaps(script, "C") == []
    verdict(script)


def test_messages_never_sent_to_a_member_are_history_and_no_gap() -> None:
    """D joins the others while A is away; A has never been in a view with it, and begins where they are, like a joiner.

    A's state has these messages no more than that of a joiner.
    """
    script = site(*"ABC")
    script.split("A", "BC")
    script.start("NYC", "D", at=None)
    script.cut("A", "D")
    script.view("B", "C", "D")
    say(script, "D", "d1", "d2")
    script.send("D", "mine", scope=Scope.SITE)
    script.heal(*"ABCD")
    say(script, "D", "d3")
    script.everywhere("ABCD", "d3")
    assert gaps(script, "A") == []
    there = script["D"].local.address
    begun = [event for event in script["A"].events if isinstance(event, Baseline)]
    assert begun == [Baseline("NYC", {there: 2}), Baseline("NYC", {there: 1}, scope=Scope.SITE)]
    assert not any(isinstance(event, Baseline) for name in "BC" for event in script[name].events)
    verdict(script)


def test_the_gaps_of_three_parts_are_reported_once() -> None:
    script = site(*"ABCDEF")
    script.split("AB", "CD", "EF")
    for part in ("AB", "CD", "EF"):
        say(script, part[0], part)
    script.heal(*"ABCDEF")
    script.run(1.0)
    for name in "ABCDEF":
        missed = [part[0] for part in ("AB", "CD", "EF") if name not in part]
        assert gaps(script, name) == [(each, Scope.ALL, 1, 1) for each in missed], name
    verdict(script)
