"""Sites whose relays can only call, and meet at gossip routers: real sockets on the loopback interface, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from relay.keys.directory import read_key_ring
from relay.node.bridge.bridge import BridgeConfig
from relay.node.bridge.router_calls import RouterCalls, RouterFailed, call
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings, SecuritySettings
from sitestack.model.address import Physical
from sitestack.seal.proofs import Proofs
from sitestack.transport.memory import MemoryNetwork
from sitestack.wire import routing
from sitestack.wire.routing import framed
from tests.harness.channels import take
from tests.harness.sockets import free_port, until
from tests.relay.node.test_relay_channel import QUICK, sees
from tests.relay.router.routers import ANY_PORT, Served

LIMIT_S = 45


@asynccontextmanager
async def routers(count: int, keys: Path | None) -> AsyncIterator[list[Served]]:
    """Routers that serve both sites."""
    sites = {site: None if keys is None else Proofs(site, read_key_ring(keys / site)) for site in ("NYC", "SFO")}
    async with trio.open_nursery() as nursery:
        yield [Served(ANY_PORT, sites, nursery) for _ in range(count)]
        nursery.cancel_scope.cancel()


def config(site: str, name: str, at: Sequence[Physical], keys: Path | None) -> NodeConfig:
    """Return a member that cannot be called: it has no port for the bridge."""
    [other] = {"NYC", "SFO"} - {site}
    relay = RelaySettings(bridge=BridgeConfig(peers={other: tuple(at)}, routers=tuple(at)), dial_s=0.05, dial_s_max=0.2)
    security = SecuritySettings(insecure=True) if keys is None else SecuritySettings(keys=str(keys / site))
    return replace(QUICK, site=site, name=name, relay=relay, security=security)


@asynccontextmanager
async def two_sites(count: int, keys: Path | None) -> AsyncIterator[tuple[list[Served], list[RelayChannel]]]:
    """Start A and B in NYC, D and E in SFO, with so many routers, until all see each other."""
    with trio.fail_after(LIMIT_S):
        async with routers(count, keys) as places, AsyncExitStack() as stack:
            channels = []
            at = [each.place for each in places]
            for site, names in {"NYC": "AB", "SFO": "DE"}.items():
                network = MemoryNetwork()
                for name in names:
                    member = open_channel(config(site, name, at, keys), transport=network.open())
                    channels.append(await stack.enter_async_context(member))
            for channel in channels:
                await sees(channel, "A", "B", "D", "E")
            yield places, channels


async def send_and_take(channels: list[RelayChannel], word: bytes, count: int = 20) -> None:
    """Each sends; each takes all."""
    for n in range(count):
        for channel in channels:
            await channel.send(b"%s %s %d" % (channel.name.encode(), word, n))
    for channel in channels:
        taken = [message.payload for message in await take(channel, count * len(channels))]
        for sender in channels:
            own = [payload for payload in taken if payload.startswith(sender.name.encode())]
            assert own == [b"%s %s %d" % (sender.name.encode(), word, n) for n in range(count)]


async def test_messages_cross_though_neither_site_can_be_called(keys: Path | None) -> None:
    async with two_sites(1, keys) as (places, channels):
        await send_and_take(channels, b"first")
        large = b"x" * 1_000_000
        await channels[0].send(large)
        for channel in channels:
            assert [message.payload for message in await take(channel, 1)] == [large]
        [spliced] = places[0].server.router.switchboard.splices()
        assert spliced.carried_bytes > len(large)
        assert {spliced.called_site, spliced.calling_site} == {"NYC", "SFO"}
        bridge = channels[0].statistics().bridge
        assert (bridge.listening, bridge.routers_waiting) == (False, 1)


async def test_the_link_moves_to_the_other_router_when_its_own_is_killed_and_nothing_is_lost(key_directory: Path) -> None:
    async with two_sites(2, key_directory) as (places, channels):
        for word in (b"one", b"two", b"three"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_and_take, channels, word)
                # Each site may have called by way of another router; one of the two links ends at once.
                await until(lambda: sum(bool(each.server.router.switchboard.splices()) for each in places) == 1)
                [used] = [each for each in places if each.server.router.switchboard.splices()]
                used.kill()
            await used.start_again()
            # Until both wait at the killed router again, so that the other one may be killed next.
            await until(lambda: all(channels[at].statistics().bridge.routers_waiting == 2 for at in (0, 2)))
        assert [channel.problems().get("relay.bridge.routers") for channel in channels] == [None] * 4


async def test_the_only_router_is_started_again_under_load_and_nothing_is_lost(key_directory: Path) -> None:
    async with two_sites(1, key_directory) as ([only], channels):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_and_take, channels, b"meanwhile", 50)
            only.kill()
            await until(lambda: bool(channels[0].problems().get("relay.bridge.routers")))
            await only.start_again()
        assert only.server.router.switchboard.spliced > 0


async def test_the_next_relay_of_a_site_is_called_by_way_of_the_router() -> None:
    with trio.fail_after(LIMIT_S):
        async with routers(1, None) as [only], AsyncExitStack() as stack:
            network = MemoryNetwork()
            channels = [
                await stack.enter_async_context(open_channel(config(site, name, [only.place], None), transport=to.open()))
                for site, name, to in (("NYC", "B", network), ("SFO", "D", MemoryNetwork()))
            ]
            b, d = channels
            async with open_channel(config("NYC", "A", [only.place], None), transport=network.open()):
                await sees(d, "A", "B", "D")
                await b.leave()
                await sees(d, "A", "D")
                await d.send(b"to the next one")


async def test_the_fault_of_each_router_is_reported(key_directory: Path) -> None:
    """One that is not there, one without the key, and one that does not serve the other site."""
    ring, wrong = read_key_ring(key_directory / "NYC"), read_key_ring(key_directory / "SFO")
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            half = Served(ANY_PORT, {"NYC": Proofs("NYC", ring)}, nursery)
            alien = Served(ANY_PORT, {"NYC": Proofs("NYC", wrong)}, nursery)
            gone = Physical("127.0.0.1", free_port())
            async with open_channel(
                config("NYC", "A", [half.place, alien.place, gone], key_directory), transport=MemoryNetwork().open()
            ) as channel:
                wanted = [
                    f"{half.place} (it does not serve SFO: start it with the file of that site, too)",
                    f"{alien.place} (it does not serve NYC, or has no key of it)",
                    f"{gone} (connection refused)",
                ]
                await until(lambda: all(each in channel.problems().get("relay.bridge.routers", "") for each in wanted))
                assert channel.statistics().bridge.routers_waiting == 1
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ends", ["the router starts again", "the relay stops"])
async def test_a_router_that_did_not_serve_a_site_is_reported_until_it_starts_again(ends: str) -> None:
    """Then the other site may call, so that this one has no reason to."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            half = Served(ANY_PORT, {"NYC": None}, nursery)
            calls = RouterCalls([half.place], "NYC", None)
            calls.start_waiting(trio.aclose_forcefully, nursery)
            with pytest.raises(RouterFailed, match="it does not serve SFO"):
                await calls.call(half.place, "SFO")
            await until(lambda: bool(calls.waiting))
            assert "it does not serve SFO" in calls.problem()
            if ends == "the relay stops":
                calls.stop_waiting()
            else:
                half.kill()
                await until(lambda: not calls.waiting)
                await half.start_again()
                await until(lambda: bool(calls.waiting))
            assert calls.problem() == ""
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("frames", "sentence"),
    [
        ((), "it closed the connection"),
        ((b"\x00\x00\x00\x00",), "it does not use the router protocol"),
        ((b"\xff\xff\xff\x7f",), "it does not use the router protocol"),
        ((framed(b"HTTP/1.1 400 Bad Request"),), "it does not use the router protocol"),
        ((framed(routing.challenge(bytes(16))), framed(bytes(36)), framed(routing.SPLICED)), ""),
        (
            (framed(routing.challenge(bytes(16))), framed(bytes(36)), framed(routing.PONG)),
            "it does not use the router protocol",
        ),
        ((framed(routing.challenge(bytes(16))), framed(b"no proof")), "it does not prove that it has a key of NYC"),
    ],
)
async def test_an_invalid_router_answer_raises_and_a_valid_one_connects(frames: tuple[bytes, ...], sentence: str) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        for frame in frames:
            for byte in frame:
                await stream.send_all(bytes([byte]))

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
            place = Physical("127.0.0.1", listener.socket.getsockname()[1])
            if sentence:
                with pytest.raises(RouterFailed, match=sentence):
                    await call(place, "NYC", None, "SFO")
            else:
                await trio.aclose_forcefully(await call(place, "NYC", None, "SFO"))
            nursery.cancel_scope.cancel()
