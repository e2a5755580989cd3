"""Attempts that came to nothing are made less and less often, and no list of them grows without end."""

from __future__ import annotations

from sitestack.layers.membership.backoff import Backoff


def waits_after(backoff: Backoff, key: str, now: float) -> float:
    """How long an attempt waits that fails now, to the tenth of a second."""
    backoff.failed(key, now)
    return next(tenth / 10 for tenth in range(1_000) if not backoff.waits(key, now + tenth / 10))


def test_each_failure_doubles_the_wait_up_to_a_bound() -> None:
    backoff = Backoff(1.0, 5.0, 8)
    assert not backoff.waits("A", 0.0)
    assert [waits_after(backoff, "A", now) for now in (0.0, 1.0, 3.0, 7.0, 12.0)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert not backoff.waits("B", 12.0)


def test_an_answer_makes_the_next_attempt_at_once_and_the_next_failure_the_first() -> None:
    backoff = Backoff(1.0, 5.0, 8)
    backoff.failed("A", 0.0)
    backoff.failed("A", 1.0)
    backoff.forget("A")
    assert not backoff.waits("A", 1.0)
    assert waits_after(backoff, "A", 2.0) == 1.0


def test_a_failure_long_ago_counts_no_more() -> None:
    backoff = Backoff(1.0, 5.0, 8)
    backoff.failed("A", 0.0)
    assert waits_after(backoff, "A", 6.0) == 2.0
    assert waits_after(backoff, "A", 8.0 + 5.0 + 0.1) == 1.0


def test_beyond_the_bound_the_one_that_failed_longest_ago_is_forgotten() -> None:
    backoff = Backoff(10.0, 10.0, 2)
    for now, key in enumerate("ABAC"):
        backoff.failed(key, float(now))
    assert len(backoff) == 2
    assert [backoff.waits(key, 4.0) for key in "ABC"] == [True, False, True]
