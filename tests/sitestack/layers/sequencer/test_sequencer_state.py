"""The sequencer's memory of each origin: when members leave, join, return, or when a split site merges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.batching import BatchingConfig
from sitestack.layers.sequencer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState
from sitestack.layers.sequencer.layer import ForwardAgain
from sitestack.model.events import Blocked, Unblocked, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from sitestack.model.view import SubView
from sitestack.stack.layer import Down, Dropped, Up
from sitestack.wire.codec import Codec
from tests.harness.addresses import SITE, address, view_of
from tests.harness.messages import batch_of, numerals
from tests.harness.ordered import Configs, Numbered, OrderedGroup, sequencer_of

A, B, C = map(address, "ABC")
ONE_EACH = Configs(batching=BatchingConfig(batch_count_max=1))


@pytest.mark.conforms("SEQ-15")
def test_duplicates_are_recognised_after_their_origin_has_left_and_returned() -> None:
    group = OrderedGroup("ABC")
    group.say("C", b"m")
    group.change_view("AB")
    assert group["A"].layer(Sequencer).levels()["tombstones"].now == 1
    group.change_view("ABC")
    group.do("A", Up(Frame(address("C"), address("A"), (Forward(),), group.sent("C")[0])))
    group.settle()
    assert [group[name].delivered for name in "AB"] == [[("C", b"m")]] * 2


@pytest.mark.conforms("SEQ-15")
def test_those_that_left_are_remembered_up_to_a_bound_and_the_first_that_left_is_forgotten_first() -> None:
    sequencer = sequencer_of("A", SequencerConfig(tombstones_max=2), view="ABCDE")
    for origin in "EDCB":
        sequencer.up(Frame(address("A"), None, (Sequenced(),), batch_of(origin, 1), False, 1), 0.0)
    for counter, names in enumerate(("ACDE", "ADE", "AE", "A"), 2):
        sequencer.up(ViewInstalled(view_of(counter, names), view_of(1, "ABCDE")), 0.0)
    assert sequencer.give_state() == SequencerState({address("D"): (2, 1), address("E"): (2, 1), address("A"): (1, 1)})


@pytest.mark.conforms("SEQ-9")
def test_the_state_is_the_same_for_any_order_of_arrival() -> None:
    states = []
    for origins in ("BC", "CB"):
        sequencer = sequencer_of("A", SequencerConfig(order="fifo"), view="ABC")
        for origin in origins:
            entry = Frame(address(origin), None, (Sequenced(),), batch_of(origin, 1), False, 1)
            sequencer.up(entry, 0.0)
        states.append(list(sequencer.give_state().numbers))
    assert states == [[address("A"), B, C], [address("A"), B, C]]


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_continues_from_the_others_numbers() -> None:
    group = OrderedGroup("AB", ONE_EACH)
    group.send("B", *numerals(1, 2, 3))
    group.say("B", b"site", scope=Scope.SITE)
    group.change_view("ABC")
    group.send("B", *numerals(4))
    group.say("C", b"c")
    assert group["C"].payloads("B") == numerals(4)
    assert group["A"].payloads("C") == [b"c"]
    assert group["C"].drops == {}


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_forgets_those_that_left_in_the_same_order_as_the_others() -> None:
    config = SequencerConfig(tombstones_max=2)
    elder, joiner = sequencer_of("A", config), sequencer_of("B", config)
    for counter, names in enumerate(("ACDE", "ACD", "AC", "AC"), 1):
        elder.up(ViewInstalled(view_of(counter, names), None), 0.0)
    joiner.take_state(elder.give_state())
    for sequencer in (elder, joiner):
        sequencer.up(ViewInstalled(view_of(5, "ABC"), None), 0.0)
        sequencer.up(ViewInstalled(view_of(6, "AB"), None), 0.0)
    assert list(joiner.give_state().numbers) == list(elder.give_state().numbers) == [address("D"), C, A, B]


@pytest.mark.conforms("SEQ-9")
def test_the_state_for_a_joiner_travels_as_bytes() -> None:
    state = SequencerState({address("B"): (4, 2), address("A"): (1, 7)})
    codec = Codec(SITE, Sequencer.HEADERS)
    assert codec.parse(codec.pack(state)) == state


# -- merges ------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-20")
@pytest.mark.parametrize("parts", [("AB", "CD"), ("CD", "AB")], ids=["AB first", "CD first"])
def test_a_split_and_a_merge_cause_no_duplicate_and_each_origin_delivers_its_own(parts: tuple[str, str]) -> None:
    """S12: a forward under way to the coordinator of the other part is sent again in the own part."""
    group = OrderedGroup("ABCD", ONE_EACH)
    for name in "ABCD":
        group.send(name, *numerals(1))
    group.settle()
    for name in "CD":
        group.wire.hold("A", name)
    group.say("C", *numerals(2, 3))  # delivered by A and B only, before the split
    group.split("AB", "CD")
    group.wire.hold("D", "C")
    group.send("D", *numerals(2))  # on its way when the parts merge
    group.say("A", *numerals(2, 3))
    assert group["B"].payloads("C") == numerals(1, 2, 3)
    assert group["C"].payloads("C") == numerals(1, 2, 3)

    group.merge(*parts)
    for name, n in (("A", 4), ("B", 2), ("C", 4), ("D", 3)):
        group.send(name, *numerals(n))
    group.settle()
    for name in "ABCD":
        assert group[name].payloads("B") == numerals(1, 2)
        assert group[name].payloads("C") == numerals(1, 2, 3, 4)
        assert group[name].payloads("D") == numerals(1, 2, 3)
        assert group[name].payloads("A") == (numerals(1, 2, 3, 4) if name in "AB" else numerals(1, 4))
        assert group.table(name) == 0
        assert "order_hole" not in group[name].drops


@pytest.mark.conforms("SEQ-20", "SEQ-9")
@pytest.mark.parametrize("before", [0, 2])
def test_a_message_delivered_only_in_the_other_part_reaches_its_origin_after_a_merge(before: int) -> None:
    group = OrderedGroup("ABC", ONE_EACH)
    for payload in numerals(*range(before)):
        group.send("C", payload)
    group.settle()
    group.wire.hold("A", "C")
    group.say("C", b"by A and B")
    assert group["B"].payloads("C")[-1] == b"by A and B"
    group.block("ABC")
    group.next_view("AB")
    group.next_view("C", blocked=True)  # it gets to sequence nothing before the merge
    assert group.table("C") == 1
    group.merge("AB", "C")
    group.say("C", b"last")
    for name in "ABC":
        assert group[name].payloads("C") == [*numerals(*range(before)), b"by A and B", b"last"]
        assert group.table(name) == 0


@pytest.mark.conforms("SEQ-20")
@pytest.mark.parametrize("then", ["", "a view", "a merge", "a death"])
def test_a_forward_from_before_a_merge_changes_the_place_of_a_batch_at_no_part(then: str) -> None:
    """A and B have delivered C's first message, and C has not: the second one would be the next to A and B, and a hole to C."""
    group = OrderedGroup("ABCDE", ONE_EACH)
    for name in "CDE":
        group.wire.hold("A", name)
    group.say("C", b"c1")
    group.block("ABCDE")
    for part in ("AB", "CD", "E"):
        group.next_view(part, blocked=part != "AB")
    group.send("C", b"c2")
    group.kill("D")
    if then != "a death":  # else D dies in the merge
        group.block("CD")
        group.next_view("C", blocked=True)
    group.merge("AB", "C")
    if then == "a view":
        group.change_view("ABC")
    if then == "a merge":
        group.merge("E", "ABC")
    coordinator = "E" if then == "a merge" else "A"
    group.wire.hold("C", coordinator)
    group.settle()
    forward = Frame(C, address(coordinator), (Forward(),), group.sent("C")[1])
    group.do(coordinator, Up(forward))
    group.say(coordinator, b"first")
    group.release("C", coordinator)
    group.settle()
    for name in "ABC":
        assert [each for each in group[name].delivered if each != ("C", b"c1")] == [(coordinator, b"first"), ("C", b"c2")]
        assert group[name].payloads("C") == [b"c1", b"c2"]


