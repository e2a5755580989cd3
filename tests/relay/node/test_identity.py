"""A member is the same object of comparison wherever an application meets it, in its own site and in another."""

from __future__ import annotations

from itertools import product

import trio

from relay.events import GlobalView
from relay.node.channel import RelayChannel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message
from sitestack.model.view import View
from tests.harness.channels import members, take
from tests.relay.node.test_relay_channel import two_sites


async def _ways_in_views(channel: RelayChannel, of: RelayChannel) -> dict[str, Address]:
    """Return the addresses of member `of` in the views of a channel, by the place that shows it."""
    assert channel.global_view is not None
    rank = channel.global_view.names.index(of.name)
    ways: dict[str, Address] = {"GlobalView.members": channel.global_view.members[rank]}
    if channel.site == of.site:
        ways["View.members"] = channel.view.members[channel.view.names.index(of.name)]
    return ways


async def _ways_in_events(channel: RelayChannel, of: RelayChannel) -> dict[str, Address]:
    """Return the same of the events: a message, a batch, and a unicast."""
    await of.send(b"one")
    [message] = await take(channel, 1)
    await of.send(b"two")
    delivery = await anext(channel.batches())
    assert isinstance(delivery, Delivery)
    ways: dict[str, Address] = {"Message.source": message.source, "Delivery.source": delivery.source}
    ways["MessageId.origin"] = message.id.origin
    await of.send(b"three", target=channel.me)
    ways["source of a unicast"] = (await take(channel, 1))[0].source
    ways["Gap.origin"] = Gap(of.site, message.id.origin, 1, 1, GapReason.BACKLOG, message.scope).origin
    return ways


async def _drain(channel: RelayChannel) -> None:
    async for event in channel:
        if isinstance(event, Message) and event.call:
            await channel.answer(event, b"yes")


async def test_every_address_of_a_member_is_equal_to_every_other_one() -> None:
    """Property: over all ways to get an address of A, at A, beside A and in another site, all pairs are equal."""
    async with two_sites() as (_, channels):
        a, b, d = channels["A"], channels["B"], channels["D"]
        ways: dict[str, Address] = {"Channel.me": a.me, "Channel.address": a.address, "View.coordinator": a.view.coordinator}
        ways["ViewId.creator"] = b.view.id.creator
        for channel in (a, b, d):
            found = {**await _ways_in_views(channel, a), **await _ways_in_events(channel, a)}
            ways |= {f"{place} at {channel.name}": address for place, address in found.items()}
            for other in channels.values():
                if other is not channel:  # their copies of the two multicasts
                    await take(other, 2)
        async with trio.open_nursery() as nursery:
            for each in channels.values():
                nursery.start_soon(_drain, each)
            for asking, (place, target) in product((a, b, d), list(ways.items())):
                if asking.site == a.site or isinstance(target, ProxyUUID):
                    result = await asking.call(b"?", [target], timeout_s=10)
                    assert result.answers[target] == b"yes", (asking.name, place)
                    ways[f"answer to {asking.name}"] = next(iter(result.answers))
            for asking in (b, d):
                confirmed = await asking.flushed(timeout_s=10)
                ways[f"flushed at {asking.name}"] = confirmed.has[confirmed.has.index(a.me)]
            nursery.cancel_scope.cancel()
        for (here, left), (there, right) in product(ways.items(), repeat=2):
            assert left == right, (here, there)
            assert hash(left) == hash(right), (here, there)
        assert len(set(ways.values())) == 1
        assert {str(each) for each in ways.values() if isinstance(each, ProxyUUID)} == {"A@NYC"}


async def test_a_member_knows_whether_it_leads() -> None:
    async with two_sites() as (_, channels):
        everywhere = channels["E"].global_view
        assert isinstance(everywhere, GlobalView)
        assert [name for name, channel in channels.items() if everywhere.members[0] == channel.me] == ["A"]
        assert [name for name, channel in channels.items() if channel.is_coordinator] == ["A", "D"]
        assert [channels["B"].view.is_coordinator(channels[name].me) for name in "ABD"] == [True, False, False]


async def test_another_site_that_names_the_uuid_of_a_member_here_is_not_that_member() -> None:
    async with members("A", "B") as [a, b]:
        forged = ProxyUUID(a.me, "SFO")
        assert forged != a.me
        assert forged not in a.view.members
        assert a.name_of(forged) == f"SFO/{a.me.original}"
        await b.send(b"to A", target=a.me)
        await b.send(b"to nobody", target=forged)
        await b.send(b"to A again", target=a.me)
        assert [message.payload for message in await take(a, 2)] == [b"to A", b"to A again"]


async def test_a_merge_view_shows_its_parts_with_their_site() -> None:
    async with members("A", "B") as [a, b]:
        [event] = [each for each in [await anext(a)] if isinstance(each, View)]
        assert event.members == (a.me,)
        assert [type(each) for each in b.view.members] == [ProxyUUID, ProxyUUID]
