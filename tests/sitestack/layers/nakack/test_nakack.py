"""NAKACK over a lossy wire: reliable, in order, once; from any holder; within bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.layers.nakack.headers import RANGES_MAX, Cast, Highest, Retransmit
from sitestack.layers.stability import StabilityConfig
from sitestack.model.events import Blocked, PathDoubt, Stable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import view_of
from tests.harness.casters import V1, V2, A, B, C, Casters, X, cast_of, delivery_of, member_of_v1, nakack_of
from tests.harness.messages import frame_of, present, seqnos
from tests.harness.wire import Faults, keep, lose

V3 = view_of(3, "ABC")


def requests(group: Casters) -> int:
    """How many requests to retransmit B has sent."""
    frames = [frame for packet in group.wire.sent if packet.source == "B" for frame in packet.frames]
    return sum(frame.top(Retransmit) is not None for frame in frames)


# -- one machine -------------------------------------------------------------------------------------------------------


def test_a_multicast_is_numbered_sent_and_handed_up_at_once() -> None:
    layer = member_of_v1("A")
    for n in (1, 2):
        assert layer.down(frame_of("A", n), 0.0) == [Down(cast_of("A", n)), delivery_of("A", n)]


def test_unicasts_and_unreliable_multicasts_pass() -> None:
    layer = member_of_v1("A")
    for frame in (replace(frame_of("A", 1), dest=B), replace(frame_of("A", 1), unreliable=True)):
        assert layer.down(frame, 0.0) == [Down(frame)]
        assert layer.up(frame, 0.0) == [Up(frame)]


def test_a_multicast_before_the_first_view_or_during_a_flush_is_a_bug_of_ours() -> None:
    layer = nakack_of("A")
    with pytest.raises(AssertionError):
        layer.down(frame_of("A", 1), 0.0)
    layer.up(ViewInstalled(V1, None), 0.0)
    layer.up(Blocked(), 0.0)
    with pytest.raises(AssertionError):
        layer.down(frame_of("A", 1), 0.0)


def test_out_of_order_frames_wait_for_their_turn_and_duplicates_are_counted() -> None:
    layer = member_of_v1("B")
    assert layer.up(cast_of("A", 3), 0.0) == []
    assert layer.up(cast_of("A", 2), 0.0) == []
    assert layer.up(cast_of("A", 3), 0.0) == [Dropped("nak_duplicate")]
    assert layer.up(cast_of("A", 1), 0.0) == [delivery_of("A", n) for n in (1, 2, 3)]
    assert layer.up(cast_of("A", 2), 0.0) == [Dropped("nak_duplicate")]
    assert layer.deadline() is None


def test_frames_of_strangers_and_copies_of_own_frames_are_dropped() -> None:
    layer = member_of_v1("B")
    assert layer.up(frame_of("X", 1).push(Cast(V1.id, X, 1)), 0.0) == [Dropped("nak_stranger")]
    assert layer.up(cast_of("B", 1), 0.0) == [Dropped("nak_duplicate")]
    assert layer.up(cast_of("A", 0), 0.0) == [Dropped("nak_duplicate")]
    assert layer.up(Frame(X, None, (Highest(V1.id, 5),), None, True), 0.0) == [Dropped("nak_stranger")]
    assert layer.up(Frame(X, B, (Retransmit(V1.id, B, ((1, 1),), False),), None, True), 0.0) == [Dropped("nak_stranger")]


def test_a_gap_is_requested_after_a_delay_then_less_often_from_all_members() -> None:
    """After two rounds without success the owner and another member are asked in each, the second for the head of
    the gap.
    """
    config = NakAckConfig(ask_delay_s=0.02, ask_interval_s_max=0.3)
    layer = member_of_v1("B", config)
    layer.up(cast_of("A", 30), 0.0)
    asked: list[tuple[float, list[Effect]]] = []
    while len(asked) < 8:
        now = present(layer.deadline())
        asked.append((now, layer.expire(now)))
    for turn, (_, effects) in enumerate(asked):
        members = [A, C] if turn % 2 == 0 else [C, A]
        requests = [Retransmit(V1.id, A, ranges, turn >= 3) for ranges in (((1, 29),), ((1, 16),))]
        both = [Down(Frame(B, dest, (each,), None, True)) for dest, each in zip(members, requests, strict=True)]
        doubt: list[Effect] = [Down(PathDoubt(members[0], True))] if turn >= 3 else []
        assert effects == doubt + (both if turn >= 2 else both[:1])
    pauses = [later - earlier for (earlier, _), (later, _) in pairwise(asked)]
    expected = [0.04, 0.08, 0.16, 0.3, 0.3, 0.3, 0.3]
    assert 0.015 <= asked[0][0] <= 0.025
    assert all(0.75 * wait <= pause <= 1.25 * wait for pause, wait in zip(pauses, expected, strict=True))
    layer.up(cast_of("A", 1), asked[-1][0])
    due = present(layer.deadline())
    assert len(layer.expire(due)) == 1, "it comes forward again"


def test_a_member_whose_requests_are_in_vain_doubts_the_path_to_their_holder() -> None:
    """F51: on a dead network they never arrive, so that no other member can notice."""
    layer, doubted = member_of_v1("B", NakAckConfig(doubt_s=0.3)), set()
    layer.up(cast_of("A", 2), 0.0)
    while (due := layer.deadline()) is not None and due < 2.0:
        sent = [each.event for each in layer.expire(due) if isinstance(each, Down)]
        doubts = {each.member for each in sent if isinstance(each, PathDoubt)}
        assert not doubts or due >= 0.3
        assert doubts <= {each.dest for each in sent if isinstance(each, Frame)}
        doubted |= doubts
    assert doubted == {A, C}


def test_a_newly_noticed_gap_is_not_requested_before_its_delay() -> None:
    """F3: frames that overtake each other cause no requests."""
    layer = member_of_v1("B")
    layer.up(cast_of("A", 2), 0.0)
    due = present(layer.deadline())
    layer.up(cast_of("A", 5), due)
    (first,) = layer.expire(due)
    assert first == Down(Frame(B, A, (Retransmit(V1.id, A, ((1, 1),), False),), None, True))
    assert seqnos(layer.up(cast_of("A", 1), due + 0.001)) == [1, 2]
    again = present(layer.deadline())
    assert again - due <= 0.03
    assert layer.expire(again) == [Down(Frame(B, A, (Retransmit(V1.id, A, ((3, 4),), False),), None, True))]


@pytest.mark.parametrize(
    ("config", "count"), [(NakAckConfig(ask_count_max=50), 50), (NakAckConfig(), RANGES_MAX)], ids=["numbers", "a datagram"]
)
def test_a_request_is_bounded_and_names_the_lowest_numbers_first(config: NakAckConfig, count: int) -> None:
    layer = member_of_v1("B", config)
    for seqno in range(2, 400, 2):
        layer.up(cast_of("A", seqno), 0.0)
    (effect,) = layer.expire(1.0)  # only numbers known when the gap was noticed
    assert effect == Down(Frame(B, A, (Retransmit(V1.id, A, ((1, 1),), False),), None, True))
    (effect,) = layer.expire(2.0)
    assert effect == Down(
        Frame(B, C, (Retransmit(V1.id, A, tuple((n, n) for n in range(1, 2 * count, 2)), False),), None, True)
    )


@pytest.mark.conforms("SEQ-8")
def test_a_retransmission_by_a_third_member_is_the_same_frame_and_keeps_its_owner() -> None:
    """A's multicast, retransmitted by C to B: only the wire source differs, and B delivers it as A's."""
    a, b, c = (member_of_v1(name) for name in "ABC")
    (sent, _) = a.down(frame_of("A", 1), 0.0)
    assert sent == Down(cast_of("A", 1))
    assert c.up(cast_of("A", 1), 0.0) == [delivery_of("A", 1)]
    request = Frame(B, C, (Retransmit(V1.id, A, ((1, 1),), False),), None, True)
    answer = Down(replace(cast_of("A", 1), source=C, dest=B, unreliable=True))
    assert c.up(request, 0.1) == [answer]
    assert isinstance(answer.event, Frame)
    assert b.up(answer.event, 0.1) == [delivery_of("A", 1)]
    assert b.up(replace(request, source=C, dest=B), 0.2) == [Down(replace(cast_of("A", 1), source=B, dest=C, unreliable=True))]


def test_a_storm_of_requests_is_answered_once_a_period_and_within_the_budget() -> None:
    """C15: a request answered again and again would multiply the traffic that caused it."""
    layer = member_of_v1("A", NakAckConfig(answer_period_s=0.005, answer_bytes_max=3_000))
    for n in range(1, 6):
        layer.down(frame_of("A", n, 1_000), 0.0)
    request = Frame(B, A, (Retransmit(V1.id, A, ((1, 2), (2, 2)), False),), None, True)
    everything = Frame(C, A, (Retransmit(V1.id, A, ((1, 1 << 62),), False),), None, True)
    assert len(layer.up(request, 1.0)) == 2
    assert layer.up(request, 1.004) == []
    assert layer.up(everything, 1.004)[-1] == Dropped("nak_busy")
    assert len(layer.up(everything, 1.004)) == 1
    assert len(layer.up(request, 1.0051)) == 2
    assert layer.statistics().retransmitted == 5


def test_an_answer_covers_a_bounded_count_of_numbers() -> None:
    layer = member_of_v1("A", NakAckConfig(ask_count_max=10))
    for n in range(1, 101):
        layer.down(frame_of("A", n), 0.0)
    hostile = Retransmit(V1.id, A, ((1, 4), (-5, 4), (1 << 62, 1), (50, 1 << 62), (1, 100)), False)
    assert len(layer.up(Frame(B, A, (hostile,), None, True), 0.0)) == 4 + 2


def test_stable_frames_are_discarded_and_not_retransmitted() -> None:
    layer = member_of_v1("B")
    for seqno in (1, 2, 3, 5):
        layer.up(cast_of("A", seqno), 0.0)
    assert layer.down(Stable({A: 2, X: 9}), 0.0) == []
    assert layer.levels()["window_count"].now == 2
    effects = layer.up(Frame(C, B, (Retransmit(V1.id, A, ((1, 9),), False),), None, True), 0.0)
    assert [effect.event.headers[-1] for effect in effects if isinstance(effect, Down) and isinstance(effect.event, Frame)] == [
        Cast(V1.id, A, 3),
        Cast(V1.id, A, 5),
    ]
    layer.down(Stable({A: 5}), 0.0)  # more than was delivered here cannot be: nothing that waits is forgotten
    assert layer.levels()["window_count"].now == 1
    assert seqnos(layer.up(cast_of("A", 4), 0.0)) == [4, 5]
    layer.down(Stable({A: 5}), 0.0)
    assert [name for name, level in layer.levels().items() if level.now] == []


def test_the_window_is_bounded_by_count_and_by_bytes_and_recovers() -> None:
    """B1: frames beyond the window are dropped, counted, and requested again when there is room."""
    layer = member_of_v1("B", NakAckConfig(window_count_max=4, ahead_bytes_max=3_000))
    assert layer.up(cast_of("A", 5), 0.0) == [Dropped("nak_window")]
    assert layer.up(cast_of("A", 1 << 60), 0.0) == [Dropped("nak_window")]
    assert layer.up(cast_of("A", 2, size=1_000), 0.0) == []
    assert layer.up(cast_of("A", 4, size=1_000), 0.0) == []
    assert layer.up(cast_of("A", 3, size=1_000), 0.0) == [Dropped("nak_window")]
    assert seqnos(layer.up(cast_of("A", 1, size=9_000), 0.0)) == [1, 2]  # no bound on bytes without a hole
    assert layer.expire(1.0) == [Down(Frame(B, A, (Retransmit(V1.id, A, ((3, 3),), False),), None, True))]
    assert seqnos(layer.up(cast_of("A", 3, size=1_000), 2.0)) == [3, 4]
    assert layer.up(cast_of("A", 5), 2.0) == [Dropped("nak_window")]
    layer.down(Stable({A: 1}), 2.0)
    assert seqnos(layer.up(cast_of("A", 5), 2.0)) == [5]


def test_frames_of_a_later_view_wait_for_exactly_that_view() -> None:
    layer = nakack_of("B")
    for counter, seqno in ((1, 1), (2, 1), (2, 3), (3, 1)):
        assert layer.up(cast_of("A", seqno, counter), 0.0) == []
    assert layer.up(ViewInstalled(V2, None), 0.0) == [Dropped("nak_old_view"), delivery_of("A", 1)]
    assert seqnos(layer.up(cast_of("A", 2, 2), 0.0)) == [2, 3]
    assert layer.up(cast_of("A", 2, 1), 0.0) == [Dropped("nak_old_view")]
    assert seqnos(layer.up(ViewInstalled(V3, V2), 0.0)) == [1]
    assert layer.levels()["later_bytes"].now == 0


def test_requests_and_announcements_of_other_views_are_dropped() -> None:
    layer = member_of_v1("B")
    for header in (Highest(V2.id, 3), Retransmit(V2.id, A, ((1, 1),), False)):
        assert layer.up(Frame(A, None, (header,), None, True), 0.0) == [Dropped("nak_other_view")]
        assert nakack_of("B").up(Frame(A, None, (header,), None, True), 0.0) == [Dropped("nak_other_view")]


@pytest.mark.parametrize("bound", [NakAckConfig(later_count_max=3), NakAckConfig(later_bytes_max=500)])
def test_the_frames_of_later_views_are_bounded_and_the_earliest_view_gives_way(bound: NakAckConfig) -> None:
    """A joiner under load hears the view that it is not in; that must not push out the first frames of the one it joins."""
    layer = nakack_of("B", bound)
    for seqno in (1, 2, 3):
        assert layer.up(cast_of("A", seqno, 1), 0.0) == []
    assert layer.up(cast_of("A", 4, 1), 0.0) == [Dropped("nak_later_view", 1)]
    assert layer.up(cast_of("A", 1, 2), 0.0) == [Dropped("nak_later_view", 1)]
    assert layer.up(cast_of("A", 5, 1), 0.0) == [Dropped("nak_later_view", 1)]
    assert layer.up(cast_of("A", 1, 3), 0.0) == [Dropped("nak_later_view", 1)]
    assert layer.up(ViewInstalled(V2, None), 0.0) == [Dropped("nak_old_view"), delivery_of("A", 1)]
    assert seqnos(layer.up(ViewInstalled(V3, V2), 0.0)) == [1]


def test_a_new_view_ends_requests_and_announcements_of_the_last_one() -> None:
    layer = member_of_v1("A")
    layer.down(frame_of("A", 1), 0.0)
    layer.up(cast_of("B", 2), 0.0)
    layer.up(ViewInstalled(V2, V1), 0.0)
    assert layer.deadline() is None
    assert layer.expire(60.0) == []


# -- a lossy wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2, 0.4])
def test_every_stream_arrives_complete_in_order_and_once_over_a_faulty_wire(loss: float) -> None:
    """F1, F2, F3: loss up to 40 %, half of everything twice, windows of frames out of order."""
    for seed in range(5):
        group = Casters("ABC", seed, Faults(loss, duplication=0.5, spread_s=0.05, late_s=1.0))
        group.install(V1)
        for _ in range(60):
            group.send(group.rng.choice("ABC"), group.rng.randrange(1, 8))
            group.run(group.rng.random() * 0.02)
        group.run(20.0)
        for member in group.living():
            for owner in "ABC":
                assert member.firsts(owner) == list(range(1, group[owner].sent + 1)), (seed, member.name, owner)


def test_reordering_alone_causes_no_requests() -> None:
    """F3: no spurious requests while nothing is lost."""
    group = Casters("AB", 3, Faults(spread_s=0.014))
    group.install(view_of(1, "AB"))
    for _ in range(200):
        group.send("A")
        group.run(0.001)
    group.run(1.0)
    assert group["B"].firsts("A") == list(range(1, 201))
    assert requests(group) == 0


def test_a_third_holder_retransmits_when_the_sender_is_dead() -> None:
    """All members keep everything: B, which got only the last of A's messages, gets the others from C."""
    group = Casters("ABC")
    group.install(V1)
    group.wire.rule = lose(lambda packet: packet.dest == "B")
    group.send("A", 2)
    group.wire.rule = keep
    group.send("A")
    group.run(0.005)
    group["A"].alive = False
    assert (group["B"].firsts("A"), group["C"].firsts("A")) == ([], [1, 2, 3])
    group.run(0.2)
    assert group["B"].firsts("A") == [1, 2, 3]
    assert requests(group) == 2
    assert group["C"].layer(NakAck).statistics().retransmitted == 2


