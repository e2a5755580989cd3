"""A machine gets another address while a member runs: it moves there with its UUID, and no member misses it."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.channel.presence import residence
from sitestack.channel.presence.sockets import resolve_names
from sitestack.config import SiteConfig
from sitestack.model.address import Physical
from sitestack.model.message import Message
from sitestack.model.view import View
from sitestack.seal.key_ring import KeyRing
from sitestack.transport.udp import UdpStatistics, UdpTransport
from sitestack.transport.watch import WatchStatistics
from tests.harness.channels import together
from tests.harness.messages import present
from tests.harness.sockets import until
from tests.sitestack.channel.test_channel_udp import config

#: The loopback interface has all of these: where each lives, and where the one that moves goes.
HOMES = {"A": "127.0.0.2", "B": "127.0.0.3", "C": "127.0.0.4"}
ELSEWHERE = "127.0.0.5"


async def test_names_are_resolved_before_a_member_starts() -> None:
    named = replace(SiteConfig(site="NYC").discovery, initial_hosts=(Physical("localhost", 7800),))
    found, _ = await resolve_names(replace(SiteConfig(site="NYC"), discovery=named))
    assert found.discovery.initial_hosts[0] in (Physical("127.0.0.1", 7800), Physical("::1", 7800))
    assert found.discovery.routers == ()


class Reader:
    """Events of a member."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.words: list[bytes] = []
        self.views: list[View] = []

    async def read(self) -> None:
        async for event in self.channel:
            if isinstance(event, Message):
                self.words.append(event.payload)
            elif isinstance(event, View):
                self.views.append(event)


def watched(channel: Channel) -> WatchStatistics:
    watcher = present(channel._residence.watcher)
    return watcher.statistics()


def moves(channel: Channel) -> int:
    statistics = channel.statistics().transport
    assert isinstance(statistics, UdpStatistics)
    return statistics.moves


def at(site: SiteConfig, name: str) -> SiteConfig:
    return replace(site, transport=replace(site.transport, interface=HOMES[name]))


@pytest.mark.slow
@pytest.mark.conforms("LA-4")
@pytest.mark.parametrize("keys", [None, KeyRing.of(bytes(32))], ids=["plain", "sealed"])
@pytest.mark.parametrize("mover", ["A", "C"])
async def test_a_member_continues_at_a_new_address_without_loss_or_view_change(
    mover: str, keys: KeyRing | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F42: A coordinates. All send all the time."""
    gone: set[str] = set()
    silent = keep_former_listeners(monkeypatch)
    monkeypatch.setattr(residence, "is_here", lambda host: host not in gone)
    monkeypatch.setattr(residence, "find_host", lambda _: ELSEWHERE if gone else None)
    site = config()
    with trio.fail_after(60):
        openings = [open_channel(at(site, name), name=name, keys=keys) for name in HOMES]
        async with together(*openings) as channels, trio.open_nursery() as nursery:
            readers = [Reader(channel) for channel in channels]
            for reader in readers:
                nursery.start_soon(reader.read)
            await go_and_look(dict(zip(HOMES, channels, strict=True)), readers, mover, gone)
            nursery.cancel_scope.cancel()
    for listener in silent:
        listener.close()


def keep_former_listeners(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """An address that a machine no longer has refuses nothing: it is silent. The loopback interface still has it."""
    kept: list[socket.socket] = []
    move = UdpTransport.move

    def keep(transport: UdpTransport, host: str) -> socket.socket | None:
        former = move(transport, host)
        if former is not None:
            kept.append(former.dup())
        return former

    monkeypatch.setattr(UdpTransport, "move", keep)
    return kept


async def go_and_look(channels: dict[str, Channel], readers: list[Reader], mover: str, gone: set[str]) -> None:
    """While all send."""
    await until(lambda: all(watched(each).watching >= 1 for each in channels.values()))
    moved, sent = channels[mover], 0
    views = {name: channel.view for name, channel in channels.items()}

    async def say(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            for name, channel in channels.items():
                await channel.send(b"%s%d" % (name.encode(), sent))
            sent += 1
            await trio.sleep(0.005)

    await say(50)
    gone.add(HOMES[mover])
    while not moves(moved):
        await say(10)
    await say(50)
    assert [place.host for place in moved.transport.physical()] == [ELSEWHERE]
    for reader in readers:
        await until(lambda reader=reader: len(reader.words) >= 3 * sent)  # type: ignore[misc]
        for name in HOMES:
            own = [word for word in reader.words if word.startswith(name.encode())]
            assert own == [b"%s%d" % (name.encode(), number) for number in range(sent)]
        assert reader.words == readers[0].words, "one order"
    assert {name: channel.view for name, channel in channels.items()} == views
    await until(lambda: all(watched(each).watching >= 1 for each in channels.values()))


async def test_a_member_that_ends_while_it_moves_leaves_no_socket_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[socket.socket | None] = []
    move = UdpTransport.move
    monkeypatch.setattr(residence, "LOOK_S", 0.05)
    monkeypatch.setattr(residence, "is_here", lambda host: host == ELSEWHERE)
    monkeypatch.setattr(residence, "find_host", lambda _: ELSEWHERE)
    with trio.fail_after(30), trio.CancelScope() as scope:

        def keep(transport: UdpTransport, host: str) -> socket.socket | None:
            kept.append(move(transport, host))
            scope.cancel()
            return kept[-1]

        monkeypatch.setattr(UdpTransport, "move", keep)
        async with open_channel(at(config(), "A"), name="A"):
            await trio.sleep_forever()
    [former] = kept
    assert present(former).fileno() == -1


@pytest.mark.conforms("LA-4")
async def test_where_the_port_is_taken_a_member_waits_at_its_old_address_and_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(residence, "LOOK_S", 0.05)
    site = config()
    with trio.fail_after(30):
        async with open_channel(at(site, "A"), name="A") as a:
            port = a.transport.physical()[0].port
            with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as other:
                await other.bind((ELSEWHERE, port))
                monkeypatch.setattr(residence, "is_here", lambda host: host == ELSEWHERE)
                monkeypatch.setattr(residence, "find_host", lambda _: ELSEWHERE)
                await trio.sleep(0.3)
                assert a.transport.physical() == ((HOMES["A"], port),)
            await until(lambda: moves(a) == 1)
            assert a.transport.physical() == ((ELSEWHERE, port),)
            await a.send(b"x")
            while not isinstance(event := await anext(a), Message):
                pass
            assert event.payload == b"x"
