"""NAKACK in a flush: survivors of a view deliver the same messages in it, whatever the dead had received (traps S5,
S6).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.layers.nakack.headers import Retransmit
from sitestack.layers.nakack.window import Window
from sitestack.model.address import Address
from sitestack.model.events import (
    Blocked,
    CutReached,
    DigestAnswer,
    DigestQuery,
    PathDoubt,
    ReachCut,
    Stable,
    Unblocked,
    ViewInstalled,
)
from sitestack.model.frame import Destination, Frame, Header
from sitestack.stack.layer import Down, Effect, Up
from sitestack.wire.size import frame_bytes
from tests.harness.addresses import address, view_of
from tests.harness.casters import V1, V2, A, B, C, Casters, X, cast_of, delivery_of, member_of_v1
from tests.harness.group import Member
from tests.harness.messages import frame_of, seqnos
from tests.harness.wire import Faults, keep, lose


def request_of(effect: Effect) -> tuple[Destination, Header]:
    """Return the target of a request, and its header."""
    assert isinstance(effect, Down)
    assert isinstance(effect.event, Frame)
    return effect.event.dest, effect.event.headers[-1]


# -- one machine -------------------------------------------------------------------------------------------------------


def blocked(config: NakAckConfig | None = None) -> NakAck:
    """The layer of B, whose first view is about to end."""
    layer = member_of_v1("B", config)
    layer.up(Blocked(), 0.0)
    return layer


def test_after_a_block_nothing_is_delivered_but_everything_is_kept() -> None:
    layer = member_of_v1("B")
    assert seqnos(layer.up(cast_of("A", 1), 0.0)) == [1]
    assert layer.up(Blocked(), 0.0) == []
    assert layer.up(cast_of("A", 2), 0.0) == []
    assert layer.up(cast_of("A", 4), 0.0) == []
    assert layer.down(DigestQuery(), 0.0) == [Up(DigestAnswer({A: 2, B: 0, C: 0}))]


def test_after_a_block_without_a_flush_held_frames_are_delivered_and_gaps_requested() -> None:
    layer = blocked()
    for seqno in (1, 2, 4):
        layer.up(cast_of("A", seqno), 0.0)
    assert seqnos(layer.up(Unblocked(), 1.0)) == [1, 2]
    (asked,) = layer.expire(1.1)
    assert request_of(asked) == (A, Retransmit(V1.id, A, ((3, 3),), False))
    assert seqnos(layer.up(cast_of("A", 3), 1.2)) == [3, 4]


def test_a_frame_that_waits_for_the_cut_is_kept_even_if_reported_stable() -> None:
    layer = blocked()
    layer.up(cast_of("A", 1), 0.0)
    layer.down(Stable({A: 1}), 0.0)
    assert layer.down(ReachCut({A: 1}, {A: A}), 0.0) == [delivery_of("A", 1), Up(CutReached())]


def test_the_cut_is_reached_exactly_and_once() -> None:
    layer = blocked()
    for seqno in (1, 2, 3):
        layer.up(cast_of("A", seqno), 0.0)
    assert layer.down(ReachCut({A: 2, C: 1}, {A: A, C: A}), 0.0)[:2] == [delivery_of("A", 1), delivery_of("A", 2)]
    assert layer.up(cast_of("C", 1), 0.0) == [delivery_of("C", 1), Up(CutReached())]
    assert layer.up(cast_of("C", 2), 0.0) == []
    assert layer.up(cast_of("A", 4), 0.0) == []
    assert layer.deadline() is None


def test_a_cut_that_is_reached_already_or_names_strangers_only_is_answered_at_once() -> None:
    layer = member_of_v1("B")
    layer.up(cast_of("A", 1), 0.0)
    layer.up(Blocked(), 0.0)
    assert layer.down(ReachCut({A: 1, X: 7}, {A: A, X: X}), 0.0) == [Up(CutReached())]
    assert layer.down(ReachCut({}, {}), 0.0) == [Up(CutReached())]


def test_missing_frames_of_the_cut_are_requested_at_once_from_the_holder_then_others() -> None:
    layer = blocked()
    layer.up(cast_of("A", 2), 0.0)
    (request,) = layer.down(ReachCut({A: 3}, {A: C}), 1.0)
    assert request_of(request) == (C, Retransmit(V1.id, A, ((1, 1), (3, 3)), False))
    asked: list[Destination] = []
    for _ in range(4):
        due = layer.deadline()
        assert due is not None
        sent = [each for each in layer.expire(due) if each != Down(PathDoubt(C if len(asked) % 2 else A, True))]
        asked.append(request_of(sent[0])[0])
    assert asked == [A, C, A, C]


def test_frames_beyond_the_cut_are_not_requested() -> None:
    layer = blocked()
    layer.down(ReachCut({C: 1}, {C: C}), 0.0)
    layer.up(cast_of("A", 3), 0.0)
    assert [request_of(effect) for effect in layer.expire(1.0)] == [(A, Retransmit(V1.id, C, ((1, 1),), False))]


def test_a_cut_beyond_the_window_is_reached() -> None:
    layer = blocked(NakAckConfig(window_count_max=2))
    layer.down(ReachCut({A: 4}, {A: C}), 0.0)
    effects = [effect for seqno in (1, 2, 3, 4) for effect in layer.up(cast_of("A", seqno), 0.0)]
    assert effects == [*[delivery_of("A", seqno) for seqno in (1, 2, 3, 4)], Up(CutReached())]


def test_a_digest_query_voids_the_cut_that_is_being_reached() -> None:
    """The holder of 3 may have died meanwhile: the next cut may be 2, and 3 must not have been delivered by then."""
    layer = member_of_v1("B")
    layer.up(cast_of("A", 1), 0.0)
    layer.up(Blocked(), 0.0)
    layer.down(ReachCut({A: 3}, {A: C}), 0.0)
    assert seqnos(layer.up(cast_of("A", 2), 0.0)) == [2]
    assert layer.down(DigestQuery(), 0.0) == [Up(DigestAnswer({A: 2, B: 0, C: 0}))]
    assert layer.up(cast_of("A", 3), 0.0) == []
    assert layer.down(ReachCut({A: 2}, {A: B}), 0.0) == [Up(CutReached())]


def test_a_later_cut_replaces_the_one_that_is_being_reached() -> None:
    layer = blocked()
    layer.down(ReachCut({A: 1}, {A: C}), 0.0)
    layer.down(ReachCut({A: 2}, {A: C}), 0.0)
    assert seqnos(layer.up(cast_of("A", 1), 0.0)) == [1]
    assert layer.up(cast_of("A", 2), 0.0) == [delivery_of("A", 2), Up(CutReached())]


def test_frames_beyond_the_cut_are_never_delivered_and_the_next_view_starts_at_one() -> None:
    layer = blocked()
    for seqno in (1, 2):
        layer.up(cast_of("A", seqno), 0.0)
    layer.down(ReachCut({A: 1}, {A: A}), 0.0)
    assert layer.up(cast_of("A", 1, counter=2), 0.0) == []
    assert layer.up(ViewInstalled(V2, V1), 0.0) == [delivery_of("A", 1)]
    assert seqnos(layer.up(cast_of("A", 2, counter=2), 0.0)) == [2]


def test_a_view_that_is_installed_within_a_flush_stays_blocked() -> None:
    """A member that had only prepared a view which others have installed catches up; the flush continues."""
    layer = blocked()
    layer.up(cast_of("A", 1, counter=2), 0.0)
    assert layer.up(ViewInstalled(V2, V1, blocked=True), 0.0) == []
    assert layer.down(DigestQuery(), 0.0) == [Up(DigestAnswer({A: 1, B: 0, C: 0}))]
    assert layer.down(ReachCut({A: 1}, {A: A}), 0.0) == [delivery_of("A", 1), Up(CutReached())]


def test_a_digest_or_a_cut_outside_of_a_flush_is_a_bug_of_ours() -> None:
    layer = member_of_v1("B")
    with pytest.raises(AssertionError):
        layer.down(DigestQuery(), 0.0)
    with pytest.raises(AssertionError):
        layer.down(ReachCut({}, {}), 0.0)


# -- many members, many deaths -----------------------------------------------------------------------------------------


class Flush:
    """A leader outside of the group that runs the flush of the survivors by hand."""

    def __init__(self, group: Casters) -> None:
        self.group = group

    def digests(self) -> dict[str, dict[Address, int]]:
        """Ask every living member for its digest."""
        answers = {}
        for member in list(self.group.living()):
            self.group.down(member.name, DigestQuery())
            answers[member.name] = member.of(DigestAnswer)[-1].digest
            assert isinstance(member.events[-1], DigestAnswer)
        return answers

    @staticmethod
    def cut(answers: dict[str, dict[Address, int]], rng: random.Random) -> tuple[dict[Address, int], dict[Address, Address]]:
        """Return, per stream, the longest prefix of any member, and a holder."""
        cut: dict[Address, int] = {}
        holders: dict[Address, Address] = {}
        for owner in next(iter(answers.values())):
            cut[owner] = max(digest[owner] for digest in answers.values())
            holders[owner] = address(rng.choice([name for name in answers if answers[name][owner] == cut[owner]]))
        return cut, holders

    def reached(self, member: Member) -> bool:
        """Whether this member has reported it exactly once since the request."""
        asked = max(at for at, event in enumerate(member.events) if isinstance(event, DigestAnswer))
        said = member.events[asked:].count(CutReached())
        assert said <= 1
        return said == 1


@pytest.mark.parametrize("seed", range(25))
def test_survivors_deliver_the_same_prefix_of_every_stream(seed: int) -> None:
    """Up to two members die at any moment, one of them during the flush, on a wire that loses up to 40 %."""
    rng = random.Random(seed)
    names = "ABCDE"[: rng.randrange(3, 6)]
    group = Casters(names, seed, Faults(rng.choice([0.0, 0.1, 0.4]), rng.choice([0.0, 0.5]), spread_s=0.03))
    flush = Flush(group)
    group.install(view_of(1, names))
    for _ in range(rng.randrange(40)):
        group.send(rng.choice(names), rng.randrange(1, 6))
        group.run(rng.random() * 0.02)
    group[rng.choice(names)].alive = False
    for member in list(group.living()):
        group.down(member.name, Blocked())
        if rng.random() < 0.5:
            group.run(rng.random() * 0.05)
    cut, holders = flush.cut(flush.digests(), rng)
    for member in list(group.living()):
        group.down(member.name, ReachCut(cut, holders))
    if len(names) > 3 and rng.random() < 0.7:
        group.run(rng.random() * 0.05)
        group[rng.choice([member.name for member in group.living()])].alive = False
        before = {member.name: member.in_view() for member in group.living()}
        cut, holders = flush.cut(flush.digests(), rng)
        group.run(0.1)
        assert before == {member.name: member.in_view() for member in group.living()}, "delivered without a cut"
        for member in list(group.living()):
            group.down(member.name, ReachCut(cut, holders))
    group.run(30.0)
    for member in group.living():
        assert flush.reached(member), (seed, member.name)
        for owner in names:
            assert member.firsts(owner) == list(range(1, cut[address(owner)] + 1)), (seed, member.name, owner)
    survivors = "".join(member.name for member in group.living())
    for member in list(group.living()):  # one by one: the first send in the new view before the last has installed it
        group.install(view_of(2, survivors), member.name)
        member.sent = 0
        group.send(member.name, 3)
        group.run(rng.random() * 0.01)
    group.run(20.0)
    for member in group.living():
        assert all(member.firsts(owner) == [1, 2, 3] for owner in survivors), (seed, member.name)


STORY = """\
  10 ms B -> C: Retransmit(view=(1|A), sender=A, ranges=((3, 4),), in_vain=False)
  11 ms C -> B: Cast(view=(1|A), sender=A, seqno=3)
  11 ms C -> B: Cast(view=(1|A), sender=A, seqno=4)"""


@pytest.mark.conforms("SEQ-23", "SEQ-24")
def test_survivors_deliver_each_message_up_to_the_first_gap_and_none_beyond() -> None:
    """S5, S6: A's 3 and 4 reached only C, its 6 only B; then A dies. The cut is 4."""
    group = Casters("ABC")
    group.install(V1)
    group.send("A", 2)

    def send_to(receivers: str) -> None:
        group.wire.rule = lose(lambda packet: packet.dest not in receivers)
        group.send("A")

    for receivers in ("C", "C", "", "B"):
        send_to(receivers)
    group["A"].alive = False
    group.wire.rule = keep
    group.run(0.01)
    group.story()
    for name in "BC":
        group.down(name, Blocked())
    flush = Flush(group)
    answers = flush.digests()
    assert answers == {"B": {A: 2, B: 0, C: 0}, "C": {A: 4, B: 0, C: 0}}
    cut, holders = flush.cut(answers, random.Random(0))
    for name in "BC":
        group.down(name, ReachCut(cut, holders))
    group.run(0.01)
    assert flush.reached(group["B"])
    assert flush.reached(group["C"])
    assert [group[name].firsts("A") for name in "BC"] == [[1, 2, 3, 4]] * 2
    assert group.story() == STORY


