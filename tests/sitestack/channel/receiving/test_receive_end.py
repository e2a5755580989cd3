"""The end of a channel that an application reads: its backlog, and the messages that a state contains, with its numbers: the
last multicast of each stream in it.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark, cost_bytes
from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.receiving.state_extras import MARK, StateExtras, StateKey, join_extras, split_extras
from sitestack.channel.receiving.state_handover import NUMBERS_MAX, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.address import Address
from sitestack.model.envelope import wrap_keyed
from sitestack.model.errors import StateUnavailable
from sitestack.model.events import Credit, Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.roster import Roster
from sitestack.model.state_events import Baseline, GiveSnapshot, SiteStateArrived, SnapshotGiven, StateArrived
from tests.harness.addresses import address, view_of
from tests.harness.messages import batch_of, present
from tests.sitestack.channel.receiving.test_state_extras import A, Handed, delivery, filled, started

BOUND = 8_000


def test_a_backlog_that_an_installed_state_has_emptied_is_reported() -> None:
    """Else senders wait for ever: the application has nothing to read, and so reports nothing."""
    handed = Handed(backlog_bytes_max=BOUND)
    inbox, end, reported = handed.inbox, handed.end, handed.reported
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


async def test_messages_that_come_again_after_the_state_are_taken_out_with_their_keys(autojump_clock: MockClock) -> None:
    """The joiner's part was ahead of the part that provides the state."""
    handed = Handed()
    inbox, keys, state = handed.inbox, handed.keys, handed.handover
    again = [keyed_batch("SFO", A, n) for n in (2, 3)]
    rest = [keyed_batch("SFO", A, 1), keyed_batch("SFO", address("B"), 2), keyed_batch("NYC", A, 2)]
    for each in (*rest, *again):
        assert list(keys.unseen(each)) == [each]
        inbox.put(Delivery(A, each, Roster("NYC", ())))
    inbox.put(Gap("SFO", A, 4, 5, GapReason.BUDGET))
    state.handle(Baseline("SFO", {A: 1}, in_state=True))
    assert len(inbox) == 6, "messages at this number are in the state; others may be here"
    state.handle(Baseline("SFO", {A: 1}, in_state=True, at_join=True))
    assert [item.batch for item in inbox._items if isinstance(item, Delivery)] == rest
    assert len(inbox) == 3
    assert inbox.backlog_bytes.now == sum(map(cost_bytes, inbox._items))
    assert [list(keys.unseen(each)) for each in (*again, *rest)] == [[each] for each in again] + [[]] * 3


def keyed_batch(site: str, origin: Address, number: int) -> Batch:
    body = pack_body([wrap_keyed(f"{site} {origin} {number}".encode(), None, b"x")], envelopes=True)
    return Batch(site, origin, Scope.ALL, number, 1, body)


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
    handed = Handed()
    inbox = handed.inbox
    wrapped = [wrap_keyed(b"k%d" % n, None, b"x") for n in range(4)]
    inbox.put(Delivery(A, Batch("NYC", A, Scope.SITE, 0, 4, pack_body(wrapped, envelopes=True)), Roster("NYC", ())))
    key = StateKey(b"k1", "NYC", A, Scope.SITE, 1, bytes(32), 0.0)
    data = join_extras(StateExtras((), (key,)), b"state", 1 << 20)
    handed.handover.handle(SiteStateArrived(data, {}, {}))
    assert [item.batch for item in inbox._items if isinstance(item, Delivery)] == [
        Batch("NYC", A, Scope.SITE, 0, 1, pack_body(wrapped[:1], envelopes=True)),
        Batch("NYC", A, Scope.SITE, 2, 2, pack_body(wrapped[2:], envelopes=True)),
    ]
    assert inbox.backlog_bytes.now == sum(map(cost_bytes, inbox._items))


async def test_a_gap_for_a_slow_application_ends_at_the_place_of_a_snapshot(autojump_clock: MockClock) -> None:
    """Else the other site reports messages as lost that it delivers after the state."""
    handed = Handed(backlog_bytes_max=BOUND)
    inbox, state, end = handed.inbox, handed.handover, handed.end
    state.withheld = False
    inbox.put(Delivery(A, batch_of("A", 1), Roster("NYC", ())))
    state.handle(GiveSnapshot(1))
    inbox.put(Delivery(A, batch_of("A", 2), Roster("NYC", ())))
    end.skip()
    handed.reported.clear()
    gaps = [Gap("NYC", A, n, n, GapReason.BACKLOG) for n in (1, 2)]
    with trio.fail_after(1):
        assert [await anext(end), await anext(end)] == gaps
    given = handed.reported[0]
    assert isinstance(given, SnapshotGiven)
    assert split_extras(present(given.data))[0].gaps == (gaps[0],)


