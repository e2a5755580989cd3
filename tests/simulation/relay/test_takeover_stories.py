"""A relay dies, leaves or is replaced: traps of JGroups' RELAY, on whole sites with bridges that really break."""

from __future__ import annotations

import pytest

from relay.events import Role
from relay.gateway.config import GatewayConfig
from relay.gateway.wire import Ack, Bye, Data, Hello, State
from relay.replica.entries import Relayed
from sitestack.layers.sequencer import Sequenced
from sitestack.model.frame import Frame
from tests.harness.linked_sites import ACROSS, two_sites
from tests.harness.stories import SOON, numbered, say, verdict

#: The frames between relays that the transcripts show.
BRIDGE = (Hello, State, Data, Ack, Bye)


@pytest.mark.conforms("REL-4", "REL-5", "REL-8")
def test_a_multicast_reaches_every_member_of_both_sites_once_and_never_comes_back() -> None:
    script = two_sites(Sequenced, Relayed, Data, Ack)
    say(script, "C", "c1")
    script.everybody_has("ABCDEF", "c1")
    say(script, "F", "f1")
    script.everybody_has("ABCDEF", "f1")
    script.run(2.0)
    assert [script.delivered(name) for name in "ABCDEF"] == [["c1", "f1"]] * 6
    verdict(script, tells="relay")


@pytest.mark.conforms("REL-13", "REL-14")
def test_the_next_relay_sends_exactly_the_messages_missing_at_the_other_site() -> None:
    """R1, R2: a site has more of one sender's messages and less of another's when the relay that sent them dies."""
    script = two_sites(*BRIDGE)
    say(script, "B", *numbered("b", 1, 2))
    script.everybody_has("ABCDEF", "b1", "b2")
    mend = script.stall("A", "DEF")
    say(script, "C", *numbered("c", 1, 3))
    say(script, "B", *numbered("b", 3, 4))
    assert script.delivered("D") == ["b1", "b2"]
    script.kill("A")
    script.view("B", "C")
    script.everybody_has("BCDEF", "b1", "b2", "c1", "c2", "c3", "b3", "b4")
    mend()
    verdict(script, tells="takeover")


def test_a_recent_joiner_takes_over_with_all_unacknowledged_messages() -> None:
    """R3, R23: the new relay joined after the messages were sent; it was handed them by members that are dead now."""
    script = two_sites(spare="N")
    mend = script.stall("A", "DEF")
    say(script, "A", *numbered("a", 1, 3))
    script.kill("B", "C")
    script.view("A")
    script.start("NYC", "N")
    script.view("A", "N")
    say(script, "N", "n1")
    script.kill("A")
    script.view("N")
    script.everybody_has("DEF", "a1", "a2", "a3", "n1")
    mend()
    script.run(GatewayConfig().grace_s)  # A was the smaller part of its view when B and C died: they are shown for so long
    verdict(script)


@pytest.mark.conforms("REL-14", "REL-16")
def test_messages_delivered_only_by_a_dead_receiving_relay_are_retransmitted() -> None:
    """R5: D has read NYC's messages and delivered them itself; no other member of SFO has them when D dies."""
    script = two_sites(*BRIDGE)
    script.hold("D", "EF", Sequenced, carrying=["c1", "c2"])
    say(script, "C", "c1", "c2")
    script.run(ACROSS)
    assert [script.delivered(name) for name in "DEF"] == [["c1", "c2"], [], []]
    script.kill("D")
    script.view("E", "F")
    script.everybody_has("EF", "c1", "c2")
    verdict(script, tells="takeover-unstable")


def test_late_messages_of_a_dead_relay_are_not_delivered_again_after_the_replay() -> None:
    """R6: A's bytes are still on their way when B has asked and replayed."""
    script = two_sites(Relayed)
    mend = script.stall("A", "DEF")
    say(script, "C", *numbered("c", 1, 3))
    script.kill("A")
    script.view("B", "C")
    script.everybody_has("DEF", "c1", "c2", "c3")
    mend()
    script.run(2.0)
    script.everybody_has("BCDEF", "c1", "c2", "c3")
    verdict(script)


