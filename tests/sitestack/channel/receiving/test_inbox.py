"""The backlog counts events that enter, and those that the application reads."""

from __future__ import annotations

import tracemalloc

import pytest

from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.model.address import Address
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId

A = Address(b"\x01" * 16)
VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))


def delivery(size: int, number: int = 1) -> Delivery:
    return Delivery(A, Batch("NYC", A, Scope.ALL, number, 1, pack_body([bytes(size)])))


@pytest.mark.parametrize("size", [0, 10, 100, 1_000, 10_000])
def test_the_backlog_of_an_application_takes_about_what_it_is_said_to_take(size: int) -> None:
    inbox = Inbox[View | StateMark]()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2_000):
            inbox.put(delivery(size, number + 1_000))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.7 * inbox.backlog_bytes.now < taken < 1.3 * inbox.backlog_bytes.now


def test_an_inbox_that_is_empty_again_counts_nothing() -> None:
    inbox = Inbox[View | StateMark]()
    mark = StateMark(VIEW.id)
    unicast = Delivery(A, Batch("NYC", A, Scope.SITE, 1, 1, pack_body([b"to you"]), target=A))
    for item in (delivery(10), unicast, delivery(20), mark, VIEW, delivery(30)):
        inbox.put(item)
    inbox.restart(mark, [])
    assert [inbox.pop_oldest() for _ in range(4)] == [mark, VIEW, unicast, delivery(30)]
    assert inbox.backlog_bytes.now == 0
