"""The key ring: its text, its changes, and that it tells nothing of the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KEYS_MAX, KeyRing, SiteKey

ONE, TWO = bytes(range(32)), bytes(range(1, 33))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=KEYS_MAX, unique=True))
def test_a_ring_is_what_its_text_says(secrets: list[bytes]) -> None:
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
def test_what_is_no_ring_is_refused_without_repeating_it(change: str) -> None:
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