def test_messages_sent_without_a_link_or_during_a_replay_queue_behind_it() -> None:
    """R7: in RELAY "message relaying is suspended", without a word on where new messages are kept meanwhile."""
    script = two_sites(Relayed)
    mend = script.stall("BC", "DEF")
    say(script, "C", *numbered("c", 1, 2))
    script.run(ACROSS)
    script.kill("A")
    script.view("B", "C")
    say(script, "C", *numbered("c", 3, 6))
    assert script.delivered("D") == ["c1", "c2"]
    mend()
    script.until(lambda: script.delivered("D")[2:3] == ["c3"], "the replay begins")
    say(script, "C", *numbered("c", 7, 9))
    script.everybody_has("BCDEF", *numbered("c", 1, 9))
    verdict(script)


@pytest.mark.conforms("REL-17")
def test_the_successor_relays_messages_sent_after_a_farewell() -> None:
    """R8: a graceful leave without a replay would lose messages delivered after the farewell."""
    script = two_sites(*BRIDGE, Role)
    mend = script.stall("A", "DEF")
    say(script, "C", "c1", "c2")
    script["A"].leave()
    script.send("B", "b1")
    script.view("B", "C")
    say(script, "C", "c3")
    script.everybody_has("BCDEF", "c1", "c2", "b1", "c3")
    mend()
    script.run(1.0)
    verdict(script, tells="takeover-graceful")


def test_a_relay_that_was_asleep_is_not_listened_to_when_it_wakes() -> None:
    """R9: A stood still, B relays; A wakes with live connections and believes that it is the relay."""
    script = two_sites(State)
    mend = script.stall("A", "DEF")
    say(script, "C", "c1")
    script["A"].pause()
    script.view("B", "C", within=20.0)
    say(script, "C", "c2", "c3")
    script.everybody_has("BCDEF", "c1", "c2", "c3")
    script["A"].resume()
    mend()
    script.run(1.0)
    assert script["D"].stack.drops["hello_stale_epoch"] > 0
    assert not any(line.startswith("D => A: State") for line in script.transcript.lines)
    say(script, "C", "c4")
    script.view("A", "B", "C")
    say(script, "A", "a1")
    script.everywhere("ABCDEF", "a1")
    for name in "BCDEF":
        assert script.delivered(name) == ["c1", "c2", "c3", "c4", "a1"], name
    verdict(script)


def test_a_message_that_only_the_relay_holds_is_not_relayed() -> None:
    """R11, X4: A delivers its own message and dies. Had SFO got the message, NYC would lack for ever what SFO has."""
    script = two_sites(Relayed)
    script.hold("A", "BC", Sequenced)
    script.send("A", "a1")
    script.run(ACROSS)
    assert script.delivered("A") == ["a1"]
    script.kill("A")
    script.view("B", "C")
    script.run(2.0)
    assert [script.delivered(name) for name in "BCDEF"] == [[]] * 5
    verdict(script)


@pytest.mark.conforms("REL-6", "REL-7", "REL-9", "REL-10")
def test_after_a_takeover_the_sender_is_still_the_same_and_can_be_answered() -> None:
    """R14: a proxy names the relay as a way to the sender, not as a part of the sender's identity."""
    script = two_sites()
    say(script, "C", "c1")
    script.everybody_has("F", "c1")
    script.kill("D")
    script.view("E", "F")
    say(script, "C", "c2")
    script.everybody_has("F", "c2")
    one, other = script.sources("F")
    assert one == other == script.proxy("C")
    script.send("F", "f1", to=one)  # type: ignore[arg-type]
    script.run(ACROSS)
    script.send("F", "f2", to=other)  # type: ignore[arg-type]
    script.everywhere("C", "f1", "f2")
    answer = script.sources("C")[-1]
    assert answer == script.proxy("F")
    script.send("C", "c3", to=answer)  # type: ignore[arg-type]
    script.everywhere("F", "c3")
    verdict(script)


@pytest.mark.conforms("REL-6")
def test_a_relayed_message_that_is_lost_on_the_last_hop_is_asked_of_the_local_relay() -> None:
    """R13: the reliable layers must not take the far sender for the one who holds it."""
    script = two_sites(Relayed)
    lost = script.hold("D", "F", Relayed, carrying=["c1"])
    say(script, "C", "c1")
    script.run(SOON)
    lost.stop()
    say(script, "C", "c2")
    script.everybody_has("DEF", "c1", "c2")
    frames = [event for event in script["F"].events if isinstance(event, Frame)]
    assert [frame.source for frame in frames] == [script.proxy("C")] * 2
    verdict(script)