def test_gaps_for_a_slow_application_are_few_although_channels_talk_in_between() -> None:
    """A `flushed` after each message takes every second number."""
    inbox: Inbox[Any] = Inbox()
    for n in range(1, 1_000, 2):
        for scope in (Scope.ALL, Scope.OOB):
            inbox.put(Delivery(A, Batch("NYC", A, scope, n, 1, b""), Roster("NYC", ())))
        if n == 501:
            inbox.put(Gap("NYC", A, n + 1, n + 1, GapReason.OTHER_PART))
    assert len(inbox.skip()) == 1_000
    gaps = [item for item in inbox._items if isinstance(item, Gap)]
    assert [(gap.first, gap.last) for gap in gaps if gap.scope is Scope.ALL] == [(1, 501), (502, 502), (503, 999)]
    assert len(gaps) == 503, "a number out of band may arrive later"


async def test_a_damaged_state_is_an_error_of_an_idle_reader(autojump_clock: MockClock) -> None:
    handed = Handed()
    state, end = handed.handover, handed.end
    state.withheld = False
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            with trio.fail_after(1), pytest.raises(StateUnavailable):
                await anext(end)

        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        assert state.withhold()
        state.handle(SiteStateArrived(MARK, {}, {}))
        end.refresh()


async def test_of_messages_that_a_fetched_state_lacks_only_read_ones_are_a_gap(autojump_clock: MockClock) -> None:
    """The others are waiting, and follow. `flushed` reports the gap too."""
    handed = Handed()
    inbox, keys = handed.inbox, handed.keys
    batches = [keyed_batch("LON", A, n) for n in range(4, 8)]
    for batch in batches:
        keys.unseen(batch)
    for batch in batches[2:]:
        inbox.put(Delivery(A, batch, Roster("NYC", ())))
    handed.handover.handle(SiteStateArrived(b"state", {"LON": {A: 3}}, {"LON": {A: 7, address("B"): 2}}))
    gaps = [Gap("LON", A, 4, 5, GapReason.NOT_HELD), Gap("LON", address("B"), 1, 2, GapReason.NOT_HELD)]
    assert [item for item in inbox._items if isinstance(item, Gap)] == gaps == handed.noted
    assert [list(keys.unseen(batch)) for batch in batches] == [[batches[0]], [batches[1]], [], []]


# -- the numbers that travel with a state ----------------------------------------------------------------------------------


@pytest.mark.parametrize("majority", [True, False])
async def test_a_state_without_numbers_contains_what_precedes_its_view_or_nothing(
    autojump_clock: MockClock, majority: bool
) -> None:
    """A provider of release 0.2.0 names none. It knows no `when_split: majority`, where none means that it has read nothing."""
    view, early, late = view_of(9, "AB"), delivery(1, 1), delivery(1, 2)
    joiner = filled(view, [early], [late], majority)
    joiner.handover.handle(StateArrived(view.id, b"state"))
    items = [view, early, late] if majority else [view, late]
    assert await joiner.reads(len(items)) == items
    assert len(joiner.inbox) == 0


async def test_numbers_do_not_travel_to_another_site(autojump_clock: MockClock) -> None:
    provider, given = started(), list[Any]()
    provider.inbox.put(delivery(1, 1))
    await provider.reads(1)
    provider.handover.handle(GiveSnapshot(1))
    provider.handover.reach(StateMark(1), given.append)
    assert [each.data for each in given] == [b"state"]


async def test_an_older_gap_of_a_state_lowers_no_number_of_the_next_one(autojump_clock: MockClock) -> None:
    provider, old = started(), Gap("NYC", A, 1, 1, GapReason.BACKLOG)
    for item in (old, delivery(1, 2)):
        provider.inbox.put(item)
    await provider.reads(2)
    view = view_of(9, "AB")
    joiner = filled(view, [], [])
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(2) == [view, old]
    assert split_extras(joiner.given())[0].numbers == (("NYC", A, Scope.ALL, 2),)


def test_the_numbers_of_a_state_are_those_of_the_latest_streams() -> None:
    provider = started()
    for number in range(NUMBERS_MAX + 1):
        provider.handover.count(("NYC", Address(number.to_bytes(16, "big")), Scope.ALL), 1)
        provider.handover.count(("NYC", A, Scope.ALL), number + 1)
    numbers = split_extras(provider.given())[0].numbers
    assert (len(numbers), numbers[-1]) == (NUMBERS_MAX, ("NYC", A, Scope.ALL, NUMBERS_MAX + 1))
