"""The injector: entries survive the flush that swallowed them, in order; who coordinates no more casts nothing."""

from __future__ import annotations

import pytest

from relay.gateway.injector import Injector
from relay.replica.entries import LinkUp, Through, Trim
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address
from tests.harness.relay.puppet import D, batch

pytestmark = pytest.mark.conforms("REL-14")


def cast(injector: Injector) -> list[int]:
    """What it casts now."""
    frames = [effect.event for effect in injector.take(0.0) if isinstance(effect, Down)]
    return [frame.headers[0].position for frame in frames if isinstance(frame, Frame) and isinstance(frame.headers[0], Trim)]


def opened(*positions: int) -> Injector:
    injector = Injector(D)
    injector.reopen(False, D)
    for position in positions:
        injector.cast(Trim(position))
    return injector


def test_entries_are_cast_once_and_in_order() -> None:
    injector = opened(1, 2)
    assert cast(injector) == [1, 2]
    assert cast(injector) == []


def test_during_a_block_they_wait() -> None:
    injector = opened()
    injector.block()
    injector.cast(Trim(1))
    assert cast(injector) == []
    injector.reopen(True, D)
    assert cast(injector) == []
    injector.reopen(False, D)
    assert cast(injector) == [1]


def test_what_has_not_come_back_is_cast_again_before_what_is_new() -> None:
    injector = opened(1, 2, 3)
    cast(injector)
    injector.delivered()
    injector.block()
    injector.cast(Trim(4))
    injector.reopen(False, D)
    assert cast(injector) == [2, 3, 4]


def test_bytes_that_wait_are_counted_until_they_are_back() -> None:
    injector = opened()
    injector.cast(Trim(1), batch(1))
    size = len(batch(1).body)
    assert injector.waiting_bytes == size
    injector.take(0.0)
    assert injector.waiting_bytes == size
    injector.delivered()
    assert injector.waiting_bytes == 0
    injector.cast(Trim(2), batch(2))
    injector.close()
    assert (injector.waiting_bytes, len(injector)) == (0, 0)


A, B = address("A"), address("B")
LINK_UP = LinkUp("SFO", ViewId(1, D), ViewId(1, D))


def brought(injector: Injector) -> list[tuple[int, int]]:
    """What a master sends to the coordinator now: the number of each entry, and the entry."""
    return numbers(injector.take(0.0))


def numbers(effects: list[Effect]) -> list[tuple[int, int]]:
    found = []
    for effect in effects:
        assert isinstance(effect, Down)
        assert isinstance(effect.event, Frame)
        entry, through = effect.event.headers
        assert isinstance(entry, Trim)
        assert isinstance(through, Through)
        found.append((through.number, entry.position))
    return found


def test_a_master_that_does_not_coordinate_sends_its_entries_numbered_in_each_view() -> None:
    injector = Injector(B)
    injector.reopen(False, A)
    for position in (1, 2, 3):
        injector.cast(Trim(position))
    assert brought(injector) == [(1, 1), (2, 2), (3, 3)]
    injector.delivered()
    injector.reopen(False, D)
    assert brought(injector) == [(1, 2), (2, 3)], "what the old view did not deliver goes to the new coordinator"
    injector.reopen(False, B)
    assert cast(injector) == [2, 3], "who coordinates now puts it into the stream"


def test_what_does_not_come_back_goes_again_the_oldest_first_and_the_others_after_it() -> None:
    injector = Injector(B)
    injector.reopen(False, A)
    for position in (1, 2, 3):
        injector.cast(Trim(position))
    injector.take(0.0)
    injector.take(0.1)
    due = injector.deadline()
    assert due is not None
    assert numbers(injector.take(due - 0.01)) == []
    assert numbers(injector.take(due)) == [(1, 1)]
    assert numbers(injector.delivered()) == [(2, 2), (3, 3)]
    assert numbers(injector.delivered()) == [], "these are on their way"


def test_the_coordinator_passes_on_the_next_entry_of_each_master_and_no_other() -> None:
    injector = Injector(A)
    injector.reopen(False, A)

    def bring(number: int, master: Address = B, source: Address = B, entry: Header = LINK_UP) -> bool:
        return injector.bring(Frame(source, A, (entry, Through(master, number)))) == []

    assert [bring(1), bring(1), bring(3), bring(2), bring(1, D, D)] == [True, False, False, True, True]
    assert [bring(3, source=D), bring(3, entry=Trim(1))] == [False, False], "nobody speaks for others, or as the coordinator"
    frames = [effect.event for effect in injector.take(0.0) if isinstance(effect, Down)]
    assert [frame.headers[-1] for frame in frames if isinstance(frame, Frame)] == [Through(B, 1), Through(B, 2), Through(D, 1)]
    assert len(injector) == 0, "it is for its master to see it come back"
    injector.block()
    assert bring(3)
    injector.reopen(False, A)
    assert injector.take(0.0) == [], "what came for the old view comes again in the new one"
    assert bring(1)
