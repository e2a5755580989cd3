"""STABLE: messages that all members have are dropped, a second holder is known soon, and an idle site is silent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sitestack.config import DATAGRAM_BYTES_MIN
from sitestack.layers.fragment import FragmentConfig
from sitestack.layers.stability import Prompt, Stability, StabilityConfig, StabilityReport, StableVector
from sitestack.model.address import Address
from sitestack.model.events import Held, Stable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up
from sitestack.wire.codec import Codec
from tests.harness.addresses import SITE, address, local_of, view_of
from tests.harness.casters import V1, V2, A, B, C, Casters, X
from tests.harness.group import Member
from tests.harness.messages import frame_of, frames_in
from tests.harness.wire import Faults


def member_of_v1(name: str, config: StabilityConfig | None = None, prompt: Prompt = "second in line") -> Stability:
    layer = Stability(local_of(name), config or StabilityConfig(), prompt)
    assert layer.up(ViewInstalled(V1, None), 0.0) == []
    return layer


def delivered(owner: str, seqno: int, size: int = 20) -> Frame:
    """A multicast as NAKACK delivers it."""
    return replace(frame_of(owner, seqno, size), seqno=seqno)


def report(source: Address, digest: dict[Address, int], known: int = 0) -> Frame:
    return Frame(source, A, (StabilityReport(V1.id, digest, known),), None, True)


def vector(vector: dict[Address, int], dest: Address | None = None) -> Frame:
    return Frame(A, dest, (StableVector(V1.id, vector),), None, True)


def becomes_stable(vector: dict[Address, int]) -> list[Effect]:
    return [Down(Stable(vector)), Up(Stable(vector))]


# -- the member --------------------------------------------------------------------------------------------------------


def test_a_member_reports_while_something_is_not_stable_and_then_no_more() -> None:
    layer = member_of_v1("C")
    assert layer.deadline() is None
    assert layer.up(delivered("A", 4), 0.0) == [Up(delivered("A", 4))]
    assert layer.up(delivered("B", 2), 0.0) == [Up(delivered("B", 2))]
    assert layer.flush(0.0) == []
    for _ in range(3):
        due = layer.deadline()
        assert due is not None
        assert layer.expire(due) == [Down(report(C, {A: 4, B: 2}))]
    assert layer.up(vector({A: 4, B: 1}), 2.0) == becomes_stable({A: 4, B: 1})
    assert layer.expire(3.0) == [Down(report(C, {B: 2}, known=5))]
    assert layer.up(vector({A: 4, B: 2}), 4.0) == becomes_stable({A: 4, B: 2})
    assert layer.expire(5.0) == []
    assert layer.deadline() is None


def test_a_busy_member_reports_after_so_many_bytes() -> None:
    layer = member_of_v1("C", StabilityConfig(report_bytes=10_000))
    reports = [seqno for seqno in range(1, 31) if len(layer.up(delivered("A", seqno, 1_000), 0.0)) > 1]
    assert reports == [9, 18, 27]


def test_the_second_in_line_reports_once_a_turn_if_its_digest_moved() -> None:
    second, third = member_of_v1("B"), member_of_v1("C")
    for layer in (second, third):
        assert layer.up(delivered("A", 1), 0.0) == [Up(delivered("A", 1))]
        assert layer.up(delivered("A", 2), 0.0) == [Up(delivered("A", 2))]
    assert second.flush(0.0) == [Down(report(B, {A: 2}))]
    assert second.flush(0.1) == []
    assert third.flush(0.0) == []


def test_without_prompt_reports_the_second_member_waits_for_the_interval() -> None:
    second = member_of_v1("B", prompt="nobody")
    second.up(delivered("A", 1), 0.0)
    assert second.flush(0.0) == []
    assert second.expire(1.0) == [Down(report(B, {A: 1}))]


def test_where_every_delivery_waits_for_stability_no_interval_is_in_its_way() -> None:
    """Uniform agreement: all members report once a turn, and each minimum is published at once."""
    for name, source in (("B", B), ("C", C)):
        member = member_of_v1(name, prompt="everybody")
        member.up(delivered("A", 1), 0.0)
        assert member.flush(0.0) == [Down(report(source, {A: 1}))]
    coordinator = member_of_v1("A", prompt="everybody")
    for n in (1, 2):
        coordinator.up(delivered("A", n), 0.0)
        for source in (B, C):
            coordinator.up(report(source, {A: n}), 0.0)
        assert Down(vector({A: n})) in coordinator.flush(0.0)


def test_only_advances_of_the_stable_vector_are_reported() -> None:
    layer = member_of_v1("B")
    layer.up(delivered("A", 9), 0.0)
    assert layer.up(vector({A: 5}), 0.0) == becomes_stable({A: 5})
    assert layer.up(vector({A: 5}), 0.0) == []
    assert layer.up(vector({A: 3}), 0.0) == []
    assert layer.up(vector({A: 7, X: 4}), 0.0) == becomes_stable({A: 7})


def test_vectors_of_other_views_and_of_anybody_but_the_coordinator_are_dropped() -> None:
    layer = member_of_v1("B")
    assert layer.up(replace(vector({A: 5}), source=C), 0.0) == [Dropped("stable_stranger")]
    assert layer.up(Frame(A, None, (StableVector(V2.id, {A: 5}),), None, True), 0.0) == [Dropped("stable_other_view")]


# -- the coordinator ---------------------------------------------------------------------------------------------------


def test_the_coordinator_publishes_the_minimum_when_it_advances() -> None:
    layer = member_of_v1("A")
    layer.up(delivered("A", 9), 0.0)
    assert not layer._moved, "an own multicast is not stable before others report it"
    layer.up(report(B, {A: 5, B: 2}), 0.0)
    assert layer.flush(0.0) == []  # C has not reported yet
    layer.up(report(C, {A: 7, B: 3}), 0.0)
    assert layer.flush(0.0) == [*becomes_stable({A: 5}), Down(vector({A: 5}))]
    layer.up(delivered("B", 3), 1.0)  # it is behind itself until now
    assert layer.flush(1.0) == [*becomes_stable({A: 5, B: 2}), Down(vector({A: 5, B: 2}))]
    layer.up(report(B, {A: 9}, known=7), 2.0)
    layer.up(report(B, {A: 6}, known=7), 2.0)  # an older one, late
    layer.up(report(C, {A: 8}, known=7), 2.0)
    assert layer.flush(2.0) == [*becomes_stable({A: 8, B: 2}), Down(vector({A: 8, B: 2}))]
    assert layer.levels()["unstable_count"].now == 2


def test_a_vector_that_was_put_off_is_published_without_further_input() -> None:
    layer = member_of_v1("A", StabilityConfig(vector_interval_s=0.02))
    layer.up(delivered("A", 9), 0.0)
    for now, seqno in ((0.0, 5), (0.001, 9)):
        layer.up(report(B, {A: seqno}), now)
        layer.up(report(C, {A: seqno}), now)
        assert bool(layer.flush(now)) == (seqno == 5)
    assert layer.deadline() == 0.02
    assert layer.expire(0.02) == [*becomes_stable({A: 9}), Down(vector({A: 9}))]
    assert layer.deadline() is None


def test_vectors_are_published_at_most_once_an_interval() -> None:
    layer = member_of_v1("A", StabilityConfig(vector_interval_s=0.02))
    layer.up(delivered("A", 99), 0.0)
    sent = []
    for turn in range(1, 100):
        now = turn * 0.001
        layer.up(report(B, {A: turn}, turn), now)
        layer.up(report(C, {A: turn}, turn), now)
        due = layer.deadline()
        effects = layer.flush(now) + (layer.expire(now) if due is not None and due <= now else [])
        sent += [now for effect in effects if isinstance(effect, Down) and isinstance(effect.event, Frame)]
    assert sent == pytest.approx([0.001, 0.021, 0.041, 0.061, 0.081])


def test_a_member_that_missed_the_last_vector_is_sent_it_again() -> None:
    layer = member_of_v1("A")
    layer.up(delivered("A", 9), 0.0)
    layer.up(report(B, {A: 9}), 0.0)
    layer.up(report(C, {A: 9}), 0.0)
    layer.flush(0.0)
    assert layer.up(report(C, {A: 9}), 0.01) == []  # it was under way when the vector was published
    assert layer.up(report(C, {A: 9}), 1.0) == [Down(vector({A: 9}, C))]
    assert layer.up(report(C, {A: 9}, known=9), 1.0) == []


def test_a_member_one_vector_behind_is_sent_the_last_one_again_only_after_a_delay() -> None:
    """A busy member reports that all the time, as unread vectors wait behind earlier frames."""
    layer = member_of_v1("A", StabilityConfig(vector_interval_s=0.02, report_interval_s=0.25))
    layer.up(delivered("A", 99), 0.0)
    for now, seqno in ((0.0, 5), (0.1, 9)):
        layer.up(report(B, {A: seqno}, 5), now)
        layer.up(report(C, {A: seqno}, 5), now)
        assert Down(vector({A: seqno})) in layer.flush(now)
    assert layer.up(report(B, {A: 9}, known=5), 0.2) == [], "the last one may be on its way"
    assert layer.up(report(C, {A: 9}, known=4), 0.2) == [Down(vector({A: 9}, C))], "the one before is lost"
    assert layer.up(report(B, {A: 9}, known=5), 0.36) == [Down(vector({A: 9}, B))], "so is the last one"


def test_held_covers_messages_that_at_least_one_other_member_has() -> None:
    layer = member_of_v1("A")
    layer.up(delivered("A", 9), 0.0)
    assert layer.up(report(B, {A: 5}), 0.0) == [Up(Held({A: 5}))]
    assert layer.up(report(C, {A: 3, C: 1}), 0.0) == [Up(Held({A: 5, C: 1}))]
    assert layer.up(report(C, {A: 5, X: 6}), 0.0) == []
    assert layer.up(report(C, {A: 6}), 0.0) == [Up(Held({A: 6, C: 1}))]


def test_reports_of_strangers_of_other_views_and_to_others_are_dropped() -> None:
    layer = member_of_v1("A")
    assert layer.up(report(X, {A: 5}), 0.0) == [Dropped("stable_stranger")]
    assert layer.up(Frame(B, A, (StabilityReport(V2.id, {A: 5}, 0),), None, True), 0.0) == [Dropped("stable_other_view")]
    assert member_of_v1("B").up(report(C, {A: 5}), 0.0) == [Dropped("stable_stranger")]


def test_a_member_alone_is_stable_and_held_at_the_end_of_the_turn() -> None:
    layer = member_of_v1("A")
    layer.up(ViewInstalled(view_of(2, "A"), V1), 0.0)
    layer.up(delivered("A", 3), 0.0)
    assert layer.flush(0.0) == [*becomes_stable({A: 3}), Up(Held({A: 3}))]
    assert layer.flush(0.0) == []
    assert layer.deadline() is None


def test_each_view_starts_again_at_nothing() -> None:
    layer = member_of_v1("B")
    layer.up(delivered("A", 9), 0.0)
    layer.up(vector({A: 9}), 0.0)
    layer.up(ViewInstalled(V2, V1), 0.0)
    assert layer.deadline() is None
    assert layer.flush(0.0) == []
    layer.up(delivered("A", 1), 0.0)
    assert layer.flush(0.0) == [Down(Frame(B, A, (StabilityReport(V2.id, {A: 1}, 0),), None, True))]


# -- with NAKACK, on a lossy wire --------------------------------------------------------------------------------------


def retained(group: Casters) -> list[int]:
    """Return the frames in each member's NAKACK."""
    return [member.stack.levels()["nakack.retained_bytes"].now for member in group.living()]


