"""The gaps and keys that travel with a state: a joiner knows them as its provider does."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.receiving.state_extras import MARK, StateExtras, StateKey, StateNumber, join_extras, split_extras
from sitestack.channel.receiving.state_handover import SharedState, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.config import ChannelConfig, SiteConfig
from sitestack.model.errors import ProtocolError, StateUnavailable
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Message, MessageId, Scope, pack_body
from sitestack.model.state_events import Baseline, GiveState, SiteStateArrived, StateArrived
from sitestack.model.view import View, ViewId
from sitestack.transport.memory import MemoryNetwork
from tests.harness.addresses import address, view_of
from tests.harness.channels import NYC, one, wait_for_view, with_batching, with_flow
from tests.harness.messages import keyed_body
from tests.harness.sockets import until

A = address("A")
A_GAP = Gap("NYC", A, 3, 9, GapReason.BACKLOG)
A_KEY = StateKey(b"order 7", "NYC", A, Scope.ALL, 4, bytes(32), 1.5)


@dataclass
class Replica:
    """An application whose state is the list of its payloads."""

    lines: list[str] = field(default_factory=list)
    events: list[object] = field(default_factory=list)
    #: The application reads nothing while it is set to an unset event.
    pause: trio.Event | None = None

    def get(self) -> bytes:
        return json.dumps(self.lines).encode()

    def set(self, data: bytes) -> None:
        self.lines = json.loads(data)

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.events if isinstance(each, Gap)]

    async def read(self, channel: Channel) -> None:
        async for event in channel:
            self.events.append(event)
            if isinstance(event, Message):
                self.lines.append(event.payload[:9].decode())
            if self.pause is not None:
                await self.pause.wait()


@asynccontextmanager
async def replica(
    network: MemoryNetwork, nursery: trio.Nursery, name: str, config: SiteConfig = NYC
) -> AsyncIterator[tuple[Channel, Replica]]:
    mine = Replica()
    async with one(network, name, config, get_state=mine.get, set_state=mine.set) as channel:
        nursery.start_soon(mine.read, channel)
        yield channel, mine


def impatient() -> SiteConfig:
    """Members whose backlog of 200 kB becomes a gap after two seconds."""
    config = replace(NYC, channel=ChannelConfig(backlog_policy="gap", backlog_hold_s=2.0))
    config = with_flow(config, backlog_bytes_max=200_000, window_bytes=65_536)
    return with_batching(config, message_bytes_max=100_000, batch_bytes_max=60_000)


async def test_a_joiner_receives_the_gaps_of_its_state(autojump_clock: MockClock) -> None:
    network, config = MemoryNetwork(), impatient()
    async with (
        trio.open_nursery() as nursery,
        replica(network, nursery, "X", config) as (x, provider),
        replica(network, nursery, "A", config) as (a, whole),
    ):
        await wait_for_view(x, 2)
        await a.send(b"first")
        await until(lambda: provider.lines == ["first"])
        provider.pause = trio.Event()
        for _ in range(40):
            await a.send(bytes(20_000))
            await trio.sleep(0.01)
        await until(lambda: len(whole.lines) == 41)
        await trio.sleep(10)
        provider.pause.set()
        await until(lambda: bool(provider.gaps))
        for name in "JK":  # K joins when J and X have the gap: it is shown once
            async with replica(network, nursery, name, config) as (_, joiner):
                await until(lambda joiner=joiner: len(joiner.events) >= 2)  # type: ignore[misc]
                assert len(joiner.lines) == len(provider.lines) < len(whole.lines)
                assert isinstance(joiner.events[0], View)
                assert joiner.gaps == provider.gaps
        nursery.cancel_scope.cancel()


async def test_a_site_does_not_wait_for_a_joiner_whose_provider_does_not_read(autojump_clock: MockClock) -> None:
    network, config, mine = MemoryNetwork(), impatient(), Replica()
    async with (
        trio.open_nursery() as nursery,
        replica(network, nursery, "X", config) as (x, provider),
        replica(network, nursery, "A", config) as (a, whole),
    ):
        await wait_for_view(x, 2)
        provider.pause = trio.Event()
        await a.send(b"first")
        await until(lambda: provider.events[-1:] == whole.events[-1:])
        async with one(network, "J", config, get_state=mine.get, set_state=mine.set) as joiner:
            nursery.start_soon(refused_the_state, joiner)
            with trio.fail_after(60):
                for _ in range(40):
                    await a.send(bytes(20_000))
                    await trio.sleep(0.01)
                await until(lambda: len(whole.lines) == 41)
        nursery.cancel_scope.cancel()


async def refused_the_state(joiner: Channel) -> None:
    with pytest.raises(StateUnavailable):
        await anext(joiner)
    await joiner.leave()


async def test_a_joiner_does_not_apply_a_repeat_of_a_message_in_its_state(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery, replica(network, nursery, "A") as (a, first), replica(network, nursery, "B"):
        await wait_for_view(a, 2)
        await a.send(b"100", key=b"order 7")
        await until(lambda: first.lines == ["100"])
        async with replica(network, nursery, "J") as (j, joiner):
            await until(lambda: joiner.lines == ["100"])
            known, there = j.keys.known(b"order 7"), a.keys.known(b"order 7")
            assert known is not None
            assert there is not None
            assert (known.id, known.digest) == (there.id, there.digest)
            await a.send(b"100", key=b"order 7")
            await a.send(b"next")
            await until(lambda: joiner.lines[-1] == "next")
            assert joiner.lines == first.lines == ["100", "next"]
            assert j.keys.repeats == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("repeated", [True, False])
async def test_messages_that_arrive_before_the_state_are_filtered_by_its_keys(
    autojump_clock: MockClock, repeated: bool
) -> None:
    """The provider's application is late, so that messages wait at the joiner before their keys are known there."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery, replica(network, nursery, "A") as (a, first):
        if repeated:
            await a.send(b"100", key=b"order 7")
            await until(lambda: first.lines == ["100"])
        first.pause = trio.Event()
        await a.send(b"late")
        async with replica(network, nursery, "J") as (j, joiner):
            await a.send(b"100", key=b"order 7")
            await a.send(b"100", key=b"order 7")
            await trio.sleep(1)
            assert joiner.events == []
            first.pause.set()
            await until(lambda: len(joiner.lines) == len(first.lines) == 2)
            await trio.sleep(1)
            assert joiner.lines == first.lines == (["100", "late"] if repeated else ["late", "100"])
            assert j.levels()["backlog_bytes"].now == 0
        nursery.cancel_scope.cancel()


