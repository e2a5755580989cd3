"""Messages with keys: repeats by any member are shown once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from timeit import timeit
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.envelope import KEY, KEY_BYTES_MAX, Envelope, wrap
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Message, Scope, pack_body
from tests.harness.addresses import address
from tests.harness.channels import NYC, members, take, with_batching
from tests.harness.messages import keyed_body
from tests.sitestack.channel.test_slow_consumer import with_policy


def batch_of(key: bytes, n: int = 1, payload: bytes = b"x") -> Batch:
    return Batch("NYC", address("A"), Scope.ALL, n, 1, keyed_body(payload, key=key))


def is_repeat(keys: MessageKeys, batch: Batch) -> bool:
    return not keys.unseen(batch)


@pytest.mark.parametrize("scope", ["all", "site"])
async def test_of_copies_by_two_members_all_members_deliver_only_the_first(autojump_clock: MockClock, scope: str) -> None:
    async with members("A", "B", "C") as channels:
        for sender in (channels[1], channels[0], channels[1]):
            await sender.send(b"pay", scope, key=b"order 1")  # type: ignore[arg-type]
        shown = [[message.payload for message in await take(channel, 1)] for channel in channels]
        while sum(channel.keys.repeats for channel in channels) < 6:  # noqa: ASYNC110 (repeats are shown to nobody)
            await trio.sleep(0.01)
        await channels[2].send(b"next", scope)  # type: ignore[arg-type]
        for channel, before in zip(channels, shown, strict=True):
            before += [message.payload for message in await take(channel, 1)]
        assert shown == [[b"pay", b"next"]] * 3
        known = [await channel.keys.delivered(b"order 1") for channel in channels]
        assert known[0].id == known[1].id == known[2].id


async def test_of_messages_in_one_batch_only_the_repeats_are_not_shown(autojump_clock: MockClock) -> None:
    async with members("A", "B", config=with_batching(NYC, keys_share_batches=True)) as (a, b):
        await b.send(b"7", key=b"order 7")
        assert [message.payload for message in await take(a, 1)] == [b"7"]
        before = a._batching.statistics().batches
        for n in range(100):
            await a.send(b"%d" % n, key=b"order %d" % n)
        numbers = [7, *range(7), *range(8, 100)]
        shown = await take(b, 100)
        assert [int(message.payload) for message in (*shown[:1], *await take(a, 99))] == numbers
        assert [int(message.payload) for message in shown] == numbers
        assert [message.id.n for message in shown[1:]] == [n + 1 for n in numbers[1:]]
        assert (await b.keys.delivered(b"order 99")).id == shown[-1].id
        assert a._batching.statistics().batches - before <= 2


async def test_a_list_has_a_key_and_headers_for_each_message(autojump_clock: MockClock) -> None:
    async with members("A", "B", config=with_batching(NYC, keys_share_batches=True)) as (a, b):
        before = a._batching.statistics().batches
        await a.send_many([b"1", b"2"], keys=[b"one", "two"], headers=[{"trace": b"7"}, {}])
        await a.send_many([b"2", b"3"], "site", keys=[b"two", b"three"])
        await a.send_many([b"4"], headers=[{"trace": b"8"}])
        found = [(each.payload, each.headers.get("trace")) for each in await take(b, 4)]
        assert sorted(found) == [(b"1", b"7"), (b"2", None), (b"3", None), (b"4", b"8")]
        assert a._batching.statistics().batches - before == 3
        wrong: list[dict[str, Any]] = [
            {"keys": [b"k"]},
            {"headers": [{}]},
            {"keys": [b"k", b""]},
            {"headers": [{KEY: b"k"}] * 2},
        ]
        for each in wrong:
            with pytest.raises(LocalError):
                await a.send_many([b"x", b"y"], **each)
        with pytest.raises(LocalError, match="only a multicast"):
            await a.send_many([b"x"], target=b.address, keys=[b"k"])


async def test_messages_of_a_list_do_not_share_batches_unless_configured(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        before = a._batching.statistics().batches
        await a.send_many([b"1", b"2", b"3"], keys=[b"1", b"2", b"3"])
        await take(a, 3)
        assert a._batching.statistics().batches - before == 3


async def test_the_key_of_a_message_that_a_state_lacks_is_forgotten(autojump_clock: MockClock) -> None:
    lost = Gap("NYC", address("A"), 4, 6, GapReason.OTHER_PART)
    elsewhere = (replace(lost, site="SFO"), replace(lost, origin=address("B")), replace(lost, scope=Scope.SITE))

    keys, numbers = MessageKeys(), (3, 4, 6, 7)
    batches = [batch_of(b"%d" % n, n) for n in numbers]
    assert not any(is_repeat(keys, batch) for batch in batches)
    keys.forget_lost(elsewhere)
    assert all(keys.known(b"%d" % n) for n in numbers)
    keys.forget_lost([lost])
    assert [n for n in numbers if keys.known(b"%d" % n)] == [3, 7]
    keys.forget(batches[0])
    two = Batch("NYC", address("A"), Scope.ALL, 6, 2, keyed_body(b"x", b"y", key=b"7"))
    keys.forget(two)
    assert not any(keys.known(b"%d" % n) for n in numbers)


async def test_a_copy_through_another_member_after_the_first_one_has_died(autojump_clock: MockClock) -> None:
    async with members("B", "C", "A") as (b, c, a):
        await a.send(b"pay", key=b"order 1")
        assert [message.payload for message in await take(b, 1)] == [b"pay"]
        with trio.move_on_after(0):
            await a.leave()
        await b.send(b"pay", key=b"order 1")
        await b.send(b"next")
        assert [message.payload for message in await take(b, 1)] == [b"next"]
        assert [message.payload for message in await take(c, 2)] == [b"pay", b"next"]


async def test_a_message_without_loopback_is_known_by_its_key_too(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await a.send(b"pay", key=b"order 1", loopback=False)
        await a.keys.delivered(b"order 1")
        await b.send(b"pay", key=b"order 1")
        await b.send(b"next")
        assert [message.payload for message in await take(a, 1)] == [b"next"]
        assert [message.payload for message in await take(b, 2)] == [b"pay", b"next"]


async def test_a_cancelled_wait_for_a_key_leaves_no_entry(autojump_clock: MockClock) -> None:
    keys = MessageKeys()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.delivered, b"1")
        for key in (b"1", b"2"):
            with trio.move_on_after(1):
                await keys.delivered(key)
        assert len(keys._awaited) == 1, "one is still waiting for the first"
        assert not is_repeat(keys, batch_of(b"1"))
    assert len(keys._awaited) == 0


async def test_a_key_is_for_a_multicast_and_short(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        with pytest.raises(LocalError, match="only a multicast can have a key"):
            await a.send(b"x", target=a.address, key=b"k")
        with pytest.raises(LocalError, match="at most 128 bytes, not 129"):
            await a.send(b"x", key=bytes(129))


async def test_keys_are_forgotten_by_number_and_by_age(autojump_clock: MockClock) -> None:
    keys = MessageKeys(keys_max=2, age_s=10)
    assert [is_repeat(keys, batch_of(key, n)) for n, key in enumerate([b"1", b"2", b"2", b"3"], 1)] == [
        False,
        False,
        True,
        False,
    ]
    assert (keys.known(b"1"), keys.level().now, keys.level().high) == (None, 2, 2)
    await trio.sleep(11)
    assert keys.known(b"2") is None
    assert not is_repeat(keys, batch_of(b"3", 5))
    assert keys.repeats == 1


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=KEY_BYTES_MAX))
def test_a_key_is_at_the_end_of_a_body_and_no_part_of_the_message(payload: bytes, key: bytes) -> None:
    batch = batch_of(key, payload=payload)
    assert (list(batch.payloads()), batch.keyed()) == ([payload], [(key, payload)])


def test_a_batch_without_keys_or_with_a_broken_envelope_has_no_keys() -> None:
    for body in (
        pack_body([wrap(Envelope(), b"1")] * 2, envelopes=True),
        pack_body([wrap(Envelope(headers={KEY: b"1"}), b"1"), b"\xff"], envelopes=True),
        pack_body([b"\xff", b"2"], envelopes=True),
        pack_body([b"1", b"2"]),
        pack_body([wrap(Envelope(headers={KEY: bytes(KEY_BYTES_MAX + 1)}), b"x")] * 2, envelopes=True),
    ):
        batch = Batch("NYC", address("A"), Scope.ALL, 1, 2, body)
        assert batch.keyed() == []
        assert MessageKeys().unseen(batch) == (batch,)


KEYED = st.tuples(st.sampled_from([b"", b"1", b"22", b"3"]), st.binary(max_size=3), st.booleans())


@given(st.lists(KEYED, min_size=1, max_size=9))
def test_a_batch_is_split_where_its_messages_are_repeats(messages: list[tuple[bytes, bytes, bool]]) -> None:
    """The first message has a key: a batch with keys has only messages with keys."""
    (_, payload, _), *rest = messages
    messages = [(b"first", payload, False), *rest]
    wrapped = [
        wrap(Envelope(headers={KEY: key} | ({"trace": b"7"} if more else {}) if key else {}), payload)
        for key, payload, more in messages
    ]
    batch = Batch("NYC", address("A"), Scope.ALL, 10, len(messages), pack_body(wrapped, envelopes=True))
    keys, seen, shown = MessageKeys(), set[bytes](), list[tuple[int, bytes]]()
    for number, (key, payload, _) in enumerate(messages, 10):
        if not key or key not in seen:
            shown.append((number, payload))
        seen.add(key)
    parts = trio.run(unseen, keys, batch)
    assert [each for part in parts for each in enumerate(part.payloads(), part.first)] == shown
    assert all(before.last + 1 < after.first for before, after in pairwise(parts))
    assert keys.repeats == len(messages) - len(shown)


async def unseen(keys: MessageKeys, batch: Batch) -> Sequence[Batch]:
    return keys.unseen(batch)


async def test_the_header_of_keys_is_refused_where_an_application_sets_it(autojump_clock: MockClock) -> None:
    """It would be taken for a key: unicasts with the same value would vanish at their receiver."""
    async with members("A", "B") as (a, b):
        for target in (None, b.address):
            with pytest.raises(LocalError, match="reserved for keys"):
                await a.send(b"x", target=target, headers={"idempotency-key": b"1"})
        with pytest.raises(LocalError, match="reserved"):
            await a.call(b"x", timeout_s=1.0, headers={"idempotency-key": b"1"})


def test_a_unicast_with_a_key_header_has_no_key() -> None:
    keys = MessageKeys()
    batch = Batch("NYC", address("A"), Scope.UNICAST, 1, 1, keyed_body(b"x", key=b"1"), address("B"))
    assert not is_repeat(keys, batch)
    assert not is_repeat(keys, batch)


async def test_a_known_key_is_found_as_fast_when_older_keys_are_evicted(autojump_clock: MockClock) -> None:
    def fastest() -> float:
        times = [timeit(lambda: keys.known(b"none"), number=100) for _ in range(20)]
        return min(times)

    keys = MessageKeys(keys_max=65_536)
    batches = [batch_of_keys(range(first, first + 4_096)) for first in range(0, 81_920, 4_096)]
    for batch in batches[:16]:
        keys.unseen(batch)
    before = fastest()
    for batch in batches[16:]:
        keys.unseen(batch)
    assert keys.level().now == 65_536
    assert fastest() < 8 * before, "it took thirty times as long"


def batch_of_keys(numbers: range) -> Batch:
    bodies = [wrap(Envelope(headers={KEY: b"key %d" % number}), b"") for number in numbers]
    return Batch("NYC", address("A"), Scope.ALL, numbers.start + 1, len(numbers), pack_body(bodies, envelopes=True))


async def test_a_silent_repeat_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        for _ in range(20):
            await a.send(b"x", key=b"the same", loopback=False)
        await a.send(b"last")
        assert (await take(a, 1))[0].payload == b"last"
        assert [each.payload for each in await take(b, 2)] == [b"x", b"last"]
        assert len(a._batching._silent) == 0


async def test_a_keyed_message_that_became_a_gap_is_shown_when_it_is_sent_again(autojump_clock: MockClock) -> None:
    async with members("A", "X", config=with_policy("gap")) as (a, x), trio.open_nursery() as nursery:

        async def discard() -> None:
            async for _ in a:
                pass

        nursery.start_soon(discard)
        await a.send(b"the order", key=b"order 7")
        for _ in range(60):
            await a.send(bytes(4_000))
        await trio.sleep(10)
        assert not (await a.flushed(timeout_s=5)).everywhere
        await a.send(b"the order", key=b"order 7")
        gaps = 0
        async for event in x:
            gaps += isinstance(event, Gap)
            if isinstance(event, Message) and event.payload == b"the order":
                break
        assert gaps > 0
        nursery.cancel_scope.cancel()
