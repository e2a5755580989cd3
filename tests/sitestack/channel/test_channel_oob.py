"""Messages out of band, as an application sends and receives them."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from sitestack.model.address import ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.message import Message, MessageId, Scope
from tests.harness.channels import members, take

pytestmark = pytest.mark.conforms("U2-18")


async def test_they_reach_their_target_once_and_are_numbered_apart(autojump_clock: MockClock) -> None:
    async with members("A", "B", "C") as (a, b, c):
        for n in range(50):
            await a.send(b"o%d" % n, target=b.address)
            await a.send(b"u%d" % n, target=b.address, oob=True)
        await a.send(b"all")
        taken = await take(b, 101)
        ordered = [message.payload for message in taken if message.scope is Scope.UNICAST]
        assert ordered == [b"o%d" % n for n in range(50)]
        urgent = [message for message in taken if message.scope is Scope.OOB]
        assert sorted(message.payload for message in urgent) == sorted(b"u%d" % n for n in range(50))
        assert Message(a.address, b"u0", MessageId("NYC", a.address, Scope.OOB, 1)) in urgent
        assert [message.payload for message in await take(c, 1)] == [b"all"]


async def test_one_to_oneself_and_one_to_a_proxy_of_a_member_arrive_like_any_other(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        await a.send(b"me", target=a.address, oob=True)
        await a.send(b"you", target=ProxyUUID(b.address, "NYC"), oob=True)
        assert [message.payload for message in await take(a, 1)] == [b"me"]
        assert [message.payload for message in await take(b, 1)] == [b"you"]


async def test_multicasts_and_messages_to_other_sites_cannot_be_out_of_band(autojump_clock: MockClock) -> None:
    async with members("A", "B") as (a, b):
        with pytest.raises(LocalError, match="only members of this site get messages out of band"):
            await a.send(b"x", oob=True)
        with pytest.raises(LocalError, match="in another site"):
            await a.send(b"x", target=ProxyUUID(b.address, "SFO"), oob=True)
        await a.send(b"y", target=b.address, oob=True)
        [y] = await take(b, 1)
        assert y.id.n == 1
