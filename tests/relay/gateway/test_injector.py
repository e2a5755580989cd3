"""The caster: entries survive the flush that swallowed them, in order; who coordinates no more casts nothing."""

from __future__ import annotations

from relay.gateway.injector import Caster
from relay.replica.entries import Trim
from sitestack.model.frame import Frame
from sitestack.stack.layer import Down
from tests.relay.puppet import D, batch


def cast(caster: Caster) -> list[int]:
    """What it casts now."""
    frames = [effect.event for effect in caster.take() if isinstance(effect, Down)]
    return [frame.headers[0].position for frame in frames if isinstance(frame, Frame) and isinstance(frame.headers[0], Trim)]


def opened(*positions: int) -> Caster:
    caster = Caster(D)
    caster.reopen(blocked=False)
    for position in positions:
        caster.cast(Trim(position))
    return caster


def test_entries_are_cast_once_and_in_order() -> None:
    caster = opened(1, 2)
    assert cast(caster) == [1, 2]
    assert cast(caster) == []


def test_during_a_block_they_wait() -> None:
    caster = opened()
    caster.block()
    caster.cast(Trim(1))
    assert cast(caster) == []
    caster.reopen(blocked=True)
    assert cast(caster) == []
    caster.reopen(blocked=False)
    assert cast(caster) == [1]


def test_what_has_not_come_back_is_cast_again_before_what_is_new() -> None:
    caster = opened(1, 2, 3)
    cast(caster)
    caster.delivered()
    caster.block()
    caster.cast(Trim(4))
    caster.reopen(blocked=False)
    assert cast(caster) == [2, 3, 4]


def test_bytes_that_wait_are_counted_until_they_are_back() -> None:
    caster = opened()
    caster.cast(Trim(1), batch(1))
    size = len(batch(1).body)
    assert caster.waiting_bytes == size
    caster.take()
    assert caster.waiting_bytes == size
    caster.delivered()
    assert caster.waiting_bytes == 0
    caster.cast(Trim(2), batch(2))
    caster.close()
    assert (caster.waiting_bytes, len(caster)) == (0, 0)
