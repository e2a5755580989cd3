"""A site is taken offline and online again over real connections, at whichever member its operator asks."""

from __future__ import annotations

import pytest

from relay.events import SiteSwitched, SwitchSite
from sitestack.model.errors import LocalError
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message
from tests.harness.channels import take
from tests.relay.node.test_relay_channel import sees, two_sites


async def test_what_is_sent_while_a_site_is_offline_is_a_gap_there_and_what_follows_arrives() -> None:
    async with two_sites() as (_, channels):
        a, b, d = channels["A"], channels["B"], channels["D"]
        await b.send(b"before")
        await take(d, 1)
        assert await b.switch_site("SFO", offline=True)
        await sees(a, "A", "B")
        await b.send(b"missed")
        await take(a, 2)
        assert await a.switch_site("SFO", offline=True), "it is already"
        assert await a.switch_site("SFO", offline=False)
        await sees(a, "A", "B", "D", "E")
        await b.send(b"after")
        async for event in d:
            if isinstance(event, Gap):
                assert (event.origin, event.first, event.last, event.reason) == (b.address, 2, 2, GapReason.OFFLINE)
                break
        [after] = await take(d, 1)
        assert after.payload == b"after"
        told = []
        async for event in b:
            told += [event.is_offline] if isinstance(event, SiteSwitched) else []
            if isinstance(event, Message) and event.payload == b"after":
                break
        assert told == [True, False]


@pytest.mark.parametrize("site", ["NYC", "LAX"])
async def test_only_another_site_that_is_configured_can_be_taken_offline(site: str) -> None:
    async with two_sites() as (_, channels):
        with pytest.raises(LocalError, match=f"{site} is not configured as a peer"):
            await channels["A"].switch_site(site, offline=True)


async def test_a_word_that_nobody_hears_is_said_again_and_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Event] = []
    async with two_sites() as (_, channels):
        with monkeypatch.context() as deaf:
            deaf.setattr("relay.node.channel.SWITCH_S", 0.5)
            deaf.setattr("relay.node.channel.SWITCH_AGAIN_S", 0.01)
            deaf.setattr(channels["B"], "_hand_in", said.append)
            assert not await channels["B"].switch_site("SFO", offline=True)
    assert len(said) > 1
    assert set(said) == {SwitchSite("SFO", True)}
