"""Datagrams of strangers wait until they have introduced themselves, within bounds."""

from __future__ import annotations

from sitestack.model.address import Physical
from sitestack.seal.introductions import HELD_DATAGRAMS_MAX, Held, Strangers

HELD = Held(1, b"x", Physical("10.0.0.1", 7800))


def test_exactly_as_many_datagrams_wait_as_the_bound_says() -> None:
    strangers = Strangers(lambda: bytes(16))
    strangers.next_nonce(b"B", 0.0)
    assert all(strangers.hold(b"B", HELD) for _ in range(HELD_DATAGRAMS_MAX))
    assert not strangers.hold(b"B", HELD)
    assert not strangers.hold(b"C", HELD), "it was not asked"
