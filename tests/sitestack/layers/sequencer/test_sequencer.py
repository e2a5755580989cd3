"""The promises of the sequencer, with Batching above and FlowControl below it, over a fake group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.batching import BatchingConfig
from sitestack.layers.sequencer import Forward, Sequenced, Sequencer, SequencerConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Stable, Waiting
from sitestack.model.frame import Frame
from sitestack.stack.layer import Down, Dropped, Up
from tests.harness.addresses import address
from tests.harness.group import Member
from tests.harness.messages import batch_of, firsts, numerals, present
from tests.harness.ordered import Configs, Numbered, OrderedGroup, sequencer_of

A, B, C = map(address, "ABC")
ONE_EACH = Configs(batching=BatchingConfig(batch_count_max=1))
FIFO = replace(ONE_EACH, sequencer=SequencerConfig(order="fifo"))


# -- the way of a multicast ----------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-1")
@pytest.mark.parametrize("dest", [address("B"), Physical("10.0.0.1", 7)])
def test_frames_to_one_destination_pass_both_ways_untouched(dest: Address | Physical) -> None:
    sequencer = sequencer_of("A")
    frame = Frame(address("A"), dest, (), batch_of("A", 1))
    gossip = replace(frame, dest=None, unreliable=True)
    for each in (frame, gossip):
        assert sequencer.down(each, 0.0) == [Down(each)]
        assert sequencer.up(each, 0.0) == [Up(each)]


@pytest.mark.conforms("SEQ-3")
def test_a_member_holds_its_multicast_from_before_the_forward_until_it_comes_back() -> None:
    group = OrderedGroup("ABC")
    group.wire.hold("A", "C")
    group.say("C", b"m")
    assert group.table("C") == 1
    group.release("A", "C")
    group.settle()
    assert group["C"].delivered == [("C", b"m")]
    assert group.table("C") == 0


@pytest.mark.conforms("SEQ-4")
def test_a_multicast_costs_one_unicast_to_the_coordinator_and_one_multicast_by_it() -> None:
    group = OrderedGroup("ABC")
    group.say("B", b"m")
    costs = {name: (group.streams(name).unicasts, group.streams(name).casts) for name in "ABC"}
    assert costs == {"A": (0, 1), "B": (1, 0), "C": (0, 0)}


@pytest.mark.conforms("SEQ-5", "SEQ-10")
def test_the_coordinators_own_multicasts_share_the_one_sequence_and_leave_room_for_others() -> None:
    group = OrderedGroup("ABC", ONE_EACH)
    for n in range(20):
        for name in "ABC":
            group.send(name, b"%d" % n)
        for name in "ABC":
            group.turn(group[name])
    group.settle()
    orders = [group[name].delivered for name in "ABC"]
    assert len(orders[0]) == 60
    assert orders[1] == orders[0]
    assert orders[2] == orders[0]
    senders = "".join(sender for sender, _ in orders[0][:30])
    assert min(senders.count(name) for name in "ABC") >= 8


@pytest.mark.conforms("SEQ-5")
def test_the_coordinator_casts_its_own_batch_without_a_unicast_to_itself() -> None:
    sequencer = sequencer_of("A", view="AB")
    own = Frame(A, None, (), batch_of("A", 1))
    assert sequencer.down(own, 0.0) == [Down(replace(own, headers=(Sequenced(),)))]


@pytest.mark.conforms("SEQ-6")
def test_every_forwarded_batch_is_multicast_once_under_its_own_sender_and_numbers() -> None:
    group = OrderedGroup("ABC", ONE_EACH)
    group.send("B", *numerals(1, 2, 3))
    group.say("C", *numerals(1, 2, 3))
    stream = [frame.batch for frame in group.streams("A").log[address("A")]]
    sent = group.sent("B") + group.sent("C")
    assert len(stream) == 6
    assert all(batch in stream for batch in sent)


@pytest.mark.conforms("SEQ-7")
def test_a_forward_to_a_non_coordinator_is_counted_and_delivered_after_a_view_change() -> None:
    group = OrderedGroup("ABC")
    group.wire.hold("B", "A")
    group.say("B", b"m")
    (forward,) = group.wire.delayed
    # The very bytes reach C, which is not the coordinator.
    group.do("C", *[Up(frame.pop()) for frame in forward.frames])
    group.settle()
    assert group["C"].drops == {"forward_to_non_coordinator": 1}
    assert group.streams("C").casts == 0
    assert group.table("B") == 1

    group.change_view("CBA")
    group.settle()
    assert [group[name].delivered for name in "ABC"] == [[("B", b"m")]] * 3
    assert group.streams("C").casts == 1


@pytest.mark.conforms("SEQ-8")
def test_the_application_sees_the_sender_while_the_stream_keeps_the_coordinators_frame() -> None:
    """S15: the frame passed up is another one than the frame kept for retransmission."""
    group = OrderedGroup("ABC")
    group.say("B", b"m")
    seen = group["C"].frames[0]
    kept = group.streams("C").log[address("A")][0]
    assert (seen.source, seen.headers, seen.seqno) == (address("B"), (), 1)
    assert (kept.source, kept.headers, kept.seqno) == (address("A"), (Sequenced(),), 1)
    assert seen.batch is kept.batch


@pytest.mark.conforms("SEQ-9", "SEQ-18")
def test_the_coordinator_sequences_a_repeated_forward_and_every_receiver_drops_it() -> None:
    group = OrderedGroup("ABC")
    group.say("B", b"m")
    again = Frame(address("B"), address("A"), (Forward(),), group.sent("B")[0])
    group.do("A", Up(again))
    group.settle()
    assert group.streams("A").casts == 2
    for name in "ABC":
        assert group[name].delivered == [("B", b"m")]
        assert group[name].drops == {"duplicate": 1}


@pytest.mark.conforms("SEQ-9", "SEQ-11")
def test_a_forwarded_batch_ahead_of_its_predecessor_is_dropped_and_counted() -> None:
    group = OrderedGroup("ABC")
    for first in (2, 1, 2):
        group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", first))))
    group.settle()
    for name in "ABC":
        assert group[name].delivered == [("B", b"B1"), ("B", b"B2")]
        assert group[name].drops == ({"order_hole": 1} if name == "A" else {})
    entry = Frame(address("A"), None, (Sequenced(),), batch_of("B", 4), False, 3)
    assert group["C"].layer(Sequencer).up(entry, 0.0) == [Dropped("order_hole")], (
        "a coordinator that multicasts it nevertheless"
    )


@pytest.mark.conforms("SEQ-9")
def test_a_batch_that_was_cut_in_another_way_the_second_time_is_dropped_whole() -> None:
    group = OrderedGroup("AB")
    for first, count in ((1, 3), (2, 4), (4, 1)):
        group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", first, count))))
    group.settle()
    assert group["A"].payloads("B") == [b"B1", b"B2", b"B3", b"B4"]
    assert group["A"].drops == {"recut_batch": 1}


# -- forwarding again on time ----------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-7", "SEQ-11")
def test_a_sender_forwards_lost_batches_again_in_order() -> None:
    group = OrderedGroup("ABC", ONE_EACH)
    group.wire.hold("B", "A")
    group.say("B", *numerals(1, 2))
    group.wire.delayed.clear()  # lost for good, as when a connection is reset
    group.release("B", "A")
    group.say("B", *numerals(3))
    assert group["A"].drops == {"order_hole": 1}
    group.pass_time(1.9)
    assert group["C"].delivered == []
    group.pass_time(0.1)
    assert group["C"].payloads("B") == numerals(1, 2, 3)


@pytest.mark.conforms("SEQ-3")
def test_forwarding_again_slows_down_and_a_delivery_of_an_own_one_makes_it_eager_again() -> None:
    sequencer = sequencer_of("B", view="AB")
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 1)), 0.0)
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 2)), 0.0)
    dues = []
    for _ in range(7):
        due = present(sequencer.deadline())
        dues.append(due)
        assert firsts(sequencer.expire(due)) == [1, 2]
    assert dues == [2.0, 6.0, 14.0, 30.0, 62.0, 94.0, 126.0]
    sequencer.up(Frame(address("A"), None, (Sequenced(),), batch_of("A", 1), False, 1), 129.0)
    assert sequencer.deadline() == 158.0, "what others send says nothing of the own ones"
    sequencer.up(Frame(address("A"), None, (Sequenced(),), batch_of("B", 1), False, 2), 130.0)
    assert sequencer.deadline() == 132.0
    assert sequencer.expire(131.0) == []
    assert firsts(sequencer.expire(132.0)) == [2]


@pytest.mark.conforms("SEQ-3")
def test_a_batch_that_waits_for_credit_is_not_forwarded_again() -> None:
    sequencer = sequencer_of("B", view="AB")
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 1)), 50.0)
    assert sequencer.deadline() == 52.0
    assert sequencer.up(Waiting(100), 51.0) == [Up(Waiting(100))]
    assert sequencer.deadline() is None
    sequencer.up(Waiting(0), 60.0)
    assert sequencer.deadline() == 62.0
    sequencer.up(Waiting(99, {address("C"): 99}), 61.0)
    assert sequencer.deadline() == 62.0, "unicasts to a slow member delay no multicast"


# -- the layer above ---------------------------------------------------------------------------------------------------


def test_only_the_coordinator_sequences_entries_of_the_layer_above() -> None:
    group = OrderedGroup("ABC")
    remote = Frame(address("A"), None, (Numbered(7, 7),), batch_of("Z", 5, site="SFO"))
    group.send("A", b"m")
    group.turn(group["A"])
    down(group["A"], remote)
    group.settle()
    for name in "ABC":
        first, second = group[name].frames
        assert (first.batch, first.seqno) == (group.sent("A")[0], 1)
        assert (second.batch, second.seqno, second.source) == (remote.batch, 2, address("A"))
        assert second.headers == (Numbered(7, 7),)

    down(group["B"], replace(remote, source=address("B")))
    group.block("ABC")
    down(group["A"], remote)
    assert (group["B"].drops, group["A"].drops) == ({"not_coordinator": 1}, {"blocked": 1})


def test_stable_events_reach_the_layer_above() -> None:
    sequencer = sequencer_of("A", view="A")
    stable = Stable({address("A"): 3})
    assert sequencer.up(stable, 0.0) == [Up(stable)]


# -- fifo ----------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-11")
def test_in_fifo_order_the_origin_casts_by_itself_and_sends_again_after_a_view() -> None:
    group = OrderedGroup("ABC", FIFO)
    for name in "AC":
        group.wire.hold("B", name)
    group.say("B", *numerals(1, 2))
    assert (group.streams("B").casts, group.streams("B").unicasts) == (2, 0)
    assert group["B"].payloads("B") == numerals(1, 2)
    assert group.table("B") == 0
    group.kill("A")
    group.change_view("CB")
    group.release("B", "C")
    group.say("B", *numerals(3))
    assert group["C"].payloads("B") == group["B"].payloads("B") == numerals(1, 2, 3)
    assert group.table("B") == 0


@pytest.mark.conforms("SEQ-11")
def test_fifo_order_drops_forwards_and_entries_of_another_origin() -> None:
    group = OrderedGroup("ABC", FIFO)
    group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", 1))))
    group.do("A", Up(Frame(address("C"), None, (Sequenced(),), batch_of("B", 1), False, 1)))
    group.settle()
    assert group["A"].drops == {"forward_to_non_coordinator": 1, "not_in_the_stream": 1}
    assert group["A"].delivered == []


# -- helpers ----------------------------------------------------------------------------------------------------


def down(node: Member, frame: Frame) -> None:
    """As the layer between Batching and Sequencer would."""
    node.stack.down(frame, 0.0)
