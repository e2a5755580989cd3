"""Both sites split and merge, each at a different time: a member's missing messages are resent, or reported as gaps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relay.events import GlobalView
from relay.layer import RelayLayer
from relay.replica.config import BufferConfig
from sitestack.journal import records
from tests.harness.linked_sites import Sites, formed
from tests.harness.stories import SETTLED, layer, say, verdict


def apart(script: Sites, ones: str, others: str) -> Callable[[], None]:
    """Cut two groups of processes off from each other, in a site and over bridges; the result, when called, heals that."""
    ends = script.cut(ones, others), script.part(ones, others)

    def heal() -> None:
        for end in ends:
            end()

    return heal


def held(script: Sites, name: str) -> list[int]:
    """Return the numbers that a member holds for the other site."""
    buffer = layer(script, name, RelayLayer).state.buffer
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    return [entry.batch.first for entry in entries if entry.batch is not None]


def test_older_entries_of_a_returned_part_do_not_hide_a_gap_of_dropped_entries() -> None:
    """X5: F returns with 1..5, long acknowledged; 6..10, which B lacks, are dropped. E sends no more, and B gets a
    gap.
    """
    script = formed({"NYC": "AB", "SFO": "EF"})
    mend = script.part("EF", "AB")
    say(script, "E", *"12345")
    script.everywhere("EF", *"12345")
    f_is_back = apart(script, "F", "ABE")
    script.view("E")
    mend()
    script.everywhere("AB", *"12345")
    b_is_back = apart(script, "B", "AEF")
    script.view("A")
    script.run(2 * SETTLED)
    say(script, "E", *"67890")
    script.everywhere("A", *"67890")
    script.run(SETTLED)
    assert (held(script, "E"), held(script, "F")) == ([], [1, 2, 3, 4, 5])
    mend = script.part("EF", "AB")
    f_is_back()
    script.view("E", "F")
    script.run(SETTLED)
    b_is_back()
    script.view("A", "B")
    mend()
    script.run(15.0)
    assert script.delivered("B") == [*"12345"]
    assert script.gaps("B") == [(6, 10)]
    assert {each.reason for each in script["B"].records if isinstance(each, records.Gap)} == {"not_held"}
    assert script.gaps("A") == []
    verdict(script)


def test_a_paused_member_with_a_forgotten_lineage_does_not_restore_an_old_view() -> None:
    """G3: C sleeps through the view without it and the end of D; awake, it begins with the view that it was in before."""
    script = formed({"NYC": "AB", "SFO": "DC"}, budget=BufferConfig(budget_age_s=20.0))
    script["C"].pause()
    script.view("D")
    script.linked(*"ABD")
    script.kill("D")
    script.linked("A", "B")
    script.run(25.0)
    script["C"].resume()
    script.linked(*"ABC")
    for name in "AB":
        views = [event for event in script[name].events if isinstance(event, GlobalView) and "SFO" in event.components]
        assert [len([each for each in view.members if each.site == "SFO"]) for view in views] == [1, 2, 1, 1]
    say(script, "C", "I slept")
    script.everybody_has("ABC", "I slept")
    verdict(script)


@pytest.mark.conforms("REL-13")
def test_a_lone_founder_treats_messages_before_its_start_as_history_and_not_as_a_gap() -> None:
    """R29: X reached no process and founded a separate site. In the merge view it begins where the others are."""
    script = formed({"NYC": "ABX", "SFO": "DE"}, spare="X")
    say(script, "D", *"12345")
    script.everywhere("AB", *"12345")
    script.run(SETTLED)
    mend = script.part("X", "DE")
    x_is_there = apart(script, "X", "AB")
    script.start("NYC", "X")
    script.view("X")
    x_is_there()
    script.view("A", "B", "X")
    mend()
    script.linked(*"ABXDE")
    say(script, "D", "6")
    script.everybody_has("ABX", "6")
    assert [script.gaps(name) for name in "ABX"] == [[]] * 3
    baselines = [(each.site, each.next) for each in script["X"].records if isinstance(each, records.Baseline)]
    assert baselines == [("SFO", 6)]
    verdict(script)
