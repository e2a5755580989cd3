"""Bounds: levels, fair shares of a buffer, and rate limits."""

from sitestack.model.fair_hold import FairHold
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.rate_limit import RateLimit
from tests.harness.addresses import address


def test_a_level_counts_its_content_and_records_its_maximum() -> None:
    level = Level(10)
    for amount in (4, 3):
        level.add(amount)
    level.now -= 6
    level.add(2)
    assert (level.now, level.high, level.bound) == (3, 7, 10)


def test_there_is_room_up_to_the_bound_and_without_one_always() -> None:
    level = Level.of(7, 10)
    assert level.fits(3)
    assert not level.fits(4)
    assert Level.of(1 << 60, None).fits(1)
    assert [Level.of(now, bound).is_over for now, bound in ((10, 10), (11, 10), (1 << 60, None))] == [False, True, False]


def test_a_nonempty_level_is_at_rest_only_with_a_reason() -> None:
    assert Level.of(0, 10).is_at_rest
    assert not Level.of(1, 10).is_at_rest
    assert Level.of(1, 10, "they are remembered").is_at_rest


A, B, C = map(address, "ABC")


def frame(source: object, n: int = 1) -> Frame:
    return Frame(source, None, (), None, False, n)  # type: ignore[arg-type]


def sizes(frame: Frame) -> int:
    return frame.seqno


def test_frames_come_out_in_the_order_of_their_arrival() -> None:
    held = FairHold(10, 100, sizes)
    frames = [frame(A, 3), frame(B, 2), frame(A, 1)]
    assert [held.hold(each) for each in frames] == [0, 0, 0]
    assert (held.count.now, held.bytes.now) == (3, 6)
    assert held.take_all() == frames
    assert (held.count.now, held.bytes.now, held.take_all()) == (0, 0, [])


def test_a_flood_gives_way_to_the_frames_of_others() -> None:
    held = FairHold(10, 1_000, sizes)
    assert sum([held.hold(frame(A, n)) for n in range(1, 100)]) == 89
    assert [held.hold(frame(B, n)) for n in (1, 2, 3)] == [1, 1, 1]
    kept = held.take_all()
    assert [each.seqno for each in kept if each.source == A] == [1, 2, 3, 4, 5, 6, 7]
    assert [each.seqno for each in kept if each.source == B] == [1, 2, 3]


def test_of_a_senders_frames_the_last_one_of_the_lowest_key_gives_way() -> None:
    held = FairHold(4, 100, sizes)
    for n, key in ((1, 1), (2, 2), (3, 1), (4, 2)):
        assert held.hold(frame(A, n), (key, b"")) == 0
    assert [held.hold(frame(A, n), (key, b"")) for n, key in ((5, 1), (6, 2), (7, 3), (8, 1))] == [1, 1, 1, 1]
    assert [each.seqno for each in held.take_all()] == [2, 4, 6, 7]


def test_many_small_frames_count_as_much_as_few_large_ones() -> None:
    held = FairHold(10, 100, sizes)
    held.hold(frame(A, 60))
    assert sum([held.hold(frame(B)) for _ in range(20)]) == 11
    assert sorted(each.seqno for each in held.take_all() if each.source == A) == [60]


def test_a_frame_larger_than_the_bound_is_dropped_at_once() -> None:
    held = FairHold(10, 100, sizes)
    assert held.hold(frame(A, 5)) == 0
    assert held.hold(frame(B, 101)) == 1
    assert (held.take_all(), held.bytes.now) == ([frame(A, 5)], 0)


def test_each_key_is_allowed_once_per_interval() -> None:
    limit = RateLimit(1.0, 10)
    allowed = [(now, key) for now in range(10) for key in "ab" if limit.allow(key, now / 4 + (key == "b") / 8)]
    assert allowed == [(0, "a"), (0, "b"), (4, "a"), (4, "b"), (8, "a"), (8, "b")]


def test_at_the_bound_the_key_allowed_longest_ago_is_forgotten() -> None:
    limit = RateLimit(1.0, 2)
    assert limit.allow("a", 0.0)
    assert limit.allow("b", 0.5)
    assert limit.allow("a", 1.0)
    assert limit.allow("c", 1.1)
    assert limit.level("remembered").now == 2
    assert not limit.allow("a", 1.2)
    assert limit.allow("b", 1.2)