def of_lon(last: int, *, at_join: bool = False) -> Baseline:
    return Baseline("LON", {address("L"): last}, at_join=at_join)


def history(last: int, reason: GapReason = GapReason.BEFORE_BASELINE) -> Gap:
    return Gap("LON", address("L"), 1, last, reason)


class Handed:
    """The state of one application, the end at which it reads, and the gaps that were put into its inbox."""

    def __init__(self, majority: bool = False, backlog_bytes_max: int = 1 << 20) -> None:
        self.inbox: Inbox[Any] = Inbox()
        self.keys = MessageKeys()
        self.noted: list[Gap] = []
        self.reported: list[Event] = []
        shared = SharedState(lambda: b"state", lambda data: None)
        self.handover = StateHandover(shared, self.inbox, self.keys, self.noted.append, 1 << 20, majority)
        self.end = ReceiveEnd(self.inbox, self.handover, self.reported.append, backlog_bytes_max, lambda batch: None)

    async def reads(self, items: int) -> list[object]:
        with trio.fail_after(1):
            return [await anext(self.end) for _ in range(items)]

    def given(self) -> bytes:
        """Return the state at a new view, with its extras."""
        view, given = view_of(9, "AB"), list[Any]()
        self.handover.mark(view.id)
        self.handover.handle(GiveState(view.id))
        self.handover.reach(StateMark(view.id), given.append)
        data: bytes = given[0].data
        return data

    def gaps(self) -> list[Gap]:
        return [item for item in self.inbox._items if isinstance(item, Gap)]


