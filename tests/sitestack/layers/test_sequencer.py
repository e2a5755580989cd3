"""What the sequencer promises, with Batching above and FlowControl below it, over a fake group."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sitestack.address import Address, Physical
from sitestack.codec import Codec
from sitestack.events import Blocked, Stable, ViewInstalled, Waiting
from sitestack.frame import Frame
from sitestack.layer import Down, Dropped, Effect, Local, Up
from sitestack.layers.batching import BatchingConfig
from sitestack.layers.sequencer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState
from sitestack.message import Batch, Scope, pack_body
from tests.sitestack.layers.ordered_group import SITE, Configs, Group, Node, Numbered, address, view_of

A, B, C = map(address, "ABC")
ONE_EACH = Configs(batching=BatchingConfig(batch_count_max=1))
FIFO = replace(ONE_EACH, sequencer=SequencerConfig(order="fifo"))


def batch_of(origin: str, first: int, count: int = 1, scope: Scope = Scope.ALL, site: str = SITE) -> Batch:
    payloads = [f"{origin}{n}".encode() for n in range(first, first + count)]
    return Batch(site, address(origin), scope, first, count, pack_body(payloads))


def numbers(*ns: int) -> list[bytes]:
    return [b"%d" % n for n in ns]


# -- the way of a multicast ----------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-1")
def test_a_unicast_passes_without_header_and_without_a_hop_through_the_coordinator() -> None:
    group = Group("ABC")
    group["B"].send(b"hello", to=address("C"))
    group.settle()
    assert [(frame.source, frame.dest, frame.headers) for frame in group["C"].frames] == [(address("B"), address("C"), ())]
    assert (group["B"].fake.unicasts, group["A"].fake.unicasts, group["A"].fake.casts) == (1, 0, 0)


@pytest.mark.conforms("SEQ-1")
@pytest.mark.parametrize("dest", [address("B"), Physical("10.0.0.1", 7)])
def test_frames_to_one_destination_pass_both_ways_untouched(dest: Address | Physical) -> None:
    sequencer = sequencer_of("A")
    frame = Frame(address("A"), dest, (), batch_of("A", 1))
    gossip = replace(frame, dest=None, unreliable=True)
    for each in (frame, gossip):
        assert sequencer.down(each, 0.0) == [Down(each)]
        assert sequencer.up(each, 0.0) == [Up(each)]


@pytest.mark.conforms("SEQ-2")
def test_numbers_increase_without_a_hole_per_origin_and_scope() -> None:
    group = Group("ABC", ONE_EACH)
    for n in range(3):
        for name in "ABC":
            group[name].send(b"all %d" % n)
            group[name].send(b"site %d" % n, scope=Scope.SITE)
        group.settle()
    for name in "ABC":
        for scope in (Scope.ALL, Scope.SITE):
            mine = [b.first for b in group["B"].batches if (b.origin, b.scope) == (address(name), scope)]
            assert mine == [1, 2, 3]


@pytest.mark.conforms("SEQ-3")
def test_a_member_holds_its_multicast_from_before_the_forward_until_it_is_stable() -> None:
    group = Group("ABC")
    group.hold("A", "C")
    group["C"].send(b"m")
    group.settle()
    assert table(group["C"]) == (1, 0)
    group.release("A", "C")
    group.settle()
    assert group["C"].delivered == [("C", b"m")]
    assert table(group["C"]) == (0, 1)
    group.stable()
    assert table(group["C"]) == (0, 0)


@pytest.mark.conforms("SEQ-4")
def test_a_multicast_costs_one_unicast_to_the_coordinator_and_one_multicast_by_it() -> None:
    group = Group("ABC")
    group["B"].send(b"m")
    group.settle()
    costs = {name: (group[name].fake.unicasts, group[name].fake.casts) for name in "ABC"}
    assert costs == {"A": (0, 1), "B": (1, 0), "C": (0, 0)}


@pytest.mark.conforms("SEQ-5", "SEQ-10")
def test_the_coordinators_own_multicasts_share_the_one_sequence_and_leave_room_for_others() -> None:
    group = Group("ABC", ONE_EACH)
    for n in range(20):
        for name in "ABC":
            group[name].send(b"%d" % n)
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
    sequencer = sequencer_of("A")
    sequencer.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    own = Frame(A, None, (), batch_of("A", 1))
    assert sequencer.down(own, 0.0) == [Down(replace(own, headers=(Sequenced(),)))]


@pytest.mark.conforms("SEQ-6")
def test_every_forwarded_batch_is_multicast_once_under_its_own_sender_and_numbers() -> None:
    group = Group("ABC", ONE_EACH)
    group["B"].send(*numbers(1, 2, 3))
    group["C"].send(*numbers(1, 2, 3))
    group.settle()
    stream = [frame.batch for frame in group["A"].fake.log[address("A")]]
    sent = group["B"].sent + group["C"].sent
    assert len(stream) == 6
    assert all(batch in stream for batch in sent)


@pytest.mark.conforms("SEQ-7")
def test_a_forward_to_a_member_that_is_not_coordinator_is_counted_and_delivered_all_the_same() -> None:
    group = Group("ABC")
    group.hold("B", "A")
    group["B"].send(b"m")
    group.settle()
    data = group.held["B", "A"][0]
    # The very bytes reach C, which is not the coordinator.
    frames = group["C"].stack.codec.decode(data).frames
    group.do("C", *[Up(frame.pop()) for frame in frames])
    group.settle()
    assert group["C"].drops == {"forward_to_non_coordinator": 1}
    assert group["C"].fake.casts == 0
    assert table(group["B"]) == (1, 0)

    group.change_view("CBA")
    group.settle()
    assert [group[name].delivered for name in "ABC"] == [[("B", b"m")]] * 3
    assert group["C"].fake.casts == 1


@pytest.mark.conforms("SEQ-8")
def test_the_application_sees_the_sender_while_the_stream_keeps_the_coordinators_frame() -> None:
    group = Group("ABC")
    group["B"].send(b"m")
    group.settle()
    seen = group["C"].frames[0]
    kept = group["C"].fake.log[address("A")][0]
    assert (seen.source, seen.headers, seen.seqno) == (address("B"), (), 1)
    assert (kept.source, kept.headers, kept.seqno) == (address("A"), (Sequenced(),), 1)
    assert seen.batch is kept.batch


@pytest.mark.conforms("SEQ-9", "SEQ-18")
def test_the_coordinator_sequences_a_repeated_forward_and_every_receiver_drops_it() -> None:
    group = Group("ABC")
    group["B"].send(b"m")
    group.settle()
    again = Frame(address("B"), address("A"), (Forward(),), group["B"].sent[0])
    group.do("A", Up(again))
    group.settle()
    assert group["A"].fake.casts == 2
    for name in "ABC":
        assert group[name].delivered == [("B", b"m")]
        assert group[name].drops == {"duplicate": 1}


@pytest.mark.conforms("SEQ-9", "SEQ-11")
def test_what_arrives_before_its_predecessor_is_never_delivered_ahead_of_it() -> None:
    group = Group("ABC")
    for first in (2, 1, 2):
        group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", first))))
    group.settle()
    for name in "ABC":
        assert group[name].delivered == [("B", b"B1"), ("B", b"B2")]
        assert group[name].drops == {"order_hole": 1}


def test_a_batch_that_was_cut_in_another_way_the_second_time_is_dropped_whole() -> None:
    group = Group("AB")
    for first, count in ((1, 3), (2, 4), (4, 1)):
        group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", first, count))))
    group.settle()
    assert group["A"].payloads("B") == [b"B1", b"B2", b"B3", b"B4"]
    assert group["A"].drops == {"recut_batch": 1}


# -- view changes --------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-12", "SEQ-11")
def test_after_a_crash_of_the_coordinator_what_is_unseen_is_forwarded_in_order_and_before_anything_new() -> None:
    group = Group("ABC", ONE_EACH)
    group.hold("C", "A")
    group["C"].send(*numbers(1, 2, 3))
    group.settle()
    group.crash("A")
    group.block("BC")
    group["C"].send(*numbers(4))
    group.settle()
    group.equalise("BC")
    group.install("BC")
    group["C"].send(*numbers(5))
    group.settle()
    assert group["B"].payloads("C") == group["C"].payloads("C") == numbers(1, 2, 3, 4, 5)
    assert group["B"].drops == {}
    group.stable()
    assert table(group["C"]) == (0, 0)


@pytest.mark.conforms("SEQ-12", "SEQ-18")
def test_a_flush_that_is_followed_by_another_crash_loses_and_repeats_nothing() -> None:
    group = Group("ABCD", ONE_EACH)
    group.hold("D", "A")
    group["D"].send(*numbers(1, 2))
    group.settle()
    group.crash("A")
    group.hold("D", "B")
    group.change_view("BCD")
    group.settle()
    group.crash("B")
    group["D"].send(*numbers(3))
    group.change_view("CD")
    group.settle()
    assert group["C"].payloads("D") == group["D"].payloads("D") == numbers(1, 2, 3)


@pytest.mark.conforms("SEQ-13", "SEQ-5")
def test_a_member_that_becomes_coordinator_sequences_its_own_old_multicasts_before_newer_ones() -> None:
    group = Group("ABC", ONE_EACH)
    group.hold("B", "A")
    group["B"].send(*numbers(1, 2))
    group.settle()
    group.crash("A")
    group.block("BC")
    group["B"].send(*numbers(3))
    group.settle()
    group.equalise("BC")
    group.install("BC")
    group["B"].send(*numbers(4))
    group.settle()
    assert group["C"].payloads("B") == numbers(1, 2, 3, 4)
    assert [frame.batch.first for frame in group["B"].fake.log[address("B")] if frame.batch] == [1, 2, 3, 4]


SEED_EXAMPLE = """\
C says forward C5 to A
A says cast C5
A delivers C5
B delivers C5
C says forward C6 to A
A says cast C6
A delivers C6
B delivers C6
A dies
C says forward C5 to B
C says forward C6 to B
B says cast C5
B drops duplicate
B says cast C6
B drops duplicate
C delivers C5
C delivers C6
"""


@pytest.mark.conforms("SEQ-14", "SEQ-18")
def test_the_seeds_example_of_messages_1_to_6_word_for_word_without_a_flush() -> None:
    group = Group("ABC", ONE_EACH)
    group["C"].send(b"C1", b"C2", b"C3", b"C4")
    group.settle()
    lines: list[str] = []
    listen(group, lines)
    group.hold("A", "C")
    group["C"].send(b"C5")
    group.settle()
    group["C"].send(b"C6")
    group.settle()
    lines.append("A dies")
    group.crash("A")
    group.install("BC")
    group.settle()

    assert lines == SEED_EXAMPLE.splitlines()
    expected = [b"C%d" % n for n in range(1, 7)]
    assert group["B"].payloads("C") == group["C"].payloads("C") == expected
    group.stable()
    assert table(group["C"]) == (0, 0)


@pytest.mark.conforms("SEQ-14", "SEQ-3")
def test_the_seeds_example_with_the_flush_needs_no_second_forward() -> None:
    group = Group("ABC", ONE_EACH)
    group["C"].send(*numbers(1, 2, 3, 4))
    group.settle()
    group.hold("A", "C")
    group["C"].send(*numbers(5, 6))
    group.settle()
    group.crash("A")
    group.change_view("BC")
    group.settle()
    assert group["B"].payloads("C") == group["C"].payloads("C") == numbers(1, 2, 3, 4, 5, 6)
    assert group["B"].drops == {}
    assert table(group["C"]) == (0, 0)


@pytest.mark.conforms("SEQ-23")
def test_survivors_of_a_coordinator_that_reached_only_one_of_them_agree_on_one_order() -> None:
    group = Group("ABCD", ONE_EACH)
    for name in "CD":
        group.hold("A", name)
    group["C"].send(b"c1")
    group.turn(group["C"])
    group.turn(group["A"])
    group["D"].send(b"d1")
    group.settle()
    assert group["B"].delivered == [("C", b"c1"), ("D", b"d1")]
    group.crash("A")
    group.hold("C", "B")  # D's forward would come first
    group.change_view("BCD")
    group.settle()
    group.release("C", "B")
    group.settle()
    assert [group[name].delivered for name in "BCD"] == [[("C", b"c1"), ("D", b"d1")]] * 3


@pytest.mark.conforms("SEQ-23")
def test_without_the_flush_the_same_story_ends_in_two_orders() -> None:
    """What the flush is for: this is the seed as it is written."""
    group = Group("ABCD", ONE_EACH)
    for name in "CD":
        group.hold("A", name)
    group["C"].send(b"c1")
    group.turn(group["C"])
    group.turn(group["A"])
    group["D"].send(b"d1")
    group.settle()
    group.crash("A")
    group.hold("C", "B")
    group.install("BCD")
    group.settle()
    group.release("C", "B")
    group.settle()
    assert group["B"].delivered != group["C"].delivered


@pytest.mark.conforms("SEQ-22")
def test_nothing_is_forwarded_before_the_first_view_nor_during_a_block() -> None:
    sequencer = sequencer_of("B")
    assert sequencer.down(Frame(B, None, (), batch_of("B", 1)), 0.0) == []
    assert sequencer.up(ViewInstalled(view_of(1, "AB"), None, blocked=True), 0.0) == []
    assert firsts(sequencer.up(ViewInstalled(view_of(2, "AB"), view_of(1, "AB")), 0.0)) == [1]
    sequencer.up(Blocked(), 0.0)
    assert sequencer.down(Frame(B, None, (), batch_of("B", 2)), 0.0) == []
    assert sequencer.deadline() is None
    assert sequencer.expire(1000.0) == []
    assert firsts(sequencer.up(ViewInstalled(view_of(3, "AB"), view_of(2, "AB")), 0.0)) == [1, 2]


def test_a_view_that_is_only_caught_up_with_stays_blocked() -> None:
    group = Group("AB", ONE_EACH)
    group["A"].send(b"before")
    group.settle()
    group.block("AB")
    group.install("AB", blocked=True)
    group["A"].send(b"1")
    group["B"].send(b"2")
    group.settle()
    assert group["A"].fake.casts == 1
    assert group["B"].fake.unicasts == 0
    group.install("AB")
    group.settle()
    assert group["B"].payloads("A") == [b"before", b"1"]
    assert group["A"].payloads("B") == [b"2"]


@pytest.mark.conforms("SEQ-15")
def test_duplicates_are_recognised_after_their_origin_has_left_and_returned() -> None:
    group = Group("ABC")
    group["C"].send(b"m")
    group.settle()
    group.change_view("AB")
    assert group["A"].sequencer.statistics().tombstones == 1
    group.change_view("ABC")
    group.do("A", Up(Frame(address("C"), address("A"), (Forward(),), group["C"].sent[0])))
    group.settle()
    assert [group[name].delivered for name in "AB"] == [[("C", b"m")]] * 2


@pytest.mark.conforms("SEQ-15")
def test_those_that_left_are_remembered_up_to_a_bound_and_the_first_that_left_is_forgotten_first() -> None:
    sequencer = sequencer_of("A", SequencerConfig(tombstones_max=2))
    sequencer.up(ViewInstalled(view_of(1, "ABCDE"), None), 0.0)
    for origin in "EDCB":
        sequencer.up(Frame(address("A"), None, (Sequenced(),), batch_of(origin, 1), False, 1), 0.0)
    for counter, names in enumerate(("ACDE", "ADE", "AE", "A"), 2):
        sequencer.up(ViewInstalled(view_of(counter, names), view_of(1, "ABCDE")), 0.0)
    assert sequencer.give_state() == SequencerState({address("D"): (2, 1), address("E"): (2, 1)})


def test_the_state_is_the_same_at_every_member_whatever_came_first() -> None:
    states = []
    for origins in ("BC", "CB"):
        sequencer = sequencer_of("A", SequencerConfig(order="fifo"))
        sequencer.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
        for origin in origins:
            entry = Frame(address(origin), None, (Sequenced(),), batch_of(origin, 1), False, 1)
            sequencer.up(entry, 0.0)
        states.append(list(sequencer.give_state().numbers))
    assert states == [[B, C], [B, C]]


def test_a_joiner_continues_from_the_others_numbers() -> None:
    group = Group("AB", ONE_EACH)
    group["B"].send(*numbers(1, 2, 3))
    group["B"].send(b"site", scope=Scope.SITE)
    group.settle()
    group.change_view("ABC")
    group["B"].send(*numbers(4))
    group["C"].send(b"c")
    group.settle()
    assert group["C"].payloads("B") == numbers(4)
    assert group["A"].payloads("C") == [b"c"]
    assert group["C"].drops == {}


def test_the_state_for_a_joiner_travels_as_bytes() -> None:
    state = SequencerState({address("B"): (4, 2), address("A"): (1, 7)})
    codec = Codec(SITE, Sequencer.HEADERS)
    assert codec.parse(codec.pack(state)) == state


# -- forwarding again on time ----------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-7", "SEQ-11")
def test_what_does_not_come_back_is_forwarded_again_in_order() -> None:
    group = Group("ABC", ONE_EACH)
    group.hold("B", "A")
    group["B"].send(*numbers(1, 2))
    group.settle()
    group.held["B", "A"].clear()  # lost for good, as when a connection is reset
    group.release("B", "A")
    group["B"].send(*numbers(3))
    group.settle()
    assert group["C"].drops == {"order_hole": 1}
    group.pass_time(1.9)
    assert group["C"].delivered == []
    group.pass_time(0.1)
    assert group["C"].payloads("B") == numbers(1, 2, 3)


def test_forwarding_again_slows_down_and_a_delivery_makes_it_eager_again() -> None:
    sequencer = sequencer_of("B")
    sequencer.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 1)), 0.0)
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 2)), 0.0)
    dues = []
    for _ in range(7):
        due = sequencer.deadline()
        assert due is not None
        dues.append(due)
        assert firsts(sequencer.expire(due)) == [1, 2]
    assert dues == [2.0, 6.0, 14.0, 30.0, 62.0, 94.0, 126.0]
    sequencer.up(Frame(address("A"), None, (Sequenced(),), batch_of("B", 1), False, 1), 130.0)
    assert sequencer.deadline() == 132.0
    assert sequencer.expire(131.0) == []
    assert firsts(sequencer.expire(132.0)) == [2]


def test_what_only_waits_for_credit_is_not_forwarded_again() -> None:
    sequencer = sequencer_of("B")
    sequencer.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    sequencer.down(Frame(address("B"), None, (), batch_of("B", 1)), 50.0)
    assert sequencer.deadline() == 52.0
    assert sequencer.up(Waiting(100), 51.0) == [Up(Waiting(100))]
    assert sequencer.deadline() is None
    sequencer.up(Waiting(0), 60.0)
    assert sequencer.deadline() == 62.0


# -- the layer above ---------------------------------------------------------------------------------------------------


def test_an_entry_of_the_layer_above_takes_its_place_in_the_stream_at_the_coordinator_only() -> None:
    group = Group("ABC")
    remote = Frame(address("A"), None, (Numbered(7, 7),), batch_of("Z", 5, site="SFO"))
    group["A"].send(b"m")
    group.turn(group["A"])
    down(group["A"], remote)
    group.settle()
    for name in "ABC":
        first, second = group[name].frames
        assert (first.batch, first.seqno) == (group["A"].sent[0], 1)
        assert (second.batch, second.seqno, second.source) == (remote.batch, 2, address("A"))
        assert second.headers == (Numbered(7, 7),)

    down(group["B"], replace(remote, source=address("B")))
    group.block("ABC")
    down(group["A"], remote)
    assert (group["B"].drops, group["A"].drops) == ({"not_coordinator": 1}, {"blocked": 1})


def test_what_stability_says_goes_on_to_the_layer_above() -> None:
    sequencer = sequencer_of("A")
    sequencer.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    stable = Stable({address("A"): 3})
    assert sequencer.up(stable, 0.0) == [Up(stable)]


# -- fifo ----------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-11")
def test_in_fifo_order_the_origin_casts_by_itself_and_sends_again_after_a_view() -> None:
    group = Group("ABC", FIFO)
    for name in "AC":
        group.hold("B", name)
    group["B"].send(*numbers(1, 2))
    group.settle()
    assert (group["B"].fake.casts, group["B"].fake.unicasts) == (2, 0)
    assert group["B"].payloads("B") == numbers(1, 2)
    assert table(group["B"]) == (0, 2)
    group.crash("A")
    group.change_view("CB")
    group.release("B", "C")
    group["B"].send(*numbers(3))
    group.settle()
    assert group["C"].payloads("B") == group["B"].payloads("B") == numbers(1, 2, 3)
    group.stable()
    assert table(group["B"]) == (0, 0)


def test_in_fifo_order_nobody_forwards_and_nobody_writes_into_anothers_stream() -> None:
    group = Group("ABC", FIFO)
    group.do("A", Up(Frame(address("B"), address("A"), (Forward(),), batch_of("B", 1))))
    group.do("A", Up(Frame(address("C"), None, (Sequenced(),), batch_of("B", 1), False, 1)))
    group.settle()
    assert group["A"].drops == {"forward_to_non_coordinator": 1, "not_in_the_stream": 1}
    assert group["A"].delivered == []


# -- what makes no sense ---------------------------------------------------------------------------------------------

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


def test_the_coordinator_drops_forwards_during_a_block_since_their_senders_still_hold_them() -> None:
    group = Group("ABC")
    group["B"].send(b"m")
    group.turn(group["B"])
    group.block("ABC")
    group.settle()
    assert group["A"].drops == {"blocked": 1}
    group.equalise("ABC")
    group.install("ABC")
    group.settle()
    assert group["C"].delivered == [("B", b"m")]


def test_sending_beyond_every_window_is_a_broken_invariant() -> None:
    sequencer = sequencer_of("B", SequencerConfig(undelivered_bytes_max=10))
    sequencer.down(Frame(B, None, (), batch_of("B", 1)), 0.0)
    with pytest.raises(AssertionError, match="S18"):
        sequencer.down(Frame(B, None, (), batch_of("B", 2)), 0.0)


# -- all together ----------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-10", "SEQ-11", "SEQ-12")
@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("seed", range(20))
def test_order_agreement_and_completeness_survive_random_crashes_and_delays(seed: int, order: str) -> None:
    rng = random.Random(seed)
    config = SequencerConfig(order="total" if order == "total" else "fifo")
    group = Group("ABCDE", Configs(BatchingConfig(batch_bytes_max=40, window_bytes=120), config))
    alive = "ABCDE"
    counts = dict.fromkeys(alive, 0)
    for _ in range(120):
        act = rng.random()
        name = rng.choice(alive)
        other = rng.choice(alive)
        if act < 0.35:
            for _ in range(rng.randrange(1, 6)):
                counts[name] += 1
                group[name].send(b"%d" % counts[name])
        elif act < 0.80:
            group.turn(group[name])
        elif act < 0.90:
            group.hold(name, other)
        elif act < 0.96:
            group.release(name, other)
        elif len(alive) > 2:
            crash = rng.choice([alive[0], name])
            group.crash(crash)
            alive = alive.replace(crash, "")
            group.change_view(alive)
    for link in list(group.held):
        group.release(*link)
    group.settle()
    for _ in range(10):
        group.pass_time(40.0)

    reference = group[alive[0]]
    for name in alive:
        assert group[name].payloads(name) == numbers(*range(1, counts[name] + 1)), "complete and in order"
        for sender in "ABCDE":
            assert group[name].payloads(sender) == reference.payloads(sender)
        if order == "total":
            assert group[name].delivered == reference.delivered
        assert group[name].sequencer.statistics().undelivered == 0


# -- helpers -----------------------------------------------------------------------------------------------------------


def sequencer_of(name: str, config: SequencerConfig | None = None) -> Sequencer:
    return Sequencer(Local(SITE, address(name), name, random.Random(0)), config or SequencerConfig())


def table(node: Node) -> tuple[int, int]:
    numbers = node.sequencer.statistics()
    assert bool(numbers.undelivered) is bool(numbers.undelivered_bytes)
    return numbers.undelivered, numbers.unstable


def firsts(effects: list[Effect]) -> list[int]:
    frames = [effect.event for effect in effects if isinstance(effect, Down) and isinstance(effect.event, Frame)]
    return [frame.batch.first for frame in frames if frame.batch is not None]


def down(node: Node, frame: Frame) -> None:
    """As the layer between Batching and Sequencer would."""
    node.stack.down(frame, 0.0)


def listen(group: Group, lines: list[str]) -> None:
    """Writes down what the sequencers say."""
    for name, node in group.nodes.items():

        def tap(layer: str, effect: Effect, name: str = name) -> None:
            said = effect.event if isinstance(effect, Up | Down) else effect
            if layer == "sequencer" and isinstance(said, Frame | Dropped):
                lines.append(f"{name} {story(effect)}")

        node.stack.tap = tap


def story(effect: Effect) -> str:
    if isinstance(effect, Dropped):
        return f"drops {effect.reason}"
    assert isinstance(effect, Up | Down)
    frame = effect.event
    assert isinstance(frame, Frame)
    assert frame.batch is not None
    payload = next(frame.batch.payloads()).decode()
    if isinstance(effect, Up):
        return f"delivers {payload}"
    if isinstance(frame.dest, Address):
        return f"says forward {payload} to {chr(frame.dest[0])}"
    return f"says cast {payload}"
