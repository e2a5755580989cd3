"""Held frames: one sender's flood displaces no other sender's frames."""

from __future__ import annotations

from sitestack.model.fair_hold import FairHold
from sitestack.model.frame import Frame
from tests.harness.addresses import address

A, B, C = map(address, "ABC")


def frame(source: object, n: int = 1) -> Frame:
    return Frame(source, None, (), None, False, n)  # type: ignore[arg-type]


def sizes(frame: Frame) -> int:
    return frame.seqno


def test_frames_come_out_in_the_order_of_their_arrival() -> None:
    held = FairHold(10, 100, sizes)
    frames = [frame(A, 3), frame(B, 2), frame(A, 1)]
    assert [held.hold(each) for each in frames] == [0, 0, 0]
    assert (len(held), held.bytes.now) == (3, 6)
    assert held.take_all() == frames
    assert (len(held), held.bytes.now, held.take_all()) == (0, 0, [])


def test_a_flood_gives_way_to_the_frames_of_others() -> None:
    held = FairHold(10, 1_000, sizes)
    assert sum([held.hold(frame(A, n)) for n in range(1, 100)]) == 89
    assert [held.hold(frame(B, n)) for n in (1, 2, 3)] == [1, 1, 1]
    kept = held.take_all()
    assert [each.seqno for each in kept if each.source == A] == [1, 2, 3, 4, 5, 6, 7]
    assert [each.seqno for each in kept if each.source == B] == [1, 2, 3]


def test_many_small_frames_count_as_much_as_few_large_ones() -> None:
    held = FairHold(10, 100, sizes)
    held.hold(frame(A, 60))
    assert sum([held.hold(frame(B)) for _ in range(20)]) == 11
    assert sorted(each.seqno for each in held.take_all() if each.source == A) == [60]


def test_what_is_larger_than_everything_is_given_up_at_once() -> None:
    held = FairHold(10, 100, sizes)
    assert held.hold(frame(A, 5)) == 0
    assert held.hold(frame(B, 101)) == 1
    assert (held.take_all(), held.bytes.now) == ([frame(A, 5)], 0)
