"""Refusals of the sequencer: nonsense is dropped and counted, a broken internal invariant asserts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.sequencer import Forward, Sequenced, SequencerConfig
from sitestack.layers.sequencer.headers import ForwardAgain
from sitestack.model.events import Blocked, Unblocked, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.stack.layer import Down, Dropped, Up
from tests.harness.addresses import address, view_of
from tests.harness.messages import batch_of
from tests.harness.ordered import Numbered, OrderedGroup, sequencer_of

A, B, C = map(address, "ABC")


NONSENSE = {
    "a forward that is a multicast": (Frame(B, None, (Forward(),), batch_of("B", 1)), "bad_forward"),
    "a forward of nothing": (Frame(B, A, (Forward(),)), "bad_forward"),
    "a forward of another's batch": (Frame(B, A, (Forward(),), batch_of("C", 1)), "bad_forward"),
    "a forward for another site": (Frame(B, A, (Forward(),), batch_of("B", 1, site="SFO")), "bad_forward"),
    "a forward with more in it": (Frame(B, A, (Numbered(1, 1), Forward()), batch_of("B", 1)), "bad_forward"),
    "a forward of a unicast": (
        Frame(B, A, (Forward(),), replace(batch_of("B", 1, scope=Scope.UNICAST), target=A)),
        "bad_forward",
    ),
    "a forward from a stranger": (
        Frame(address("X"), A, (Forward(),), batch_of("X", 1)),
        "forward_from_non_member",
    ),
    "an entry that is a unicast": (Frame(A, A, (Sequenced(),), batch_of("B", 1)), "sequenced_unicast"),
    "an entry of a member": (Frame(B, None, (Sequenced(),), batch_of("B", 1)), "not_in_the_stream"),
    "an entry of the layer above from a member": (
        Frame(B, None, (Numbered(1, 1), Sequenced())),
        "not_in_the_stream",
    ),
    "an entry of another site": (Frame(A, None, (Sequenced(),), batch_of("B", 1, site="SFO")), "bad_entry"),
    "a word that only the coordinator says": (Frame(B, A, (ForwardAgain(),)), "forward_again"),
    "an entry of a stranger": (Frame(A, None, (Sequenced(),), batch_of("X", 1)), "bad_entry"),
    "an entry that is for one": (
        Frame(A, None, (Sequenced(),), replace(batch_of("B", 1, scope=Scope.UNICAST), target=A)),
        "bad_entry",
    ),
}


@pytest.mark.parametrize(("frame", "reason"), NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_dropped_and_counted(frame: Frame, reason: str) -> None:
    sequencer = sequencer_of("A")
    sequencer.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
    assert sequencer.up(frame, 0.0) == [Dropped(reason)]


@pytest.mark.conforms("SEQ-21")
def test_the_coordinator_drops_forwards_during_a_block_since_their_senders_still_hold_them() -> None:
    group = OrderedGroup("ABC")
    group.send("B", b"m")
    group.turn(group["B"])
    group.block("ABC")
    group.settle()
    assert group["A"].drops == {"blocked": 1}
    group.equalise("ABC")
    group.next_view("ABC")
    group.settle()
    assert group["C"].delivered == [("B", b"m")]


def test_a_coordinator_that_goes_on_in_the_same_view_asks_for_what_it_dropped() -> None:
    """S22: no view follows a quarantine that has lasted too long, and the timer of a sender may have slowed down meanwhile."""
    coordinator, sender = sequencer_of("A"), sequencer_of("B")
    for each in (coordinator, sender):
        each.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
    coordinator.up(Blocked(quarantined=True), 0.0)
    (forward,) = sender.down(Frame(B, None, (), batch_of("B", 1)), 1.0)
    assert isinstance(forward, Down)
    assert coordinator.up(forward.event, 1.0) == [Dropped("blocked")]
    again = Frame(A, B, (ForwardAgain(),))
    assert coordinator.up(Unblocked(), 9.0) == [Up(Unblocked()), Down(again)], "C is not asked, which sent nothing"
    assert sender.up(again, 9.0) == [forward]
    assert sender.deadline() == 9.0 + SequencerConfig().resend_interval_s
    assert coordinator.up(Unblocked(), 9.1) == [Up(Unblocked())], "once"


def test_what_was_dropped_before_a_view_is_forwarded_again_without_a_word() -> None:
    coordinator = sequencer_of("A")
    coordinator.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    coordinator.up(Blocked(), 0.0)
    coordinator.up(Frame(B, A, (Forward(),), batch_of("B", 1)), 1.0)
    assert coordinator.up(ViewInstalled(view_of(2, "AB"), view_of(1, "AB"), blocked=True), 2.0) == []
    assert coordinator.up(Unblocked(), 3.0) == [Up(Unblocked())]


def test_sending_beyond_every_window_is_a_broken_invariant() -> None:
    """S18: the layer above stops the application long before, and the table makes sure."""
    sequencer = sequencer_of("B", SequencerConfig(undelivered_bytes_max=10))
    sequencer.down(Frame(B, None, (), batch_of("B", 1)), 0.0)
    with pytest.raises(AssertionError, match="S18"):
        sequencer.down(Frame(B, None, (), batch_of("B", 2)), 0.0)
