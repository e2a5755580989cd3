"""What travels between sites, in what order, and where it begins and ends: traps of JGroups' RELAY that need no dead relay."""

from __future__ import annotations

import pytest

from relay.events import Dial, GlobalView, Listen
from relay.gateway.wire import Data
from relay.replica.config import BufferConfig
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView
from sitestack.journal import records
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from tests.harness.linked_sites import ACROSS, Sites, formed, two_sites
from tests.harness.stories import SOON, say, verdict

SMALL = BufferConfig(budget_entries=8)


def places(script: Sites, name: str, word: str, member: str) -> tuple[int, list[int]]:
    """Return the place of a message in an application's events, and of the global views with this member."""
    events = script[name].events
    message = next(i for i, event in enumerate(events) if _carries(event, word))
    proxy = script.proxy(member)
    return message, [i for i, event in enumerate(events) if isinstance(event, GlobalView) and proxy in event.members]


def _carries(event: Event | Frame, word: str) -> bool:
    return isinstance(event, Frame) and event.batch is not None and word.encode() in event.batch.body


@pytest.mark.conforms("REL-8", "REL-33")
def test_each_member_of_three_sites_delivers_each_message_once() -> None:
    """R12: nothing that came over a bridge goes over another one, nor back."""
    script = formed({"NYC": "AB", "SFO": "DE", "LON": "GH"})
    for name in "BEH":
        say(script, name, f"{name}1", f"{name}2")
    script.run(3.0)
    for name in "ABDEGH":
        assert sorted(script.delivered(name)) == ["B1", "B2", "E1", "E2", "H1", "H2"]
    verdict(script)


@pytest.mark.conforms("REL-19", "REL-20")
def test_a_view_with_a_new_remote_member_precedes_its_first_message() -> None:
    """R20, G5: N joins and speaks while the bridge stalls; then both arrive at once, in this order."""
    script = two_sites(RemoteView, Data, spare="N")
    mend = script.stall("A", "DEF")
    script.start("NYC", "N")
    script.view("A", "B", "C", "N")
    say(script, "N", "n1")
    script.run(ACROSS)
    mend()
    script.everybody_has("DEF", "n1")
    for name in "DEF":
        message, views = places(script, name, "n1", "N")
        assert views
        assert views[0] < message
    verdict(script, tells="relay-view-first")


def test_the_last_message_of_a_member_precedes_the_view_without_it() -> None:
    """R20: C speaks and dies while the bridge stalls."""
    script = two_sites(RemoteView, Data)
    mend = script.stall("A", "DEF")
    say(script, "C", "c1")
    script.kill("C")
    script.view("A", "B")
    script.run(ACROSS)
    mend()
    script.everybody_has("DEF", "c1")
    script.linked(*"ABDEF")
    for name in "DEF":
        events = script[name].events
        message, _ = places(script, name, "c1", "C")
        before = [event for event in events[:message] if isinstance(event, GlobalView)]
        assert script.proxy("C") in before[-1].members
    verdict(script)


@pytest.mark.conforms("REL-13")
def test_messages_beyond_the_budget_become_a_gap_and_the_rest_arrives() -> None:
    """R21: neither does the receiver wait for ever, nor does it pass over the hole in silence."""
    script = two_sites(RemoteGap, Data, budget=SMALL)
    mend = script.part("ABC", "DEF")
    script.run(15.0)  # NYC's senders do not wait for SFO any more
    say(script, "C", *[f"c{n}" for n in range(1, 21)])
    mend()
    script.everywhere("DEF", "c20")
    script.run(1.0)
    say(script, "C", "c21")
    script.everywhere("DEF", "c21")
    gaps = script.gaps("D")
    lost = sum(last - first + 1 for first, last in gaps)
    assert lost > 0
    for name in "DEF":
        assert script.gaps(name) == gaps
        assert script.delivered(name) == [f"c{n}" for n in range(lost + 1, 22)]
    verdict(script, tells="relay-gap")