def last(member: Member, kind: type[Stable] | type[Held]) -> dict[Address, int]:
    """The last vector of this kind that came out of a member's stack; all of them must grow."""
    newest: dict[Address, int] = {}
    for event in member.events:
        if isinstance(event, kind):
            assert all(event.vector.get(owner, 0) >= seqno for owner, seqno in newest.items())
            newest = event.vector
    return newest


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.4])
def test_everything_becomes_stable_is_forgotten_everywhere_and_then_there_is_silence(loss: float) -> None:
    """B3, B5, F1: after the last message all buffers empty without further traffic, and an idle site is silent."""
    for seed in range(4):
        group = Casters("ABCD", seed, Faults(loss, 0.2, spread_s=0.02), stability=StabilityConfig())
        group.install(view_of(1, "ABCD"))
        for _ in range(50):
            group.send(group.rng.choice("ABC"), group.rng.randrange(1, 5))
            group.run(group.rng.random() * 0.05)
        group.run(30.0)
        everything = {address(name): group[name].sent for name in "ABC"}
        assert retained(group) == [0, 0, 0, 0]
        assert all(last(member, Stable) == everything for member in group.living())
        assert last(group["A"], Held) == everything
        before = len(group.wire.sent)
        group.run(60.0)
        assert len(group.wire.sent) == before


