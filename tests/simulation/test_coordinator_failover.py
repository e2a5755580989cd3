"""The coordinator dies in the middle of its work: each test tells the story of a trap of JGroups' SEQUENCER."""

from __future__ import annotations

import random

import pytest

from relay_lab.sim.network_faults import Packet
from sitestack.layers.membership import Membership
from sitestack.layers.membership.headers import Commit, FlushReply, FlushRequest, Prepare
from sitestack.layers.nakack import NakAck
from sitestack.layers.nakack.headers import Retransmit
from sitestack.layers.sequencer import Forward, Sequenced, Sequencer
from sitestack.layers.stability import Stability
from sitestack.wire.lane import MAGIC
from tests.harness.script import Script
from tests.harness.stories import SOON, layer, say, site, verdict

FLUSH = (Forward, Sequenced, Retransmit, FlushRequest, FlushReply, Prepare, Commit)


def at_rest(script: Script, *names: str) -> bool:
    """True when none of these has a message of its own left that is undelivered or unstable."""
    undelivered = [layer(script, name, Sequencer).levels()["undelivered"].now for name in names]
    return not any(undelivered) and not any(layer(script, name, Stability).levels()["unstable_count"].now for name in names)


@pytest.mark.conforms("SEQ-4", "SEQ-5", "SEQ-6", "SEQ-13")
def test_a_multicast_costs_one_unicast_and_one_multicast_and_the_coordinators_own_only_the_latter() -> None:
    script = site("A", "B", "C", shown=(Forward, Sequenced))
    say(script, "B", "b1")
    say(script, "A", "a1")
    verdict(script, tells="sequencer")


@pytest.mark.conforms("SEQ-14", "SEQ-12", "SEQ-3")
def test_the_example_of_seed_000_a_survivor_gets_its_two_missing_messages_once() -> None:
    """SEQ-14: C sends 1 to 6, A sequences all, C misses 5 and 6, A dies."""
    script = site("A", "B", "C", shown=FLUSH)
    missed = script.hold("A", "C", Sequenced, carrying=["5", "6"])
    say(script, "C", "1", "2", "3", "4", "5", "6")
    assert script.delivered("B") == ["1", "2", "3", "4", "5", "6"]
    assert script.delivered("C") == ["1", "2", "3", "4"]
    missed.stop()
    script.kill("A")
    script.view("B", "C")
    script.until(lambda: at_rest(script, "B", "C"), "nobody holds anything")
    assert script.delivered("C") == script.delivered("B") == ["1", "2", "3", "4", "5", "6"]
    verdict(script, tells="failover-1-to-6")


@pytest.mark.conforms("SEQ-23", "SEQ-10")
def test_messages_that_one_survivor_delivered_come_first_at_all_survivors() -> None:
    """S5, SEQ-23: only B got the last two messages that A sequenced; D would send its message again before C does."""
    script = site("A", "B", "C", "D", shown=FLUSH)
    missed = script.hold("A", "CD", Sequenced)
    say(script, "C", "c1")
    say(script, "D", "d1")
    assert [script.delivered(name) for name in "BCD"] == [["c1", "d1"], [], []]
    missed.stop()
    late = script.hold("C", "B", Forward)
    script.kill("A")
    script.view("B", "C", "D")
    script.run(SOON)
    script.release(late)
    script.exactly("BCD", "c1", "d1")
    verdict(script, tells="failover-hole")


def test_a_message_that_only_its_sender_delivered_reaches_the_other_survivors() -> None:
    """S6: C has delivered its own message and will not send it again; no other survivor has it, and A is dead."""
    script = site("A", "B", "C", "D")
    script.hold("A", "BD", Sequenced)
    say(script, "C", "c1")
    assert [script.delivered(name) for name in "BCD"] == [[], ["c1"], []]
    script.kill("A")
    script.view("B", "C", "D")
    assert script.delivered("B") == script.delivered("C") == script.delivered("D") == ["c1"]
    verdict(script)


@pytest.mark.conforms("SEQ-24")
def test_a_survivors_delivery_reaches_all_after_origin_and_coordinator_die() -> None:
    script = site("A", "B", "C", "D")
    script.hold("A", "CD", Sequenced)
    say(script, "D", "d1")
    script.kill("A", "D")
    script.view("B", "C")
    assert script.delivered("B") == script.delivered("C") == ["d1"]
    verdict(script)