def test_history_before_a_baseline_travels_with_the_state_and_only_another_site_sees_it() -> None:
    provider, joiner, elsewhere, view = Handed(), Handed(), Handed(), view_of(3, "AB")
    provider.handover.handle(of_lon(13))
    data = provider.given()
    assert split_extras(data)[0].gaps == (history(13),)
    joiner.handover.handle(of_lon(15, at_join=True))
    joiner.handover.mark(view.id)
    joiner.inbox.put(view)
    joiner.handover.handle(StateArrived(view.id, data))
    assert joiner.gaps() == []
    assert split_extras(joiner.given())[0].gaps == (history(13),)
    elsewhere.handover.handle(SiteStateArrived(data, {"LON": {address("L"): 20}}, {}))
    assert elsewhere.gaps() == [history(13, GapReason.NOT_HELD)]


def test_a_member_that_goes_on_without_a_state_has_no_history_from_before_its_join() -> None:
    for event in (StateArrived(ViewId(3, A), None), SiteStateArrived(None, {}, {})):
        alone = Handed()
        alone.handover.handle(of_lon(15, at_join=True))
        assert split_extras(alone.given())[0].gaps == ()
        alone.handover.handle(event)
        assert split_extras(alone.given())[0].gaps == (history(15),)


def test_history_of_the_own_site_only_is_kept_with_the_state_of_another_site() -> None:
    """No other site has such messages: a companion that delivered them loses them to this state, and is told."""
    member = Handed()
    for scope in (Scope.ALL, Scope.SITE):
        member.handover.handle(Baseline("NYC", {A: 6}, at_join=True, scope=scope))
    member.handover.handle(SiteStateArrived(join_extras(StateExtras((), (), ()), b"state", 1 << 20), {}, {}))
    gap = Gap("NYC", A, 1, 6, GapReason.BEFORE_BASELINE, Scope.SITE)
    assert split_extras(member.given())[0].gaps == (gap,)


def test_a_state_that_is_wanted_after_the_application_has_come_to_the_view_is_given() -> None:
    """As after a quarantine, in which the view was installed blocked."""
    member, view, given = Handed(), view_of(9, "AB"), list[Any]()

    def read() -> None:
        mark = member.inbox.pop_oldest()
        assert isinstance(mark, StateMark)
        member.handover.reach(mark, given.append)

    member.handover.mark(view.id)
    read()
    assert given == []
    member.handover.handle(GiveState(view.id))
    read()
    assert [each.data for each in given] == [b"state"]


def test_what_a_merge_view_says_of_the_other_part_travels_with_the_state_from_before_it() -> None:
    """A member of the other part had these messages, and loses them to the state."""
    provider, joiner, companion, view = Handed(), Handed(), Handed(), view_of(9, "AB")
    of_other_part = replace(A_GAP, reason=GapReason.OTHER_PART)
    for member in (provider, joiner, companion):
        member.handover.mark(view.id)
        member.inbox.put(view)
    provider.inbox.put(of_other_part)
    companion.inbox.put(of_other_part)
    provider.handover.handle(GiveState(view.id))
    given = list[Any]()
    mark = provider.inbox.pop_oldest()
    assert isinstance(mark, StateMark)
    provider.handover.reach(mark, given.append)
    for member in (joiner, companion):
        member.handover.handle(StateArrived(view.id, given[0].data))
        assert member.gaps() == [of_other_part]


