"""Two sites as an application sees them: datagrams in memory, the bridge over real TCP on the loopback interface."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio
from structlog.testing import capture_logs

from relay.events import Duty, GlobalView, Unreachable
from relay.node.bridge.bridge import BridgeConfig
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, RelaySettings, SecuritySettings
from relay.node.events import log_event
from sitestack.config import ProtocolsConfig
from sitestack.journal import records
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.errors import ConfigurationError
from sitestack.model.events import NarrowPath, Unreached
from sitestack.model.message import Scope
from sitestack.transport import clock
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take
from tests.harness.sockets import free_port

#: Real time passes in these tests, so all times are short.
QUICK = NodeConfig(
    security=SecuritySettings(insecure=True),
    discovery=DiscoveryConfig(join_wait_s=0.1, request_interval_s=0.05, settle_s=0.02),
    protocols=ProtocolsConfig(
        failure_detection=FailureDetectionConfig(heartbeat_interval_s=0.1, timeout_s=0.5, verify_timeout_s=0.3)
    ),
)
SITES: dict[str, tuple[str, ...]] = {"NYC": ("A", "B"), "SFO": ("D", "E")}


class World:
    """Which member is where, and the journals of all."""

    def __init__(self, sites: dict[str, tuple[str, ...]] = SITES) -> None:
        self.sites = sites
        self.networks = {site: MemoryNetwork() for site in sites}
        self.ports = {name: free_port() for names in sites.values() for name in names}
        self.journals: dict[str, list[records.Record]] = {}

    def config(self, site: str, name: str) -> NodeConfig:
        peers = {other: tuple([self._place(each) for each in names]) for other, names in self.sites.items() if other != site}
        bridge = BridgeConfig(bind=self._place(name), peers=peers)
        relay = RelaySettings(bridge=bridge, dial_s=0.05, dial_s_max=0.2)
        return replace(QUICK, site=site, name=name, relay=relay)

    @asynccontextmanager
    async def member(self, site: str, name: str) -> AsyncIterator[RelayChannel]:
        journal = self.journals.setdefault(name, [])
        async with open_channel(
            self.config(site, name), journal=lambda local: journal.append, transport=self.networks[site].open()
        ) as channel:
            yield channel

    def _place(self, name: str) -> Physical:
        return Physical("127.0.0.1", self.ports[name])


async def sees(channel: RelayChannel, *names: str) -> GlobalView:
    """Wait until the channel's global view has exactly these members, in any order."""
    while channel.global_view is None or sorted(channel.global_view.names) != sorted(names):  # noqa: ASYNC110 (no event)
        await trio.sleep(0.01)
    return channel.global_view


@asynccontextmanager
async def two_sites() -> AsyncIterator[tuple[World, dict[str, RelayChannel]]]:
    """Start A and B in NYC, D and E in SFO, until all see each other. A and D relay."""
    world = World()
    with trio.fail_after(30):
        async with AsyncExitStack() as stack:
            channels = {
                name: await stack.enter_async_context(world.member(site, name))
                for site, names in SITES.items()
                for name in names
            }
            for channel in channels.values():
                await sees(channel, "A", "B", "D", "E")
            yield world, channels


@pytest.mark.conforms("REL-6", "REL-30", "USR-2")
async def test_a_multicast_reaches_the_other_site_once_and_can_be_answered() -> None:
    async with two_sites() as (_, channels):
        a, e = channels["A"], channels["E"]
        for n in range(500):
            await a.send(b"%d" % n)
        for channel in channels.values():
            taken = await take(channel, 500)
            assert [message.payload for message in taken] == [b"%d" % n for n in range(500)]
        source = taken[-1].source
        assert taken[-1].sender == str(source) == "A@NYC"
        assert isinstance(source, ProxyUUID)
        assert (source.site, source.original) == ("NYC", a.address)
        await e.send(b"to A alone", target=source)
        [answer] = await take(a, 1)
        assert (answer.payload, answer.scope, str(answer.source)) == (b"to A alone", Scope.UNICAST, "E@SFO")


