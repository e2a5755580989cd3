"""The replay window against a set of all counters: each is admitted once, and none that is too late."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.seal.replay_window import LATE_S, WINDOW, ReplayWindow


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=200), st.integers(0, 50))
def test_a_counter_is_admitted_once_and_only_within_the_window(counters: list[int], floor: int) -> None:
    window, seen, top = ReplayWindow(floor, 0.0), set[int](), floor - 1
    for counter in [each for one in counters for each in (one, one, max(one - 7, 1))]:
        late = counter < floor or counter <= top - WINDOW
        assert window.admit(counter, 0.0) == ("seal_late" if late else "seal_replayed" if counter in seen else "")
        seen.add(counter)
        top = max(top, counter)


def test_a_shuffled_stream_is_admitted_whole_and_its_copies_are_not() -> None:
    rng, window = random.Random(1), ReplayWindow(1, 0.0)
    # Pairs of neighbouring blocks overtake each other, so that nothing is late by more than a window.
    counters = [
        each
        for block in range(0, 4 * WINDOW, WINDOW // 2)
        for each in rng.sample(range(block + 1, block + WINDOW // 2 + 1), 900)
    ]
    assert [window.admit(each, 0.0) for each in counters] == [""] * len(counters)
    recent = counters[-900:]
    assert {window.admit(each, 0.0) for each in recent} == {"seal_replayed"}
    assert {window.admit(each, 0.0) for each in counters} == {"seal_replayed", "seal_late"}


@pytest.mark.parametrize("jump", [1, 7, 8, 9, 64, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 8, 10 * WINDOW])
def test_what_is_just_inside_passes_and_what_is_just_outside_does_not(jump: int) -> None:
    window = ReplayWindow(1, 0.0)
    assert window.admit(5, 0.0) == ""
    assert window.admit(5 + jump, 0.0) == ""
    assert window.admit(5, 0.0) == ("seal_replayed" if jump < WINDOW else "seal_late")
    if jump > 1:
        assert window.admit(5 + 1, 0.0) == ("" if jump - 1 < WINDOW else "seal_late")


def test_what_was_overtaken_a_minute_ago_is_late() -> None:
    window = ReplayWindow(1, 0.0)
    assert [window.admit(each, 0.0) for each in (1, 3, 10)] == ["", "", ""]
    assert window.admit(11, LATE_S) == ""
    assert window.admit(4, LATE_S + 1) == "", "it may still be on its way"
    assert window.admit(12, 2 * LATE_S) == ""
    assert window.admit(5, 2 * LATE_S) == "seal_late"
    assert window.admit(13, 2 * LATE_S) == ""