def test_a_joiner_is_shown_history_of_its_provider_that_was_delivered_here() -> None:
    """Its part of a split site had the sender, of which the provider in the other part knows nothing."""
    provider, joiner, late, view = Handed(), Handed(), Handed(), view_of(9, "AB")
    lacking = Baseline("NYC", {A: 5}, at_join=True, scope=Scope.SITE)
    provider.handover.handle(StateArrived(ViewId(1, A), None))
    provider.handover.handle(lacking)
    data = provider.given()
    for member, numbers in ((joiner, (4, 5)), (late, (6,))):
        for number in numbers:
            member.inbox.put(Delivery(A, Batch("NYC", A, Scope.SITE, number, 1, pack_body([b"x"]))))
        member.handover.mark(view.id)
        member.inbox.put(view)
        member.handover.handle(StateArrived(view.id, data))
    assert joiner.gaps() == [Gap("NYC", A, 1, 5, GapReason.NOT_HELD, Scope.SITE)]
    assert late.gaps() == []


def test_history_of_another_part_is_not_that_of_a_state_which_arrives_after_the_merge() -> None:
    member, view = Handed(), view_of(3, "AB")
    member.handover.handle(Baseline("NYC", {A: 5}, at_join=True))
    member.handover.mark(view.id)
    member.inbox.put(view)
    member.handover.handle(StateArrived(view.id, b"state"))
    assert split_extras(member.given())[0].gaps == ()


async def test_history_that_a_fetched_state_contains_does_not_travel(autojump_clock: MockClock) -> None:
    member = Handed()
    member.handover.handle(SiteStateArrived(b"state", {"LON": {address("L"): 9}}, {}))
    member.handover.handle(of_lon(13))
    member.inbox.put(VIEW)
    await member.reads(1)
    assert split_extras(member.given())[0].gaps == (replace(history(13), first=10),)


def started(majority: bool = True) -> Handed:
    """A provider whose application has begun."""
    provider = Handed(majority)
    provider.handover.handle(StateArrived(ViewId(1, A), None))
    return provider


def filled(view: View, before: list[object], after: list[object], majority: bool = True) -> Handed:
    """A joiner that has delivered this before the view of the state, and after it."""
    joiner = Handed(majority)
    for item in (*before, StateMark(view.id), view, *after):
        joiner.inbox.put(item)
    return joiner


@pytest.mark.parametrize("majority", [True, False])
async def test_a_joiner_drops_what_it_delivered_after_the_view_if_the_state_contains_it(
    autojump_clock: MockClock, majority: bool
) -> None:
    """Members that merge may deliver a message of an earlier view in different views."""
    provider, gap = started(majority), Gap("NYC", A, 3, 3, GapReason.BACKLOG)
    for item in (delivery(1, 1), delivery(1, 2), gap):
        provider.inbox.put(item)
    await provider.reads(3)
    view = view_of(9, "AB")
    joiner = filled(view, [delivery(1, 1)], [delivery(1, 2), delivery(1, 3), delivery(1, 4)], majority)
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(3) == [view, gap, delivery(1, 4)]
    assert len(joiner.inbox) == 0


@pytest.mark.parametrize("majority", [True, False])
async def test_a_joiner_keeps_what_it_delivered_before_the_view_if_the_state_lacks_it(
    autojump_clock: MockClock, majority: bool
) -> None:
    provider = started(majority)
    provider.inbox.put(delivery(1, 1))
    await provider.reads(1)
    view = view_of(9, "AB")
    joiner = filled(view, [delivery(1, 1), delivery(1, 2)], [], majority)
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(2) == [view, delivery(1, 2)], "the provider delivers it after the view"
    assert split_extras(joiner.given())[0].numbers == (("NYC", A, Scope.ALL, 2),)


async def test_a_joiner_knows_the_keys_of_messages_that_it_keeps_where_the_state_lacks_them(
    autojump_clock: MockClock,
) -> None:
    """The messages from before a merge are history to the provider in the other part."""
    provider, view = started(), view_of(9, "AB")
    provider.handover.handle(Baseline("NYC", {A: 2}, at_join=True))
    first, again = [Batch("NYC", A, Scope.ALL, number, 1, keyed_body(b"100", key=b"order 7")) for number in (2, 3)]
    joiner = filled(view, [Delivery(A, first)], [])
    assert joiner.keys.unseen(first) == (first,)
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(2) == [view, Delivery(A, first)]
    assert not joiner.keys.unseen(again), "it was shown"
    assert split_extras(joiner.given())[0].gaps == (Gap("NYC", A, 1, 1, GapReason.BEFORE_BASELINE),), "it has the second one"