async def test_a_message_for_the_site_stays_in_it() -> None:
    async with two_sites() as (_, channels):
        await channels["B"].send(b"here", scope="site")
        assert [message.payload for message in await take(channels["A"], 1)] == [b"here"]
        await channels["B"].send(b"everywhere")
        assert [message.payload for message in await take(channels["D"], 1)] == [b"everywhere"]


async def test_roles_global_views_and_unreachable_targets_are_reported_and_journaled() -> None:
    async with two_sites() as (world, channels):
        a, b = channels["A"], channels["B"]
        assert a.role is not None
        assert (a.role.duty, a.role.sites, b.role) == (Duty.RELAY, ("SFO",), None)
        assert a.levels()["bridge.connections"].now == 1
        assert a.global_view == channels["E"].global_view
        stranger = ProxyUUID(a.address, "SFO")
        await b.send(b"for nobody", target=stranger)
        failures = [event async for event in _until(b, Unreachable)]
        assert [(failure.target, failure.first, failure.last) for failure in failures] == [(stranger, 1, 1)]
        await b.leave()
    kinds = [type(record).__name__ for record in world.journals["B"]]
    assert kinds[0] == "Start"
    assert kinds[-1] == "Stop"
    assert {"GlobalView", "Unreach", "View"} <= set(kinds)
    roles = [(record.role, record.to) for record in world.journals["A"] if isinstance(record, records.Role)]
    assert roles[0] == ("coord", ())
    assert ("relay", ("SFO",)) in roles


async def _until(channel: RelayChannel, kind: type[Unreachable]) -> AsyncIterator[Unreachable]:
    async for event in channel:
        if isinstance(event, kind):
            yield event
            return