def test_frames_in_pieces_become_stable_when_they_are_whole_everywhere() -> None:
    """A frame that was put together again counts as its last piece."""
    group = Casters("ABC", 9, Faults(0.2, 0.2, spread_s=0.02), stability=StabilityConfig(), fragment=FragmentConfig(1_000))
    group.install(V1)
    for size in (20, 10_000, 700, 2_500, 30_000, 4_000):
        group.send("A", 1, size)
        group.send("B", 1, size)
        group.run(0.01)
    group.run(30.0)
    assert all(member.firsts(owner) == [1, 2, 3, 4, 5, 6] for member in group.living() for owner in "AB")
    assert retained(group) == [0, 0, 0]
    pieces = 1 + 11 + 1 + 3 + 33 + 5
    assert [last(member, Stable) for member in group.living()] == [{A: pieces, B: pieces}] * 3
    before = len(group.wire.sent)
    group.run(60.0)
    assert len(group.wire.sent) == before


MEMBERS = tuple(Address(bytes([n]) * 16) for n in range(100))
VIEW = View(ViewId(1 << 40, MEMBERS[0]), ViewId(1 << 40, MEMBERS[0]), MEMBERS, tuple(map(str, range(100))))
CODEC = Codec(SITE, Stability.HEADERS)
#: More than the largest number that any member reaches in a view.
FAR = 1 << 40