async def test_a_joiner_is_shown_history_that_it_drops_for_a_later_number_of_the_state(autojump_clock: MockClock) -> None:
    """The transfer began again at a second view after the merge."""
    provider, view = started(), view_of(9, "AB")
    provider.handover.handle(Baseline("NYC", {A: 2}, at_join=True))
    provider.inbox.put(delivery(1, 3))
    await provider.reads(1)
    joiner = filled(view, [delivery(1, 2), delivery(1, 3)], [])
    joiner.handover.handle(StateArrived(view.id, provider.given()))
    assert await joiner.reads(2) == [view, Gap("NYC", A, 1, 2, GapReason.NOT_HELD)]
    assert len(joiner.inbox) == 0


def test_a_state_without_gaps_and_keys_travels_as_it_is() -> None:
    assert join_extras(StateExtras(), b"state", 1 << 20) == b"state"
    assert split_extras(b"state") == (StateExtras(), b"state")
    assert split_extras(b"") == (StateExtras(), b"")


@pytest.mark.parametrize("state", [b"", b"state", MARK + b"looks like one"])
def test_gaps_and_keys_are_read_back(state: bytes) -> None:
    extras = StateExtras((A_GAP,), (A_KEY,), (StateNumber("NYC", A, Scope.SITE, 7),))
    assert split_extras(join_extras(extras, state, 1 << 20)) == (extras, state)
    assert split_extras(join_extras(StateExtras(), state, 1 << 20)) == (StateExtras(), state)


def test_the_oldest_keys_are_left_out_where_they_would_make_the_state_too_large() -> None:
    keys = tuple([A_KEY._replace(key=b"%d" % number) for number in range(64)])
    whole = join_extras(StateExtras((A_GAP,), keys), b"state", 1 << 20)
    assert split_extras(whole) == (StateExtras((A_GAP,), keys), b"state")
    fitting = join_extras(StateExtras((A_GAP,), keys), b"state", len(whole) // 2)
    assert len(fitting) <= len(whole) // 2
    assert split_extras(fitting) == (StateExtras((A_GAP,), keys[-16:]), b"state")
    assert split_extras(join_extras(StateExtras((A_GAP,), keys), b"state", 5)) == (StateExtras((A_GAP,)), b"state")


def test_damaged_extras_are_refused() -> None:
    data = join_extras(StateExtras((A_GAP,), (A_KEY,)), b"", 1 << 20)
    for length in range(len(MARK), len(data)):
        with pytest.raises(ProtocolError):
            split_extras(data[:length])


async def test_adopted_keys_expire_by_their_age(autojump_clock: MockClock) -> None:
    keys, copy = MessageKeys(keys_max=3, age_s=10.0), MessageKeys(keys_max=3, age_s=10.0)
    for n in (1, 2):
        assert keys.unseen(Batch("NYC", A, Scope.ALL, n, 1, keyed_body(b"x", key=b"%d" % n)))
        await trio.sleep(4)
    assert copy.unseen(Batch("NYC", A, Scope.ALL, 3, 1, keyed_body(b"x", key=b"1")))
    copy.adopt(keys.carried(2))
    assert copy.known(b"1") is not None
    assert copy.known(b"1").id == MessageId("NYC", A, Scope.ALL, 1)  # type: ignore[union-attr]
    await trio.sleep(3)
    assert copy.known(b"1") is None
    assert copy.known(b"2") is not None
    assert keys.carried(1) == (), "what was delivered after the mark is not in the state"


VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))


def delivery(size: int, number: int = 1) -> Delivery:
    return Delivery(A, Batch("NYC", A, Scope.ALL, number, 1, pack_body([bytes(size)])))


@pytest.mark.parametrize("size", [0, 10, 100, 1_000, 10_000])
def test_the_memory_of_a_backlog_is_near_its_reported_size(size: int) -> None:
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