class Process:
    """A member in a separate task. It can leave, or be killed: cancelling sends no notice, as a crash does."""

    def __init__(self) -> None:
        self.life = trio.CancelScope()
        self.leave = trio.Event()

    async def run(
        self, world: World, site: str, name: str, task_status: trio.TaskStatus[RelayChannel] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with self.life:
            async with world.member(site, name) as channel:
                task_status.started(channel)
                await self.leave.wait()


@pytest.mark.conforms("REL-13")
@pytest.mark.parametrize("graceful", [True, False], ids=["leaves", "crashes"])
async def test_when_the_relay_goes_nothing_is_lost_doubled_or_reordered(graceful: bool) -> None:
    world, relay, total = World(), Process(), 3_000
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            a: RelayChannel = await nursery.start(relay.run, world, "NYC", "A")
            async with world.member("NYC", "B") as b, world.member("SFO", "D") as d, world.member("SFO", "E") as e:
                for channel in (a, b, d, e):
                    await sees(channel, "A", "B", "D", "E")

                async def talk() -> None:
                    for n in range(total):
                        await b.send(b"%d" % n)
                        if n % 100 == 0:
                            await trio.sleep(0.01)

                nursery.start_soon(talk)
                taken = await take(d, total // 4)
                if graceful:
                    relay.leave.set()
                else:
                    relay.life.cancel()
                taken += await take(d, total - total // 4)
                assert [message.payload for message in taken] == [b"%d" % n for n in range(total)]
                assert await take(e, total) == taken
                assert b.role is not None
                assert b.role.duty is Duty.RELAY


@pytest.mark.conforms("USR-1")
async def test_leaving_and_cancelling_leave_no_task_and_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with two_sites() as (_, channels):
        assert channels["A"].levels()["bridge.connections"].now == 1
    with trio.CancelScope() as scope:
        async with two_sites():
            scope.cancel()
            await trio.sleep_forever()
    assert set(os.listdir("/proc/self/fd")) == before
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_a_site_alone_needs_no_bridge() -> None:
    with trio.fail_after(10):
        config = replace(QUICK, site="NYC", name="A")
        async with open_channel(config, transport=MemoryNetwork().open()) as a:
            await sees(a, "A")
            await a.send(b"x")
            await take(a, 1)
            assert not a.statistics().bridge.listening


async def test_lags_are_of_the_clock_that_counts_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    with trio.fail_after(10):
        async with open_channel(replace(QUICK, site="NYC", name="A"), transport=MemoryNetwork().open()) as a:
            before_s, passed = clock.suspended_s(), list[float]()
            monkeypatch.setattr(clock, "suspended_s", lambda: before_s + 250.0)
            monkeypatch.setattr(a._relay, "pass_time", passed.append)
            assert (a.lags, a.statistics().bridge.listening) == ({}, False)
            assert [time > trio.current_time() + 200.0 for time in passed] == [True, True]


async def test_a_peer_that_cannot_be_right_is_logged_for_the_operator() -> None:
    world = World()
    with trio.fail_after(10), capture_logs() as logs:
        async with world.member("NYC", "A"):
            config = world.config("SFO", "D")
            wrong = {"LON": config.relay.bridge.peers["NYC"]}
            relay = replace(config.relay, bridge=replace(config.relay.bridge, peers=wrong))
            async with open_channel(replace(config, relay=relay), transport=world.networks["SFO"].open()):
                while not logs:  # noqa: ASYNC110 (logs have no event)
                    await trio.sleep(0.01)
    assert (logs[0]["log_level"], logs[0]["event"]) == ("error", "bridge misconfigured")
    assert logs[0]["problem"].endswith(".")


async def test_a_process_with_other_parameters_is_logged_for_the_operator() -> None:
    world = World()
    with trio.fail_after(10), capture_logs() as logs:
        async with world.member("NYC", "A"):
            with pytest.raises(ConfigurationError, match="A runs the site NYC with order total, agreement survivors"):
                async with open_channel(
                    replace(world.config("NYC", "B"), order="fifo"), name="B", transport=world.networks["NYC"].open()
                ):
                    pass
    [line] = logs
    assert (line["log_level"], line["name"], line["parameters"]) == ("error", "B", "order fifo, agreement survivors")


def test_events_for_the_operator_are_logged() -> None:
    stranger = Address(bytes(16))
    with capture_logs() as logs:
        for event in (Unreached((stranger,), ("Z",), "merge"), *[NarrowPath(stranger, "Z", size) for size in (1_400, None)]):
            log_event(event)
    silent, narrow, whole = logs
    assert (silent["log_level"], silent["names"], silent["attempt"]) == ("warning", ["Z"], "merge")
    assert (narrow["log_level"], narrow["name"], narrow["bytes_max"], whole["log_level"]) == ("warning", "Z", 1_400, "info")


async def test_a_configuration_with_problems_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"relay\.dial_s_max"):
        async with open_channel(replace(QUICK, site="NYC", relay=RelaySettings(dial_s=9))):
            pass


@pytest.mark.conforms("REL-28")
async def test_a_multicast_that_the_relay_itself_does_not_want_back_is_relayed() -> None:
    async with two_sites() as (_, channels):
        a, e = channels["A"], channels["E"]
        await a.send(b"not for me", loopback=False)
        await a.send(b"for all")
        for channel in (channels["B"], channels["D"], e):
            assert [message.payload for message in await take(channel, 2)] == [b"not for me", b"for all"]
        assert [message.payload for message in await take(a, 1)] == [b"for all"]


async def test_a_joiner_starts_with_the_state_of_its_site_in_which_are_the_messages_of_others() -> None:
    async with two_sites() as (world, channels):
        log: list[bytes] = []
        given: list[bytes] = []

        def join(name: str) -> AbstractAsyncContextManager[RelayChannel]:
            config, transport = replace(world.config("SFO", "E"), name=name), world.networks["SFO"].open()
            return open_channel(config, transport=transport, get_state=lambda: b" ".join(log), set_state=given.append)

        async with join("F") as f:
            await channels["A"].send(b"from NYC")
            log += [message.payload for message in await take(f, 1)]
            async with join("G") as g, trio.open_nursery() as nursery:
                nursery.start_soon(take, f, 1)
                await channels["A"].send(b"later")
                assert [message.payload for message in await take(g, 1)] == [b"later"]
        assert given == [b"from NYC"]
