"""Calls, headers, places and probes over two sites, with bridges over real TCP."""

from __future__ import annotations

import pytest
import trio

from relay.events import Certainty, Failure, GlobalView, Unreachable
from relay.node.channel import RelayChannel
from sitestack.calls.calls import CallResult, NoAnswer
from sitestack.model.address import AllOf, ProxyUUID, RelayOf
from sitestack.model.errors import LocalError
from sitestack.model.message import Message
from tests.harness.channels import take
from tests.relay.node.test_relay_channel import two_sites


async def answer_all(channel: RelayChannel) -> None:
    async for event in channel:
        if isinstance(event, Message) and event.call:
            await channel.answer(event, event.payload + channel.name.encode() + event.headers.get("mark", b""))


@pytest.mark.conforms("SEQ-19", "REL-18", "REL-34")
async def test_all_members_of_both_sites_answer_and_an_unknown_member_is_unreachable() -> None:
    async with two_sites() as (_, channels), trio.open_nursery() as nursery:
        for channel in channels.values():
            nursery.start_soon(answer_all, channel)
        e = channels["E"]
        result = await e.call(b"to ", timeout_s=20, headers={"mark": b"!"})
        assert result.enough
        assert {str(e.name_of(member)): answer for member, answer in result.answers.items()} == {
            "D": b"to D!",
            "E": b"to E!",
            "A@NYC": b"to A!",
            "B@NYC": b"to B!",
        }
        result = await e.call(b"", [AllOf("NYC"), RelayOf("SFO")], mode="each_site", timeout_s=20)
        assert result.enough
        assert len(result.answers) + len(result.late) == 3
        nobody = ProxyUUID(e.address, "NYC")
        result = await e.call(b"", [nobody, RelayOf("NYC")], timeout_s=20)
        assert result.unreachable == {nobody: NoAnswer.UNREACHABLE}
        assert list(result.answers.values()) == [b"A"]
        flushed = await e.flushed(timeout_s=20)
        assert (len(flushed.has), flushed.everywhere) == (4, True)
        assert (await e.flushed(every="site", timeout_s=20)).everywhere
        nursery.cancel_scope.cancel()


async def test_a_refused_unicast_to_a_member_ends_no_call_that_it_was_asked_by_a_multicast() -> None:
    async with two_sites() as (_, channels), trio.open_nursery() as nursery:
        e, a = channels["E"], channels["A"]
        results, ended = list[CallResult](), trio.Event()

        async def ask() -> None:
            results.append(await e.call(b"", timeout_s=20))
            ended.set()

        nursery.start_soon(ask)
        await trio.sleep(0.1)
        e._handle(Unreachable(a.me, 1, 1, Failure.QUEUE_FULL, Certainty.NOT_DELIVERED))
        for channel in channels.values():
            if channel is not a:
                nursery.start_soon(answer_all, channel)
        await trio.sleep(0.5)
        assert results == [], "one member has been asked and has not answered"
        nursery.start_soon(answer_all, a)
        await ended.wait()
        assert results[0].enough
        nursery.cancel_scope.cancel()


async def test_a_place_target_reaches_all_members_or_the_relay_of_another_site() -> None:
    async with two_sites() as (_, channels):
        a, d, e = channels["A"], channels["D"], channels["E"]
        await a.send(b"to both", target=AllOf("SFO"), headers={"h": b"1"})
        await a.send(b"to the relay", target=RelayOf("SFO"))
        assert [(message.payload, dict(message.headers)) for message in await take(d, 2)] == [
            (b"to both", {"h": b"1"}),
            (b"to the relay", {}),
        ]
        assert [message.payload for message in await take(e, 1)] == [b"to both"]
        with pytest.raises(LocalError, match="LON"):
            await a.send(b"x", target=AllOf("LON"))
        assert isinstance(a.global_view, GlobalView)