# -- one member's flood --------------------------------------------------------------------------------------------------


def test_endless_requests_by_one_member_do_not_block_retransmission_to_another() -> None:
    """In the first period it may use up the budget; in the next one it has the share of one of two."""
    layer = member_of_v1("A", NakAckConfig(answer_period_s=0.005, answer_bytes_max=3_000))
    for n in range(1, 21):
        layer.down(frame_of("A", n, 1_000), 0.0)
    greedy = Frame(B, A, (Retransmit(V1.id, A, ((1, 20),), False),), None, True)
    modest = Frame(C, A, (Retransmit(V1.id, A, ((20, 20),), False),), None, True)
    assert len(layer.up(greedy, 1.0)) == 3 + 1
    assert layer.up(modest, 1.001) == [Dropped("nak_busy")]
    assert len(seqnos_sent(layer.up(greedy, 1.0055))) == 2
    assert seqnos_sent(layer.up(modest, 1.006)) == [20]
    assert seqnos_sent(layer.up(greedy, 1.007)) == []


def seqnos_sent(effects: list[Effect]) -> list[int]:
    return [each.event.headers[-1].seqno for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)]  # type: ignore[attr-defined]


def test_frames_of_views_that_never_come_evict_no_frames_of_other_members() -> None:
    layer = nakack_of("B", NakAckConfig(later_count_max=10))
    for seqno in (1, 2, 3):
        assert layer.up(cast_of("A", seqno, 2), 0.0) == []
    for n in range(100):
        layer.up(cast_of("C", n + 1, 1_000 + n), 0.0)
    assert layer.levels()["later_count"].now <= 10
    assert seqnos(layer.up(ViewInstalled(V2, None), 0.0)) == [1, 2, 3]


