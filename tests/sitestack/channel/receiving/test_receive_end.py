"""The end of a channel that an application reads: what it reports of its backlog."""

from __future__ import annotations

from typing import Any

from sitestack.channel.receiving.inbox import Delivery, Inbox
from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.receiving.state_handover import SharedState, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.events import Credit, Event
from sitestack.model.roster import Roster
from tests.harness.addresses import address
from tests.harness.messages import batch_of

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
