"""One sender and the way between it and the others: traps of JGroups' SEQUENCER that need no dead coordinator."""

from __future__ import annotations

import pytest

from sitestack.journal import records
from sitestack.layers.membership.headers import FlushRequest, JoinRequest, Prepared
from sitestack.layers.sequencer import Forward, Sequenced
from sitestack.model.message import Scope
from tests.harness.stories import SOON, say, site, verdict


@pytest.mark.conforms("SEQ-9", "SEQ-11")
def test_a_message_that_overtakes_an_earlier_one_waits_for_it() -> None:
    """S1: "discard everything up to the highest number" would lose a message that comes late."""
    script = site("A", "B", "C", shown=(Forward, Sequenced))
    late = script.hold("C", "A", Forward, carrying=["1"])
    say(script, "C", "1", "2", "3")
    assert script.delivered("A") == []
    script.release(late)
    script.exactly("ABC", "1", "2", "3", within=1.0)
    verdict(script)


@pytest.mark.conforms("SEQ-9", "SEQ-18")
def test_a_message_forwarded_twice_is_delivered_once() -> None:
    script = site("A", "B", "C", shown=(Forward, Sequenced))
    copies = script.hold("A", "BC", Sequenced)
    say(script, "C", "1")
    script.run(3.0)  # C's message does not come back to it, so C forwards it again
    script.release(copies)
    script.everywhere("ABC", "1")
    script.run(1.0)
    assert [script.delivered(name) for name in "ABC"] == [["1"]] * 3
    assert script["B"].stack.drops["duplicate"] > 0
    verdict(script)


@pytest.mark.conforms("SEQ-15", "SEQ-20")
def test_a_member_excluded_alive_delivers_no_duplicate_after_its_merge() -> None:
    """S7: A and B have delivered D's messages, D and C have not; both halves continue, and merge before D sent them
    again.
    """
    script = site("A", "B", "C", "D", shown=(Forward, Sequenced), seed=_with_leader("A", "C"))
    lost = script.hold("A", "CD", Sequenced)
    say(script, "D", "d1", "d2")
    heal = script.lose("AB", "CD")
    again = script.hold("D", "C", Forward)
    script.view("A", "B")
    script.view("C", "D")
    lost.stop()
    heal()
    script.until(lambda: script["D"].view is not None and len(script["D"].view.members) == 4, "both halves are one again")
    again.stop()
    script.view("A", "B", "C", "D")
    script.everywhere("ABCD", "d1", "d2")
    say(script, "D", "d3")
    script.exactly("ABCD", "d1", "d2", "d3")
    verdict(script)


def _with_leader(lower: str, higher: str) -> int:
    """A seed with which the first of these members has the lower address, and so leads the merge."""
    for seed in range(1, 100):
        script = site("A", "B", "C", "D", seed=seed)
        if script[lower].local.address < script[higher].local.address:
            return seed
    raise AssertionError("no such seed")


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_begins_where_the_others_are() -> None:
    """S9: the joiner neither waits for number 1, nor begins in the middle of a hole."""
    script = site("A", "B")
    say(script, "B", "1", "2")
    asked = script.hold("C", "A", JoinRequest)
    script.start("NYC", "C")
    script.until(lambda: bool(asked.packets), "C asks to be let in")
    late = script.hold("A", "B", Sequenced)
    say(script, "B", "3")
    script.release(asked)
    script.run(0.1)
    assert script.delivered("B") == ["1", "2"], "the flush waits for the third"
    late.stop()
    script.view("A", "B", "C", within=2.0)
    assert script.delivered("B") == ["1", "2", "3"]
    say(script, "B", "4", "5")
    script.exactly("C", "4", "5", within=1.0)
    script.exactly("AB", "1", "2", "3", "4", "5", within=1.0)
    verdict(script)


@pytest.mark.conforms("SEQ-3")
def test_messages_that_a_blocked_coordinator_drops_are_forwarded_after_the_view() -> None:
    """S11: a joiner makes the coordinator stop; C, not asked yet, forwards into the pause, and its coordinator never leaves."""
    script = site("A", "B", "C", shown=(Forward, Sequenced, FlushRequest))
    request = script.hold("A", "C", FlushRequest)
    script.start("NYC", "D")
    script.until(lambda: bool(request.packets), "A stops for the joiner")
    script.send("C", "1", "2")
    script.run(SOON)
    assert script["A"].stack.drops["blocked"] == 2
    script.release(request)
    script.view("A", "B", "C", "D")
    script.exactly("ABCD", "1", "2", within=1.0)  # without waiting for the timer
    verdict(script, tells="forward-into-a-flush")


@pytest.mark.conforms("SEQ-16")
def test_a_leaving_member_stays_until_its_messages_are_delivered() -> None:
    """S16: accepted is accepted, even when a view is being changed and the application stops a moment later."""
    script = site("A", "B", "C")
    ready = script.hold("D", "A", Prepared)
    script.start("NYC", "D")
    script.until(lambda: bool(ready.packets), "all stand still for the joiner")
    script.send("C", "1", "2")
    script["C"].leave()
    script.run(1.0)
    assert not script["C"].left
    script.release(ready)
    script.until(lambda: script["C"].left, "C has left")
    script.view("A", "B", "D")
    assert [script.delivered(name) for name in "ABCD"] == [["1", "2"]] * 4
    verdict(script)


@pytest.mark.conforms("SEQ-16")
def test_a_leaving_member_with_undelivered_messages_leaves_and_reports_them() -> None:
    script = site("A", "B", "C")
    script.hold("C", "A", Forward)
    say(script, "C", "1", "2")
    script["C"].leave()
    script.until(lambda: script["C"].left, "C has left", within=10.0)
    assert script["C"].stack.drops["uncertain_at_stop"] == 2
    reports = [record for record in script["C"].records if isinstance(record, records.Unreach)]
    assert [(each.scope, each.first, each.last, each.reason) for each in reports] == [(Scope.ALL, 1, 2, "left")]
    script.view("A", "B")
    assert [script.delivered(name) for name in "ABC"] == [[]] * 3
    verdict(script)