# -- the highest number of a stream is announced when its sender falls silent and when it is stuck -------------------------


def test_a_quiet_sender_announces_its_highest_number_until_all_is_stable() -> None:
    """B5: once everything is stable it is silent."""
    layer = member_of_v1("A", NakAckConfig(quiet_interval_s=0.1, quiet_interval_s_max=0.3, stuck_interval_s=60.0))
    layer.down(frame_of("A", 1), 0.0)
    layer.down(frame_of("A", 2), 0.05)
    said = [0.05]
    for _ in range(4):
        due = present(layer.deadline())
        assert layer.expire(due) == [Down(Frame(A, None, (Highest(V1.id, 2),), None, True))]
        said.append(due)
    now = said[-1]
    layer.down(frame_of("A", 3), now)
    for pause in (0.1, 0.2):
        now += pause
        assert layer.deadline() == pytest.approx(now)
        assert layer.expire(now + 1e-9) == [Down(Frame(A, None, (Highest(V1.id, 3),), None, True))]
    pauses = [later - earlier for earlier, later in pairwise(said)]
    assert pauses == pytest.approx([0.1, 0.2, 0.3, 0.3])
    layer.down(Stable({A: 1}), now)
    assert layer.deadline() == pytest.approx(now + 0.1)
    layer.down(Stable({A: 3}), now)
    assert layer.deadline() is None


