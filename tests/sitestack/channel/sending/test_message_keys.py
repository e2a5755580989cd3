"""Messages with keys: sent again, by whomever, they are shown once."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.model.envelope import KEY_BYTES_MAX
from sitestack.model.errors import LocalError
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.addresses import address
from tests.harness.channels import members, take
from tests.harness.keyed import keyed_body


def batch_of(key: bytes, n: int = 1, payload: bytes = b"x") -> Batch:
    return Batch("NYC", address("A"), Scope.ALL, n, 1, keyed_body(payload, key=key))


@pytest.mark.parametrize("scope", ["all", "site"])
async def test_of_two_copies_by_two_members_everybody_is_shown_the_first(autojump_clock: MockClock, scope: str) -> None:
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


async def test_who_gives_up_waiting_for_a_key_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    keys = MessageKeys()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.delivered, b"1")
        for key in (b"1", b"2"):
            with trio.move_on_after(1):
                await keys.delivered(key)
        assert keys.awaited == 1, "one is still waiting for the first"
        assert not keys.is_repeat(batch_of(b"1"))
    assert keys.awaited == 0


async def test_a_key_is_for_a_multicast_and_short(autojump_clock: MockClock) -> None:
    async with members("A") as (a,):
        with pytest.raises(LocalError, match="only a multicast can have a key"):
            await a.send(b"x", target=a.address, key=b"k")
        with pytest.raises(LocalError, match="at most 128 bytes, not 129"):
            await a.send(b"x", key=bytes(129))


async def test_keys_are_forgotten_by_number_and_by_age(autojump_clock: MockClock) -> None:
    keys = MessageKeys(keys_max=2, age_s=10)
    assert [keys.is_repeat(batch_of(key, n)) for n, key in enumerate([b"1", b"2", b"2", b"3"], 1)] == [
        False,
        False,
        True,
        False,
    ]
    assert (keys.known(b"1"), keys.level().now, keys.level().high) == (None, 2, 2)
    await trio.sleep(11)
    assert keys.known(b"2") is None
    assert not keys.is_repeat(batch_of(b"3", 5))
    assert keys.repeats == 1


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=KEY_BYTES_MAX))
def test_a_key_is_at_the_end_of_a_body_and_no_part_of_the_message(payload: bytes, key: bytes) -> None:
    batch = batch_of(key, payload=payload)
    assert (list(batch.payloads()), batch.key) == ([payload], key)


def test_what_is_too_long_for_a_key_is_none_and_a_batch_of_several_has_none() -> None:
    batch = batch_of(bytes(KEY_BYTES_MAX + 1))
    assert (batch.key, list(batch.payloads())) == (b"", [b"x"])
    two = Batch("NYC", address("A"), Scope.ALL, 1, 2, keyed_body(b"1", b"2", key=b"key"))
    assert (two.key, list(two.payloads())) == (b"", [b"1", b"2"])
    broken = Batch("NYC", address("A"), Scope.ALL, 1, 1, pack_body([b"\xff"], envelopes=True))
    assert broken.key == b""
