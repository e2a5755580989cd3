from __future__ import annotations

from sitestack.model.level import Level


def test_a_level_counts_what_is_in_it_and_remembers_the_most() -> None:
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


def test_what_is_not_empty_is_not_at_rest_unless_there_is_a_reason() -> None:
    assert Level.of(0, 10).is_at_rest
    assert not Level.of(1, 10).is_at_rest
    assert Level.of(1, 10, "they are remembered").is_at_rest