def test_a_sender_of_whose_stream_nothing_becomes_stable_announces_it_to_each_by_unicast_however_busy_it_is() -> None:
    """Some member may receive unicasts only: it sees no hole, and the sender is never quiet."""
    layer = member_of_v1("B", NakAckConfig(quiet_interval_s=0.1, stuck_interval_s=1.0))
    said: list[tuple[int, Effect]] = []
    for n in range(1, 101):
        now = n * 0.05
        said += [(n, effect) for effect in layer.expire(now)]
        layer.down(frame_of("B", n), now)
        if n == 50:
            layer.down(Stable({B: 30}), now)
    expected = [(21, 20), (41, 40), (70, 69), (90, 89)]
    assert said == [(n, Down(Frame(B, to, (Highest(V1.id, last),), None, True))) for n, last in expected for to in (A, C)]
    layer.down(Stable({B: 100}), 5.0)
    assert layer.deadline() is None


def test_a_quiet_sender_that_is_stuck_announces_to_each_member_by_unicast() -> None:
    layer = member_of_v1("A", NakAckConfig(quiet_interval_s=0.1, quiet_interval_s_max=1.0, stuck_interval_s=1.0))
    layer.down(frame_of("A", 1), 0.0)
    story: list[tuple[float, list[object]]] = []
    while len(story) < 6:
        due = present(layer.deadline())
        dests = [each.event.dest for each in layer.expire(due) if isinstance(each, Down) and isinstance(each.event, Frame)]
        story.append((round(due, 3), list(dests)))
    assert story == [(0.1, [None]), (0.3, [None]), (0.7, [None]), (1.0, [B, C]), (2.0, [B, C]), (3.0, [B, C])]


