"""The end of a channel that an application reads: its backlog, and the messages that a state contains."""

from __future__ import annotations

from typing import Any

from sitestack.channel.receiving.inbox import Delivery, Inbox
from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.receiving.state_extras import StateExtras, StateKey, join_extras
from sitestack.channel.receiving.state_handover import SharedState, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.events import Credit, Event
from sitestack.model.message import Batch, Scope
from sitestack.model.roster import Roster
from sitestack.model.state_events import SiteStateArrived
from tests.harness.addresses import address
from tests.harness.messages import batch_of, keyed_body

A = address("A")
BOUND = 8_000


def test_a_backlog_that_an_installed_state_has_emptied_is_reported() -> None:
    """Else senders wait for ever: the application has nothing to read, and so reports nothing."""
    inbox: Inbox[Any] = Inbox()
    reported: list[Event] = []
    state = StateHandover(SharedState(bytes, lambda _: None), inbox, MessageKeys(), lambda _: None, 1 << 20)
    end = ReceiveEnd(inbox, state, reported.append, BOUND, lambda _: None)
    for n in range(1, 4):
        inbox.put(Delivery(A, batch_of("A", n, site="SFO", size=BOUND), Roster("NYC", ())))
    end.refresh()
    full = inbox.backlog_bytes.now
    assert reported == [Credit(full)]
    assert end.is_awaited
    inbox.leave_out({"SFO": {A: 3}})
    end.refresh()
    assert reported == [Credit(full), Credit(0)]
    assert not end.is_awaited


async def test_reading_is_reported_once_for_an_eighth_of_the_bound() -> None:
    inbox: Inbox[Any] = Inbox()
    reported: list[Event] = []
    end = ReceiveEnd(
        inbox, StateHandover(None, inbox, MessageKeys(), lambda _: None, 1), reported.append, BOUND, lambda _: None
    )
    for n in range(1, 33):
        inbox.put(Delivery(A, batch_of("A", n, size=BOUND // 32), Roster("NYC", ())))
    end.refresh()
    full = inbox.backlog_bytes.now
    for _ in range(32):
        await anext(end)
    assert 8 < len(reported) <= 1 + full // (BOUND // 8)


async def test_a_waiting_message_of_this_site_that_came_back_with_the_state_of_another_is_dropped() -> None:
    """Its scope is `site`, so the contents of the state do not name it, but its keys do."""
    inbox: Inbox[Any] = Inbox()
    state = StateHandover(SharedState(bytes, lambda _: None), inbox, MessageKeys(), lambda _: None, 1 << 20)
    waiting, other = (Batch("NYC", A, Scope.SITE, n, 1, keyed_body(b"x", key=b"k%d" % n)) for n in (1, 2))
    for batch in (waiting, other):
        inbox.put(Delivery(A, batch, Roster("NYC", ())))
    key = StateKey(b"k1", "NYC", A, Scope.SITE, 1, bytes(32), 0.0)
    data = join_extras(StateExtras((), (key,)), b"state", 1 << 20)
    state.handle(SiteStateArrived(data, {}, {}))
    assert [item.batch for item in inbox._items if isinstance(item, Delivery)] == [other]