def merged(sequencer: Sequencer, counter: int, *parts: tuple[str, dict[str, tuple[int, int]]]) -> list[object]:
    """Let A merge with parts, of these members and with these tables; return its notices."""
    for _, table in parts:
        sequencer.merge_state(SequencerState({address(origin): numbers for origin, numbers in table.items()}))
    view = view_of(counter, "A" + "".join([names for names, _ in parts]))
    alone = [view_of(counter - 1, names) for names in ("A", *[names for names, _ in parts])]
    subviews = [SubView(each.id, each.members, each.lineage) for each in alone]
    effects = sequencer.up(ViewInstalled(replace(view, subviews=tuple(subviews)), view_of(counter - 1, "A")), 0.0)
    return [each.event for each in effects if isinstance(each, Up) and isinstance(each.event, Baseline | Gap)]


@pytest.mark.parametrize(("at_once", "known"), [(False, False), (False, True), (True, False)])
def test_messages_that_only_departed_members_delivered_are_delivered_when_their_origin_sends_them_again(
    at_once: bool, known: bool
) -> None:
    """Otherwise members of one view would deliver different messages: those of the origin's part, and the others not."""
    sequencer = sequencer_of("A", view="A")
    of_b, of_c = ("B", {"C": (4, 5), "B": (1, 1)}), ("C", {"C": (3, 4)})
    if at_once:
        news = merged(sequencer, 2, of_b, of_c)
        assert news == [Baseline(SITE, {C: 2}, scope=Scope.ALL), Baseline(SITE, {C: 3}, scope=Scope.SITE)]
    else:
        if known:
            merged(sequencer, 2, ("B", {"C": (1, 1), "B": (1, 1)}))
        news = merged(sequencer, 2, of_b)
        assert [type(each) for each in news] == [Baseline, Baseline], "never a gap: they may be sent again"
        sequencer.up(ViewInstalled(view_of(3, "A"), view_of(2, "AB")), 0.0)
        assert merged(sequencer, 4, of_c) == []
    sequencer.up(Unblocked(), 0.0)
    again = Frame(A, None, (Sequenced(),), batch_of("C", 3), False, 1)
    assert [type(each) for each in sequencer.up(again, 0.0)] == [Up]
    assert sequencer.up(again, 0.0) == [Dropped("duplicate")]


