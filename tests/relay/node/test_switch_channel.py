"""A site is taken offline and online again over real connections, at whichever member its operator asks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace

import pytest
import trio
from structlog.testing import capture_logs

from relay.events import SiteSwitched, SwitchSite
from relay.node.bridge.bridge import BridgeConfig
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings
from sitestack.model.address import Physical, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take
from tests.harness.sockets import free_port, free_ports, until
from tests.relay.node.test_relay_channel import QUICK, World, sees, two_sites


async def test_a_message_to_an_offline_site_is_a_gap_there_and_later_messages_arrive() -> None:
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


async def test_a_lost_switch_request_is_resent_until_it_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Event] = []
    async with two_sites() as (_, channels):
        with monkeypatch.context() as deaf:
            deaf.setattr("relay.node.channel.SWITCH_S", 0.5)
            deaf.setattr("relay.node.channel.SWITCH_AGAIN_S", 0.01)
            deaf.setattr(channels["B"], "_hand_in", said.append)
            assert not await channels["B"].switch_site("SFO", offline=True)
    assert len(said) > 1
    assert set(said) == {SwitchSite("SFO", True)}


class Strangers(World):
    """Two sites without peers until a test adds them."""

    def __init__(self) -> None:
        super().__init__({"NYC": ("A",), "SFO": ("D",)})
        self.peers: dict[str, dict[str, tuple[Physical, ...]]] = {"NYC": {}, "SFO": {}}

    def config(self, site: str, name: str) -> NodeConfig:
        config = super().config(site, name)
        bridge = replace(config.relay.bridge, peers=self.peers[site])
        return replace(config, relay=replace(config.relay, bridge=bridge))


async def test_peers_of_running_members_are_called_moved_and_left() -> None:
    world = Strangers()
    with trio.fail_after(30), capture_logs() as logs:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(world.member("NYC", "A"))
            d = await stack.enter_async_context(world.member("SFO", "D"))
            world.peers["SFO"] = {"NYC": (Physical("127.0.0.1", world.ports["A"]),)}
            d._change_peers(world.config("SFO", "D"))
            world.peers["NYC"] = {"SFO": (Physical("127.0.0.1", free_port()),)}
            a._change_peers(world.config("NYC", "A"))
            await sees(a, "A", "D")
            await a.send(b"hello")
            assert [message.payload for message in await take(d, 1)] == [b"hello"]
            assert await a.switch_site("SFO", offline=False)
            world.peers["NYC"] = {}
            a._change_peers(world.config("NYC", "A"))
            await until(lambda: a.role is not None and not a.role.sites)
            with pytest.raises(LocalError, match="SFO is not configured as a peer"):
                await a.switch_site("SFO", offline=True)
    said = [line["event"] for line in logs if line.get("site") == "SFO"]
    assert said[0] == "peer added"
    assert "peer removed" in said


class Hasty(World):
    """Two sites of one member that miss each other after a moment."""

    def config(self, site: str, name: str) -> NodeConfig:
        config = super().config(site, name)
        return replace(config, relay=replace(config.relay, grace_s=0.2))


async def test_a_site_without_a_link_is_a_problem_unless_it_is_offline() -> None:
    world = Hasty({"NYC": ("A",), "SFO": ("D",)})
    with trio.fail_after(30):
        async with world.member("NYC", "A") as a:
            async with world.member("SFO", "D"):
                await sees(a, "A", "D")
                assert a.problems() == {}
            await sees(a, "A")
            assert a.problems()["relay.bridge.peers.SFO"] == "there is no link"
            assert await a.switch_site("SFO", offline=True)
            assert "relay.bridge.peers.SFO" not in a.problems()


def chain() -> dict[str, NodeConfig]:
    """NYC - LON - SFO, a member each."""
    places = {site: Physical("127.0.0.1", port) for site, port in zip(("NYC", "LON", "SFO"), free_ports(3), strict=True)}
    neighbours = {"NYC": ("LON",), "LON": ("NYC", "SFO"), "SFO": ("LON",)}
    via = {"NYC": {"SFO": "LON"}, "SFO": {"NYC": "LON"}, "LON": {}}
    configs = {}
    for site, place in places.items():
        peers: dict[str, tuple[Physical, ...]] = {each: (places[each],) for each in neighbours[site]}
        forward = ("NYC", "SFO") if site == "LON" else ()
        bridge = BridgeConfig(bind=place, peers=peers, via=via[site], forward=forward)
        configs[site] = replace(QUICK, site=site, name=site[0], relay=RelaySettings(bridge=bridge, dial_s=0.05, dial_s_max=0.2))
    return configs


def member(config: NodeConfig) -> AbstractAsyncContextManager[RelayChannel]:
    return open_channel(config, transport=MemoryNetwork().open())


@pytest.mark.conforms("REL-33")
async def test_multicasts_and_unicasts_reach_the_other_end() -> None:
    configs = chain()
    with trio.fail_after(30):
        async with member(configs["NYC"]) as nyc, member(configs["LON"]) as lon, member(configs["SFO"]) as sfo:
            for channel in (nyc, lon, sfo):
                await sees(channel, "N", "L", "S")
            await nyc.send(b"from one end")
            large = b"x" * 3_000_000
            await sfo.send(large)
            assert sorted([message.payload for message in await take(lon, 2)]) == [b"from one end", large]
            assert sorted([message.payload for message in await take(nyc, 2)]) == [b"from one end", large]
            await nyc.send(b"to you", target=ProxyUUID(sfo.address, "SFO"))
            assert sorted([message.payload for message in await take(sfo, 3)]) == [b"from one end", b"to you", large]