def test_a_member_alone_announces_nothing() -> None:
    layer = nakack_of("A")
    layer.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    layer.down(frame_of("A", 1), 0.0)
    assert layer.deadline() is None


# -- on a wire -----------------------------------------------------------------------------------------------------------


LAST_MESSAGE_STORY = """\
 100 ms A -> all: Highest(view=(1|A), seqno=5)
 121 ms B -> A: Retransmit(view=(1|A), sender=A, ranges=((5, 5),), in_vain=False)
 122 ms A -> B: Cast(view=(1|A), sender=A, seqno=5)"""


def test_a_lost_last_message_is_recovered_within_two_intervals_without_further_traffic() -> None:
    """F1: the last message of a burst arrives within 2 x interval."""
    config = NakAckConfig(quiet_interval_s=0.1)
    group = Casters("ABC", nakack=config)
    group.install(V1)
    group.send("A", 4)
    group.wire.rule = lose(lambda packet: packet.dest == "B")
    group.send("A")
    group.wire.rule = keep
    group.story()
    group.run(2 * config.quiet_interval_s)
    assert [group[name].firsts("A") for name in "ABC"] == [[1, 2, 3, 4, 5]] * 3
    assert group.story() == LAST_MESSAGE_STORY


def test_a_member_that_receives_only_unicasts_delivers_all_messages() -> None:
    group = Casters("ABC", stability=StabilityConfig())
    group.wire.rule = lose(lambda packet: packet.dest == "C" and any(frame.dest is None for frame in packet.frames))
    group.install(V1)
    for _ in range(200):
        group.send("A")
        group.send("B")
        group.run(0.02)
    assert len(group["C"].firsts("A")) > 100, "while the others are busy, too"
    group.run(3.0)
    assert [member.firsts(owner) for member in group.living() for owner in "AB"] == [list(range(1, 201))] * 6
    before = len(group.wire.sent)
    group.run(60.0)
    assert len(group.wire.sent) == before