@pytest.mark.conforms("SEQ-20")
@pytest.mark.parametrize("tombstones_max", [1024, 0], ids=["remembered", "evicted"])
def test_a_member_that_has_delivered_a_message_or_its_gap_drops_it_when_its_origin_sends_it_again(tombstones_max: int) -> None:
    sequencer = sequencer_of("A", SequencerConfig(tombstones_max=tombstones_max), view="AC")
    for n in (1, 2, 3):
        sequencer.up(Frame(A, None, (Sequenced(),), batch_of("C", n), False, n), 0.0)
    sequencer.up(ViewInstalled(view_of(2, "A"), view_of(1, "AC")), 0.0)
    assert merged(sequencer, 3, ("B", {"C": (5, 1), "B": (1, 1)})) == [Gap(SITE, C, 4, 4, GapReason.OTHER_PART, Scope.ALL)]
    assert merged(sequencer, 4, ("C", {"C": (3, 1)})) == []
    assert sequencer.up(Frame(A, None, (Sequenced(),), batch_of("C", 3), False, 1), 0.0) == [Dropped("duplicate")]
    again = sequencer.up(Frame(A, None, (Sequenced(),), batch_of("C", 4), False, 2), 0.0)
    assert again == [Dropped("duplicate")], "it was told of a gap"


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_delivers_what_another_part_sends_again_as_its_elder_does() -> None:
    """Both know these numbers by a merge only; the joiner would drop the message that its elder delivers."""
    elder, joiner = sequencer_of("A", view="A"), sequencer_of("D")
    merged(elder, 2, ("B", {"C": (4, 5), "B": (1, 1)}))
    elder.up(ViewInstalled(view_of(3, "A"), view_of(2, "AB")), 0.0)
    joiner.take_state(elder.give_state())
    for each in (elder, joiner):
        each.up(ViewInstalled(view_of(4, "AD"), None), 0.0)
        each.merge_state(SequencerState({C: (3, 4)}))
        parts = tuple(SubView(one.id, one.members, one.lineage) for one in (view_of(4, "AD"), view_of(4, "C")))
        each.up(ViewInstalled(replace(view_of(5, "ADC"), subviews=parts), view_of(4, "AD")), 0.0)
        again = Frame(A, None, (Sequenced(),), batch_of("C", 3), False, 1)
        assert [type(effect) for effect in each.up(again, 0.0)] == [Up]


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_drops_what_its_elder_delivered_and_multicasts_nothing_ahead_of_it() -> None:
    """Its state contains C's first message, which C's part has not delivered yet."""
    elder, joiner = sequencer_of("A", view="AC"), sequencer_of("D")
    first, second = batch_of("C", 1), batch_of("C", 2)
    elder.up(Frame(A, None, (Sequenced(),), first, False, 1), 0.0)
    elder.up(ViewInstalled(view_of(2, "A"), view_of(1, "AC")), 0.0)
    merged(elder, 3, ("C", {"C": (1, 1)}))
    joiner.take_state(elder.give_state())
    joiner.up(ViewInstalled(view_of(4, "DC"), None), 0.0)
    d = address("D")
    assert joiner.up(Frame(C, d, (Forward(),), second), 0.0) == [Dropped("order_hole")]
    for batch, kind in ((first, Dropped), (second, Up)):
        assert [type(each) for each in joiner.up(Frame(C, d, (Forward(),), batch), 0.0)] == [Down]
        assert [type(each) for each in joiner.up(Frame(d, None, (Sequenced(),), batch, False, batch.first), 0.0)] == [kind]


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
    sequencer = sequencer_of("A", view="ABC")
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


def test_a_coordinator_unblocked_in_the_same_view_requests_dropped_forwards() -> None:
    """S22: no view follows a quarantine that has lasted too long, and the timer of a sender may have slowed down meanwhile."""
    coordinator, sender = [sequencer_of(name, view="ABC") for name in "AB"]
    coordinator.up(Blocked(quarantined=True), 0.0)
    (forward,) = sender.down(Frame(B, None, (), batch_of("B", 1)), 1.0)
    assert isinstance(forward, Down)
    assert coordinator.up(forward.event, 1.0) == [Dropped("blocked")]
    again = Frame(A, B, (ForwardAgain(),))
    assert coordinator.up(Unblocked(), 9.0) == [Up(Unblocked()), Down(again)], "C is not asked, which sent nothing"
    assert sender.up(again, 9.0) == [forward]
    assert sender.deadline() == 9.0 + SequencerConfig().resend_interval_s
    assert coordinator.up(Unblocked(), 9.1) == [Up(Unblocked())], "once"


def test_a_coordinator_requests_no_forward_dropped_before_a_new_view() -> None:
    coordinator = sequencer_of("A", view="AB")
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