@pytest.mark.conforms("REL-4")
def test_messages_for_the_own_site_leave_no_hole_elsewhere() -> None:
    """R28: messages for the own site alone have a separate counter."""
    script = two_sites(Data, RemoteGap)
    for n in range(1, 4):
        script.send("C", f"site{n}", scope=Scope.SITE)
        script.run(SOON)
        script.send("C", f"all{n}")
        script.run(SOON)
    script.everybody_has("DEF", "all1", "all2", "all3")
    script.everybody_has("AB", "site1", "all1", "site2", "all2", "site3", "all3")
    script.run(1.0)
    assert all("site" not in text for text in script.delivered("F"))
    verdict(script)


def test_a_site_that_comes_late_begins_where_the_others_are() -> None:
    """R29: for a late site dropped messages are history, not a hole, and it does not wait for number 1."""
    script = Sites({"NYC": "AB", "SFO": "DE"}, SMALL, RemoteBaseline, RemoteGap, Data)
    script.form(*"AB")
    say(script, "B", *[f"b{n}" for n in range(1, 21)])
    script.run(1.0)
    script.transcript.lines.clear()
    script.form(*"DE")
    script.linked(*"ABDE")
    say(script, "B", "b21")
    script.everybody_has("DE", "b21")
    held = len(script.delivered("D"))
    assert 2 <= held < 21
    assert script.delivered("D") == [f"b{n}" for n in range(22 - held, 22)]
    verdict(script, tells="relay-late-site")


def test_a_joiner_begins_a_remote_stream_at_the_next_message() -> None:
    """R23, R29: with the others' numbers and their global view, and without earlier messages."""
    script = two_sites(spare="N")
    say(script, "F", "f1", "f2")
    script.everybody_has("ABC", "f1", "f2")
    script.start("NYC", "N")
    script.view("A", "B", "C", "N")
    say(script, "F", "f3")
    script.everybody_has("ABCN", "f3")
    assert script.delivered("N") == ["f3"]
    baseline = [each for each in script["N"].records if isinstance(each, records.Baseline)]
    assert [(each.site, each.next) for each in baseline] == [("SFO", 3)]
    script.linked(*"ABCNDEF")
    verdict(script)


@pytest.mark.conforms("REL-1")
def test_a_site_does_not_notice_that_another_one_does_not_answer() -> None:
    """From the first moment on: before the timeout, while senders wait, and after the site is given up."""
    script = two_sites()

    def took(word: str) -> float:
        start = script.world.now
        script.send("C", word)
        script.everywhere("ABC", word)
        return script.world.now - start

    views = script["C"].view
    free = took("free")
    script.stall("ABC", "DEF")
    for n in range(1, 61):
        assert took(f"blocked {n}") <= free + SOON / 4
        script.run(1.0)
    assert script["A"].view == script["C"].view == views


@pytest.mark.conforms("REL-11")
@pytest.mark.parametrize("bridges", ["open", "stalled"])
def test_the_view_in_which_a_member_begins_to_relay_waits_for_no_bridge(bridges: str) -> None:
    """A dies; B's calls are answered or not, and the view is there in the same turn in which B begins to listen and to call."""
    script = two_sites()
    if bridges == "stalled":
        script.part("BC", "DEF")
    seen: list[tuple[str, float]] = []
    tell = script["B"].on_event

    def listen(event: Event | Frame) -> None:
        tell(event)
        if isinstance(event, Listen | Dial | ViewInstalled):
            seen.append((type(event).__name__, script.world.now))

    script["B"].on_event = listen
    script.kill("A")
    script.view("B", "C")
    script.run(SOON)
    assert {name for name, _ in seen} == {"Listen", "Dial", "ViewInstalled"}
    installed = next(at for name, at in seen if name == "ViewInstalled")
    assert {at for _, at in seen if at <= installed} == {installed}
    assert next(at for name, at in seen if name == "Listen") == installed
    say(script, "C", "on we go")
    script.everywhere("BC", "on we go", within=SOON)
