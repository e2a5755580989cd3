"""Channels of several clusters over one pair of sockets of the loopback interface, with keys and without, over UDP and TCP."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import trio

from sitestack.channel import channel as channels_module
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel, open_transport
from sitestack.config import SiteConfig, local
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed, ConfigurationError
from sitestack.seal.key_ring import KeyRing
from sitestack.transport.shared import CHANNELS_MAX, PartStatistics, SharedTransport
from sitestack.transport.tcp import TcpStatistics
from sitestack.transport.udp import UdpTransport
from tests.harness.channels import take, wait_for_view
from tests.harness.sockets import free_ports, until
from tests.harness.thinned import one_in

#: Members start one after the other here, so no two found a site at the same time.
JOIN_WAIT_S = 0.1
CLUSTERS = ("one", "two", "three")
MESSAGES = 300


def config(kind: str = "udp", port: int = 0, hosts: tuple[Physical, ...] = ()) -> SiteConfig:
    """The settings of one process: its sockets, and how it finds the others."""
    run = f"{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}"
    site = local(f"shared-{run}")
    discovery = replace(site.discovery, join_wait_s=JOIN_WAIT_S, initial_hosts=hosts)
    assert kind in ("udp", "tcp")
    transport = replace(site.transport, kind="tcp" if kind == "tcp" else "udp", port=port)
    return replace(site, discovery=discovery, transport=transport)


def configs(kind: str, count: int = 2) -> list[SiteConfig]:
    """Of several processes of one run."""
    ports = free_ports(count) if kind == "tcp" else [0] * count
    hosts = tuple([Physical("127.0.0.1", port) for port in ports]) if kind == "tcp" else ()
    first = config(kind, ports[0], hosts)
    return [replace(first, transport=replace(first.transport, port=port)) for port in ports]


def keys_of(cluster: str) -> KeyRing:
    """Return keys that differ between clusters."""
    return KeyRing.of(cluster.encode().ljust(32))


@dataclass
class Process:
    """One process as far as its transport goes."""

    config: SiteConfig
    transport: SharedTransport
    sealed: bool

    @asynccontextmanager
    async def channel(self, cluster: str, name: str) -> AsyncIterator[Channel]:
        site = replace(self.config, site=f"{self.config.site}-{cluster}")
        keys = keys_of(cluster) if self.sealed else None
        async with open_channel(site, name=name, keys=keys, transport=self.transport) as channel:
            yield channel


@asynccontextmanager
async def processes(kind: str, sealed: bool, count: int = 2) -> AsyncIterator[list[Process]]:
    async with AsyncExitStack() as stack:
        opened = []
        for each in configs(kind, count):
            opened.append(Process(each, await stack.enter_async_context(open_transport(each)), sealed))
        with trio.fail_after(60):
            yield opened


async def converse(sender: Channel, receiver: Channel, count: int = MESSAGES) -> None:
    """The one sends, the other hears each in its place; the sender takes its own."""

    async def send() -> None:
        for n in range(count):
            await sender.send(b"%d" % n)

    async def hear(channel: Channel) -> None:
        heard = [message.payload for message in await take(channel, count)]
        assert heard == [b"%d" % n for n in range(count)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(hear, sender)
        nursery.start_soon(hear, receiver)


@asynccontextmanager
async def pairs(p: Process, q: Process) -> AsyncIterator[Mapping[str, tuple[Channel, Channel]]]:
    """Each cluster has a member in each of the two processes."""
    async with AsyncExitStack() as stack:
        opened = {}
        for cluster in CLUSTERS:
            a = await stack.enter_async_context(p.channel(cluster, f"A-{cluster}"))
            b = await stack.enter_async_context(q.channel(cluster, f"B-{cluster}"))
            opened[cluster] = (a, b)
        for a, b in opened.values():
            await wait_for_view(a, 2)
            await wait_for_view(b, 2)
        yield opened


@pytest.mark.conforms("LA-24")
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "insecure"])
@pytest.mark.parametrize("kind", one_in(2, ["udp", "tcp"]))
async def test_three_clusters_share_two_pairs_of_sockets_and_closing_one_leaves_the_others(kind: str, sealed: bool) -> None:
    async with processes(kind, sealed) as [p, q], pairs(p, q) as channels:
        uuids = {channel.address for pair in channels.values() for channel in pair}
        places = {channel.transport.physical() for pair in channels.values() for channel in pair}
        assert (len(uuids), len(places)) == (6, 2)
        if isinstance(p.transport.carrier, UdpTransport):
            assert len(p.transport.carrier._sockets) == 2, "one for what is sent to this process, one for all groups"
        async with p.channel("brief", "A-brief") as brief, trio.open_nursery() as nursery:
            for a, b in channels.values():
                nursery.start_soon(converse, a, b)
            async with q.channel("brief", "B-brief") as other:
                await wait_for_view(brief, 2)
                await converse(brief, other, 20)
            await wait_for_view(brief, 1)
        assert not any(cluster.endswith("brief") for cluster in (*p.transport.clusters, *q.transport.clusters))
        for a, b in channels.values():
            assert len(a.view.members) == 2, "nobody was taken for gone"
            await converse(b, a, 20)


@pytest.mark.conforms("LA-24")
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "insecure"])
async def test_a_crashed_channel_of_a_live_process_is_excluded_at_once(sealed: bool) -> None:
    """The shared port still accepts, so the transport itself reports the end of this member; by silence it would
    take a minute.
    """
    slow = config()
    detection = replace(slow.protocols.failure_detection, timeout_s=60.0)
    protocols = replace(slow.protocols, failure_detection=detection)
    leader = replace(slow.membership, leader=replace(slow.membership.leader, flush_timeout_s=70.0))
    slow = replace(slow, protocols=protocols, membership=leader)
    async with AsyncExitStack() as stack:
        p, q = [Process(slow, await stack.enter_async_context(open_transport(slow)), sealed) for _ in range(2)]
        with trio.fail_after(20):
            async with q.channel("one", "B-one") as b, p.channel("two", "A-two") as a, q.channel("two", "B-two") as other:
                with trio.CancelScope() as dying:
                    async with p.channel("one", "A-one") as victim:
                        await wait_for_view(b, 2)
                        await until(lambda: victim.levels()["watch.watchers"].now == 1)
                        dying.cancel()
                        await trio.sleep_forever()
                await wait_for_view(b, 1)
                await converse(a, other, 20)
                async with p.channel("one", "A-one") as again:
                    await wait_for_view(b, 2)
                    assert again.address != victim.address, "a uuid of its own each time"


async def test_members_with_sockets_of_their_own_and_with_shared_ones_are_one_site() -> None:
    for sealed in (True, False):
        async with processes("udp", sealed, 1) as [p], p.channel("one", "A") as a, p.channel("two", "X"):
            keys = keys_of("one") if sealed else None
            async with open_channel(a.config, name="B", keys=keys) as b:
                await wait_for_view(a, 2)
                await wait_for_view(b, 2)
                await converse(a, b, 20)
                await converse(b, a, 20)


@pytest.mark.conforms("LA-25")
async def test_one_tcp_connection_serves_all_clusters_of_two_processes_and_outlives_their_views() -> None:
    """The transport knows physical addresses, neither members nor views, so a leaving member closes nothing."""

    def connections(process: Process) -> tuple[int, int, int]:
        numbers = process.transport.carrier.statistics()
        assert isinstance(numbers, TcpStatistics)
        return process.transport.levels()["connections"].now, numbers.connections_made, numbers.connections_taken

    async with (
        processes("tcp", True, 3) as [p, q, r],
        p.channel("two", "A"),
        q.channel("two", "B") as b,
        r.channel("two", "C") as c,
    ):
        async with p.channel("one", "A"), q.channel("one", "B") as other:
            await wait_for_view(other, 2)
            await wait_for_view(b, 3)
            before = connections(p)
        await wait_for_view(c, 3)
        await converse(b, c, 20)
        assert connections(p) == before
        assert before[1] <= 3, "one to each process that is named, this one included, whatever the number of clusters"


async def test_processes_that_have_only_some_clusters_in_common_connect_by_any_of_them() -> None:
    async with processes("tcp", True) as [p, q], p.channel("only-p", "X"), q.channel("only-q", "Y"):
        async with p.channel("one", "A") as a, q.channel("one", "B") as b:
            await wait_for_view(a, 2)
            await converse(a, b, 20)
        strangers = [each.transport.carrier.statistics() for each in (p, q)]
        assert all(isinstance(each, TcpStatistics) for each in strangers)


async def test_tasks_name_their_owner_and_a_shared_transport_leaves_no_task_or_socket() -> None:
    names: list[str] = []

    class Watch(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            names.append(task.name)

    before = set(os.listdir("/proc/self/fd"))
    tasks = trio.lowlevel.current_statistics().tasks_living
    trio.lowlevel.add_instrument(Watch())
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with processes("udp", True) as [p, q], pairs(p, q):
            scope.cancel()
            await trio.sleep_forever()
    assert set(os.listdir("/proc/self/fd")) == before
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    run = p.config.site
    of_channels = {f"{name}-{cluster} in {run}-{cluster}" for name in "AB" for cluster in CLUSTERS}
    of_sockets = {f"the transport at {each.transport.place}" for each in (p, q)}
    whose = {
        name.split(" of ")[-1].split(" for ")[-1].split(" by ")[-1] for name in names if run in name or "transport" in name
    }
    assert whose == of_channels | of_sockets


async def refused(process: Process, site: SiteConfig, keys: KeyRing | None = None) -> str:
    """Why this channel cannot have a part: one sentence."""
    with pytest.raises(ConfigurationError) as caught:
        async with open_channel(site, transport=process.transport, keys=keys):
            pass
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


async def test_each_channel_that_cannot_share_a_transport_is_refused_in_one_sentence() -> None:
    async with processes("udp", False, 1) as [p], p.channel("one", "A") as a:
        assert "has a member on this transport already" in await refused(p, a.config)
        other = replace(a.config, site="other")
        assert "all have keys or none has" in await refused(p, other, keys_of("other"))
        larger = replace(other, transport=replace(other.transport, datagram_bytes_max=9_000))
        assert "other settings" in await refused(p, larger)
        detection = replace(other.protocols.failure_detection, watch=False)
        unwatched = replace(other, protocols=replace(other.protocols, failure_detection=detection))
        assert "failure_detection.watch" in await refused(p, unwatched)
        assert p.transport.clusters == (a.site,), "who is refused leaves nothing behind"
        tunnel = replace(other, transport=replace(other.transport, kind="tunnel"))
        routed = replace(tunnel, discovery=replace(tunnel.discovery, routers=(Physical("127.0.0.1", 9),)))
        with pytest.raises(ConfigurationError, match="a tunnel cannot be shared"):
            async with open_transport(routed):
                pass


async def test_a_channel_without_a_descriptor_for_its_routers_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with processes("udp", False, 1) as [p]:
        with monkeypatch.context() as full:
            full.setattr(channels_module, "find_rendezvous", fail)
            with pytest.raises(OSError, match="Too many open files"):
                async with p.channel("one", "A"):
                    pass
        async with p.channel("one", "A") as a:
            assert p.transport.clusters == (a.site,)


async def test_sixteen_channels_share_a_transport_and_no_more() -> None:
    async with processes("udp", False, 1) as [p]:
        for number in range(CHANNELS_MAX):
            p.transport.open(replace(p.config, site=f"{p.config.site}-{number}"), None)
        assert "no more can" in await refused(p, p.config)
        level = p.transport.levels()["channels"]
        assert (level.now, level.bound) == (CHANNELS_MAX, CHANNELS_MAX)


async def test_a_channel_whose_transport_was_closed_fails_and_one_is_not_opened() -> None:
    site, closing = config(), trio.Event()

    async def own(task_status: trio.TaskStatus[SharedTransport]) -> None:
        async with open_transport(site) as transport:
            task_status.started(transport)
            await closing.wait()

    async def use(transport: SharedTransport) -> None:
        async with open_channel(site, name="A", transport=transport):
            closing.set()
            await trio.sleep_forever()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            transport = await nursery.start(own)
            with pytest.raises(ChannelClosed, match="was closed before the channel of"):
                await use(transport)
        assert "that is closed" in await refused(Process(site, transport, sealed=False), site)


async def test_each_channel_reports_its_own_statistics_and_those_of_the_sockets() -> None:
    async with processes("udp", False) as [p, q], pairs(p, q) as channels:
        a, b = channels["one"]
        await converse(a, b)
        busy, idle = [channels[cluster][1].statistics().transport for cluster in ("one", "two")]
        assert isinstance(busy, PartStatistics)
        assert isinstance(idle, PartStatistics)
        assert busy.received_bytes > idle.received_bytes
        assert busy.carrier == q.transport.carrier.statistics()
