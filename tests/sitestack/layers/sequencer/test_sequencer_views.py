"""The promises of the sequencer over view changes: crashes, blocks, joiners, leavers, merges."""

from __future__ import annotations

import pytest

from sitestack.layers.batching import BatchingConfig
from sitestack.model.events import Blocked, Unblocked, ViewInstalled
from sitestack.model.frame import Frame
from tests.harness.addresses import address, view_of
from tests.harness.messages import batch_of, firsts, numerals
from tests.harness.ordered import Configs, OrderedGroup, sequencer_of

A, B, C = map(address, "ABC")
ONE_EACH = Configs(batching=BatchingConfig(batch_count_max=1))


# -- view changes --------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-12", "SEQ-18")
def test_a_flush_that_is_followed_by_another_crash_loses_and_repeats_nothing() -> None:
    """S13: the second flush must not wait for the first one's members."""
    group = OrderedGroup("ABCD", ONE_EACH)
    group.wire.hold("D", "A")
    group.say("D", *numerals(1, 2))
    group.kill("A")
    group.wire.hold("D", "B")
    group.change_view("BCD")
    group.settle()
    group.kill("B")
    group.send("D", *numerals(3))
    group.change_view("CD")
    group.settle()
    assert group["C"].payloads("D") == group["D"].payloads("D") == numerals(1, 2, 3)


@pytest.mark.conforms("SEQ-23")
@pytest.mark.parametrize("flush", [True, False])
def test_survivors_of_a_coordinator_that_reached_only_one_of_them_agree_on_one_order_by_the_flush_alone(flush: bool) -> None:
    """Without it this is SEQUENCER as JGroups' design has it."""
    group = OrderedGroup("ABCD", ONE_EACH)
    for name in "CD":
        group.wire.hold("A", name)
    group.send("C", b"c1")
    group.turn(group["C"])
    group.turn(group["A"])
    group.say("D", b"d1")
    assert group["B"].delivered == [("C", b"c1"), ("D", b"d1")]
    group.kill("A")
    group.wire.hold("C", "B")  # D's forward would come first
    (group.change_view if flush else group.next_view)("BCD")
    group.settle()
    group.release("C", "B")
    group.settle()
    orders = [group[name].delivered for name in "BCD"]
    assert orders == [[("C", b"c1"), ("D", b"d1")]] * 3 if flush else orders[0] != orders[1]


@pytest.mark.conforms("SEQ-22", "SEQ-21")
def test_nothing_is_forwarded_before_the_first_view_nor_during_a_block() -> None:
    sequencer = sequencer_of("B")
    assert sequencer.down(Frame(B, None, (), batch_of("B", 1)), 0.0) == []
    assert sequencer.deadline() is None, "nobody is there to forward it to, however long it takes"
    assert sequencer.up(ViewInstalled(view_of(1, "AB"), None, blocked=True), 0.0) == []
    assert firsts(sequencer.up(ViewInstalled(view_of(2, "AB"), view_of(1, "AB")), 0.0)) == [1]
    sequencer.up(Blocked(), 0.0)
    assert sequencer.down(Frame(B, None, (), batch_of("B", 2)), 0.0) == []
    assert sequencer.deadline() is None
    assert sequencer.expire(1000.0) == []
    assert firsts(sequencer.up(Unblocked(), 0.0)) == [2], "what was forwarded before the block is still on its way"
    assert firsts(sequencer.up(ViewInstalled(view_of(3, "AB"), view_of(2, "AB")), 0.0)) == [1, 2]


@pytest.mark.conforms("SEQ-21")
def test_a_view_that_is_only_caught_up_with_stays_blocked() -> None:
    group = OrderedGroup("AB", ONE_EACH)
    group.say("A", b"before")
    group.block("AB")
    group.next_view("AB", blocked=True)
    group.send("A", b"1")
    group.say("B", b"2")
    assert group.streams("A").casts == 1
    assert group.streams("B").unicasts == 0
    group.next_view("AB")
    group.settle()
    assert group["B"].payloads("A") == [b"before", b"1"]
    assert group["A"].payloads("B") == [b"2"]