STEPS = st.lists(st.tuples(st.sampled_from(["add", "take", "purge", "expect"]), st.integers(0, 30)), max_size=80)


@given(STEPS)
def test_a_window_delivers_received_frames_in_order_once_and_reports_missing_ones(
    steps: list[tuple[str, int]],
) -> None:
    window, received, taken, stable, known = Window(20, 1 << 20), {0}, 0, 0, 0
    for step, number in steps:
        contiguous = next(n for n in range(100) if n + 1 not in received)
        if step == "add":
            frame = replace(frame_of("A", 1), seqno=number)
            refused = window.add(frame, frame_bytes(frame))
            expected = "nak_duplicate" if number in received else "nak_window" if number > stable + 20 else None
            assert refused == expected
            if refused is None:
                received.add(number)
            known = max(known, min(number, stable + 20))
        elif step == "take":
            frames = window.deliver_to(number)
            assert [frame.seqno for frame in frames] == list(range(taken + 1, min(number, contiguous) + 1))
            taken = max(taken, min(number, contiguous))
        elif step == "purge":
            window.purge(number)
            stable = max(stable, min(number, taken))
        else:
            window.expect(number)
            known = max(known, min(number, stable + 20))
        contiguous = next(n for n in range(100) if n + 1 not in received)
        assert (window.stable, window.delivered, window.contiguous, window.highest) == (stable, taken, contiguous, known)
        assert sorted(window.frames) == sorted(n for n in received if n > stable)
        assert window.ahead_bytes == sum(frame_bytes(window.frames[n]) for n in received if n > contiguous)
        missing = [n for first, last in window.missing(known, 100, 100) for n in range(first, last + 1)]
        assert missing == [n for n in range(1, known + 1) if n not in received]
