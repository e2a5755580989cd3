"""Key rings, and the window that refuses replayed datagrams."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KEYS_MAX, KeyRing, SiteKey
from sitestack.seal.replay_window import LATE_S, WINDOW, ReplayWindow

ONE, TWO = bytes(range(32)), bytes(range(1, 33))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=KEYS_MAX, unique=True))
def test_a_parsed_key_ring_equals_the_formatted_one(secrets: list[bytes]) -> None:
    ring = KeyRing.of(secrets[0])
    for secret in secrets[1:]:
        ring = ring.add(SiteKey(secret))
    ring = ring.use(SiteKey(secrets[-1]).id)
    assert KeyRing.parse(ring.format()) == ring
    assert KeyRing.parse(f"# a comment\n\n{ring.format()}") == ring


def test_a_key_is_added_used_and_the_other_removed() -> None:
    one, two = SiteKey(ONE), SiteKey(TWO)
    ring = KeyRing.of(ONE).add(two)
    assert (ring.in_use, set(ring.keys)) == (one.id, {one.id, two.id})
    with pytest.raises(ConfigurationError, match="is in use"):
        ring.remove(one.id)
    ring = ring.use(two.id).remove(one.id)
    assert (ring.in_use, set(ring.keys)) == (two.id, {two.id})
    with pytest.raises(ConfigurationError, match="has no key"):
        ring.use(one.id)
    with pytest.raises(ConfigurationError, match="already"):
        ring.add(two)


def test_a_ring_has_a_bound() -> None:
    ring = KeyRing.of(bytes(32))
    for number in range(1, KEYS_MAX):
        ring = ring.add(SiteKey(bytes([number]) * 32))
    with pytest.raises(ConfigurationError, match=f"{KEYS_MAX} keys already"):
        ring.add(SiteKey(ONE))
    line = f"key {SiteKey(ONE).id.hex()} {ONE.hex()}\n"
    with pytest.raises(ConfigurationError, match="at most"):
        KeyRing.parse(ring.format() + line)


@pytest.mark.parametrize("change", ["cut", "id", "use", "word", "size", "twice", "empty"])
def test_an_invalid_key_ring_is_refused_without_printing_the_key(change: str) -> None:
    text = KeyRing.of(ONE).format()
    use, key, _ = text.split("\n")
    damaged = {
        "cut": text[:-3],
        "id": f"{use}\nkey 00000000 {ONE.hex()}",
        "use": f"use 00000000\n{key}",
        "word": f"{use}\nkeys{key[3:]}",
        "size": f"{use}\n{key}00",
        "twice": f"{use}\n{use}\n{key}",
        "empty": "",
    }[change]
    with pytest.raises(ConfigurationError) as refused:
        KeyRing.parse(damaged)
    assert ONE.hex()[:8] not in str(refused.value)


def test_neither_key_nor_ring_shows_the_secret() -> None:
    ring = KeyRing.of(ONE)
    shown = f"{ring!r} {ring} {SiteKey(ONE)!r}"
    assert repr(ONE) not in shown
    assert ONE.hex() not in shown
    assert ONE[:4].hex() not in ring.in_use.hex()


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
def test_a_counter_just_inside_the_window_passes_and_one_just_outside_is_late(jump: int) -> None:
    window = ReplayWindow(1, 0.0)
    assert window.admit(5, 0.0) == ""
    assert window.admit(5 + jump, 0.0) == ""
    assert window.admit(5, 0.0) == ("seal_replayed" if jump < WINDOW else "seal_late")
    if jump > 1:
        assert window.admit(5 + 1, 0.0) == ("" if jump - 1 < WINDOW else "seal_late")


def test_a_counter_overtaken_a_minute_ago_is_late() -> None:
    window = ReplayWindow(1, 0.0)
    assert [window.admit(each, 0.0) for each in (1, 3, 10)] == ["", "", ""]
    assert window.admit(11, LATE_S) == ""
    assert window.admit(4, LATE_S + 1) == "", "it may still be on its way"
    assert window.admit(12, 2 * LATE_S) == ""
    assert window.admit(5, 2 * LATE_S) == "seal_late"
    assert window.admit(13, 2 * LATE_S) == ""


def test_a_counter_overtaken_a_minute_ago_is_late_however_seldom_others_arrive() -> None:
    window = ReplayWindow(1, 0.0)
    assert [window.admit(each, 0.0) for each in (1, 3)] == ["", ""]
    assert window.admit(4, 2 * LATE_S - 1) == ""
    assert window.admit(2, 60.0) == "seal_late"


def test_after_a_silence_an_overtaken_counter_is_late() -> None:
    window = ReplayWindow(1, 0.0)
    assert [window.admit(each, 0.0) for each in (1, 3)] == ["", ""]
    assert window.admit(2, 20 * LATE_S) == "seal_late"
    assert window.admit(5, 20 * LATE_S) == ""
    assert window.admit(4, 20 * LATE_S) == "", "it was overtaken just now"