@pytest.mark.conforms("SEQ-12", "SEQ-11", "SEQ-18")
def test_messages_forwarded_again_precede_new_ones_after_a_failover() -> None:
    """S2: a message that is sent during the failover must not overtake those that have to be sent again."""
    script = site("A", "B", "C", shown=(Forward, Sequenced, Commit))
    script.hold("A", "BC", Sequenced)
    say(script, "C", "1", "2", "3")
    commit = script.hold("B", "C", Commit)
    script.kill("A")
    script.until(lambda: bool(commit.packets), "B commits")
    script.send("C", "4", "5")
    script.run(SOON)
    script.release(commit)
    script.exactly("BC", "1", "2", "3", "4", "5", within=1.0)
    verdict(script, tells="failover-resend")


@pytest.mark.conforms("SEQ-13")
def test_a_new_coordinator_sequences_its_old_messages_before_its_newer_ones() -> None:
    """S4: B now casts its own messages, but not before its older ones, which the dead coordinator A had not delivered to B."""
    script = site("A", "B", "C")
    script.hold("A", "BC", Sequenced)
    say(script, "B", "1", "2", "3")
    reply = script.hold("C", "B", FlushReply)
    script.kill("A")
    script.until(lambda: bool(reply.packets), "C has stopped")
    script.send("B", "4", "5")
    script.run(SOON)
    script.release(reply)
    script.exactly("BC", "1", "2", "3", "4", "5", within=1.0)
    verdict(script)


@pytest.mark.conforms("SEQ-7", "SEQ-20")
def test_a_forward_that_is_faster_than_the_view_waits_for_it() -> None:
    """S3: A leaves; C has installed the view that B coordinates, B has not yet."""
    script = site("A", "B", "C", shown=(Forward, Sequenced, Commit))
    commit = script.hold("A", "B", Commit)
    request = script.hold("A", "C", FlushRequest)
    script["A"].leave()
    script.until(lambda: bool(request.packets), "A wants to leave")
    script.release(request)
    script.send("C", "1", "2")
    old = script["B"].view
    script.until(lambda: script["C"].view is not old and bool(commit.packets), "C knows the new view")
    script.run(SOON)
    assert script["B"].view is old
    assert layer(script, "B", Membership).levels()["held_frames"].now == 2
    script.release(commit)
    script.exactly("BC", "1", "2", within=1.0)  # in less than the two seconds after which C would forward again
    script.until(lambda: script["A"].left, "A has left")
    verdict(script, tells="forward-before-view")


def test_no_member_sequences_a_message_of_an_excluded_member() -> None:
    """S10: D's forward is still under way when D is dead and gone."""
    script = site("A", "B", "C", "D")
    late = script.hold("D", "A", Forward)
    say(script, "D", "d1")
    script.kill("D")
    script.view("A", "B", "C")
    script.release(late)
    script.run(3.0)
    assert [script.delivered(name) for name in "ABC"] == [[], [], []]
    verdict(script)


@pytest.mark.conforms("SEQ-8")
def test_the_coordinator_and_not_the_sender_retransmits_a_missing_message() -> None:
    script = site("A", "B", "C", shown=(Sequenced, Retransmit))
    lost = script.hold("A", "C", Sequenced, carrying=["b1"])
    say(script, "B", "b1")
    lost.stop()
    say(script, "B", "b2")
    script.exactly("C", "b1", "b2", within=1.0)
    assert layer(script, "A", NakAck).statistics().retransmitted == 1
    verdict(script, tells="hole")


@pytest.mark.conforms("LA-27")
def test_a_view_with_its_digest_lists_each_member_once() -> None:
    """Frames after a member's death: the new view, the cut of the old one, and a holder for it."""
    script = site(*"ABCDE")
    packed: list[bytes] = []

    def listen(packet: Packet, rng: random.Random) -> list[Packet]:
        codec = script["A"].stack.codec
        frames = () if packet.data[:2] == MAGIC else codec.decode(packet.data).frames
        headers = [header for frame in frames for header in frame.headers]
        packed.extend([codec.pack(header) for header in headers if isinstance(header, Prepare)])
        return [packet]

    script.world.network.faults.append(listen)
    for name in "ABCD":
        say(script, name, f"{name}1")
    script.kill("E")
    script.view(*"ABCD")
    assert packed
    for header in packed:
        assert [header.count(bytes(script[name].local.address)) for name in "BCDE"] == [1, 1, 1, 0]
    verdict(script)