def member_that_delivered(rank: int, owners: tuple[Address, ...]) -> Stability:
    """A member of the view to which each of these has sent so much."""
    layer = Stability(Local(SITE, MEMBERS[rank], "", random.Random(1)), StabilityConfig())
    layer.up(ViewInstalled(VIEW, None), 0.0)
    for owner in owners:
        layer.up(replace(frame_of("A", 1), source=owner, seqno=FAR), 0.0)
    return layer


def frames_of(effects: list[Effect]) -> list[Frame]:
    return frames_in(effects, Down)


def test_reports_and_vectors_about_a_hundred_streams_fit_into_the_smallest_datagrams() -> None:
    coordinator, member = member_that_delivered(0, MEMBERS), member_that_delivered(1, MEMBERS)
    reports = frames_of(member.expire(1.0))
    assert max(len(CODEC.encode_frame(frame)) for frame in reports) <= DATAGRAM_BYTES_MIN // 2
    for reporter in MEMBERS[1:]:
        for frame in reports:
            coordinator.up(replace(frame, source=reporter), 1.0)
    effects = coordinator.flush(1.0)
    assert effects[0] == Down(Stable(dict.fromkeys(MEMBERS, FAR)))
    vectors = frames_of(effects)
    assert max(len(CODEC.encode_frame(frame)) for frame in vectors) <= DATAGRAM_BYTES_MIN // 2
    for frame in vectors:
        member.up(frame, 1.0)
    assert member.expire(2.0) == []
    assert member.deadline() is None


def test_a_member_that_missed_one_frame_of_the_last_vector_is_sent_all_its_frames() -> None:
    owners = MEMBERS[:20]
    coordinator, member = member_that_delivered(0, owners), member_that_delivered(1, owners)
    digest = dict.fromkeys(owners, FAR)
    for reporter in MEMBERS[1:]:
        coordinator.up(Frame(reporter, MEMBERS[0], (StabilityReport(VIEW.id, digest, 0),), None, True), 0.0)
    first, second = frames_of(coordinator.flush(0.0))
    member.up(second, 0.0)
    (report,) = frames_of(member.expire(1.0))
    again = frames_of(coordinator.up(report, 1.0))
    assert again == [replace(frame, dest=MEMBERS[1]) for frame in (first, second)]
    for frame in again:
        member.up(frame, 1.0)
    assert member.expire(2.0) == []
