"""The sequencer's memory of each origin: when members leave, join, return, or when a split site merges."""

from __future__ import annotations

import pytest

from sitestack.layers.batching import BatchingConfig
from sitestack.layers.sequencer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState
from sitestack.model.events import ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.stack.layer import Up
from sitestack.wire.codec import Codec
from tests.harness.addresses import SITE, address, view_of
from tests.harness.messages import batch_of, numerals
from tests.harness.ordered import Configs, OrderedGroup, sequencer_of

A, B, C = map(address, "ABC")
ONE_EACH = Configs(batching=BatchingConfig(batch_count_max=1))


@pytest.mark.conforms("SEQ-15")
def test_duplicates_are_recognised_after_their_origin_has_left_and_returned() -> None:
    group = OrderedGroup("ABC")
    group.send("C", b"m")
    group.settle()
    group.change_view("AB")
    assert group["A"].layer(Sequencer).levels()["tombstones"].now == 1
    group.change_view("ABC")
    group.do("A", Up(Frame(address("C"), address("A"), (Forward(),), group.sent("C")[0])))
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
    assert sequencer.give_state() == SequencerState({address("D"): (2, 1), address("E"): (2, 1), address("A"): (1, 1)})


@pytest.mark.conforms("SEQ-9")
def test_the_state_is_the_same_at_every_member_whatever_came_first() -> None:
    states = []
    for origins in ("BC", "CB"):
        sequencer = sequencer_of("A", SequencerConfig(order="fifo"))
        sequencer.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)
        for origin in origins:
            entry = Frame(address(origin), None, (Sequenced(),), batch_of(origin, 1), False, 1)
            sequencer.up(entry, 0.0)
        states.append(list(sequencer.give_state().numbers))
    assert states == [[address("A"), B, C], [address("A"), B, C]]


@pytest.mark.conforms("SEQ-9")
def test_a_joiner_continues_from_the_others_numbers() -> None:
    group = OrderedGroup("AB", ONE_EACH)
    group.send("B", *numerals(1, 2, 3))
    group.send("B", b"site", scope=Scope.SITE)
    group.settle()
    group.change_view("ABC")
    group.send("B", *numerals(4))
    group.send("C", b"c")
    group.settle()
    assert group["C"].payloads("B") == numerals(4)
    assert group["A"].payloads("C") == [b"c"]
    assert group["C"].drops == {}


@pytest.mark.conforms("SEQ-9")
def test_the_state_for_a_joiner_travels_as_bytes() -> None:
    state = SequencerState({address("B"): (4, 2), address("A"): (1, 7)})
    codec = Codec(SITE, Sequencer.HEADERS)
    assert codec.parse(codec.pack(state)) == state


# -- merges ------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-20")
@pytest.mark.parametrize("parts", [("AB", "CD"), ("CD", "AB")], ids=["AB first", "CD first"])
def test_after_a_split_and_a_merge_nobody_delivers_twice_and_every_origin_sees_its_own(parts: tuple[str, str]) -> None:
    group = OrderedGroup("ABCD", ONE_EACH)
    for name in "ABCD":
        group.send(name, *numerals(1))
    group.settle()
    for name in "CD":
        group.wire.hold("A", name)
    group.send("C", *numerals(2, 3))  # delivered by A and B only, before the split
    group.settle()
    group.split("AB", "CD")
    group.wire.hold("D", "C")
    group.send("D", *numerals(2))  # on its way when the parts merge
    group.send("A", *numerals(2, 3))
    group.settle()
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
        assert group.table(name)[0] == 0
        assert "order_hole" not in group[name].drops


@pytest.mark.conforms("SEQ-20", "SEQ-9")
@pytest.mark.parametrize("before", [0, 2])
def test_what_the_other_part_alone_has_delivered_still_reaches_its_origin_after_the_merge(before: int) -> None:
    group = OrderedGroup("ABC", ONE_EACH)
    for payload in numerals(*range(before)):
        group.send("C", payload)
    group.settle()
    group.wire.hold("A", "C")
    group.send("C", b"by A and B")
    group.settle()
    assert group["B"].payloads("C")[-1] == b"by A and B"
    group.block("ABC")
    group.next_view("AB")
    group.next_view("C", blocked=True)  # it gets to sequence nothing before the merge
    assert group.table("C") == (1, 0)
    group.merge("AB", "C")
    group.send("C", b"last")
    group.settle()
    for name in "ABC":
        assert group[name].payloads("C") == [*numerals(*range(before)), b"by A and B", b"last"]
        assert group.table(name)[0] == 0
