"""Two members on two networks, each network a pair of virtual interfaces between two namespaces: one network fails (LA-7)."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from relay_lab.drills.wires import has_wires
from sitestack.channel.driver import Driver
from sitestack.channel.open import open_channel
from sitestack.config import ProtocolsConfig, SiteConfig, TransportConfig
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.resolver import Resolver, ResolverConfig
from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Event, SetPhysical
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport.udp import UdpTransport
from tests.harness.channels import take, wait_for_view
from tests.harness.messages import present
from tests.harness.sockets import free_port

#: Tells that the namespace is there, and holds it until its standard input ends. IPv6 addresses outlive a link that is down.
HOLD = "echo 1 >/proc/sys/net/ipv6/conf/all/keep_addr_on_down; ip link set lo up && echo ready && read end"
#: Addresses of the ranges for benchmarks (RFC 2544, RFC 5180), which these members alone see. {} is the member's number.
NETWORKS = {
    "IPv4": ("198.18.0.{}/24", "198.18.1.{}/24"),
    "IPv6": ("2001:2:0:1::{}/64", "2001:2:0:2::{}/64"),
    "both": ("198.18.0.{}/24", "2001:2:0:2::{}/64"),
}
LIMIT_S = 60.0


class Process:
    """A process whose standard output is read by the line."""

    def __init__(self, process: trio.Process) -> None:
        self.pid = process.pid
        self._process = process
        self._rest = b""

    async def says(self, *lines: str) -> None:
        """Wait until it has printed exactly these next, in any order."""
        said: list[str] = []
        with trio.move_on_after(LIMIT_S):
            while len(said) < len(lines):
                said.append(await self._line())
        assert sorted(said) == sorted(lines)

    async def _line(self) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            data = await self._process.stdout.receive_some()
            assert data, "the process has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def tell(self, line: str) -> None:
        await present(self._process.stdin).send_all(line.encode() + b"\n")


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Process]:
    """Such a process, until the end of the block: then its standard input ends, and so does it."""
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Process(process)
    finally:
        with trio.CancelScope(shield=True):
            await present(process.stdin).aclose()
            with trio.move_on_after(LIMIT_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


def inside(holder: Process) -> list[str]:
    return ["nsenter", "--target", str(holder.pid), "--user", "--preserve-credentials", "--net"]


async def run_inside(holder: Process, script: str) -> None:
    await trio.run_process([*inside(holder), "sh", "-ec", script])


@asynccontextmanager
async def two_machines(addresses: dict[str, list[str]]) -> AsyncIterator[dict[str, Process]]:
    """Two namespaces with two wires between them: `a0` to `b0`, and `a1` to `b1`."""
    hold = ["sh", "-c", HOLD]
    async with running(["unshare", "--user", "--map-root-user", "--net", *hold]) as a:
        await a.says("ready")
        async with running([*inside(a), "unshare", "--net", *hold]) as b:
            await b.says("ready")
            for n in (0, 1):
                await run_inside(a, f"ip link add a{n} type veth peer name b{n} netns {b.pid}")
                for name, machine in (("A", a), ("B", b)):
                    device = f"{name.lower()}{n}"
                    once = "nodad" if ":" in addresses[name][n] else ""
                    await run_inside(machine, f"ip addr add {addresses[name][n]} dev {device} {once}; ip link set {device} up")
            yield {"A": a, "B": b}


@pytest.mark.long
@pytest.mark.conforms("LA-7")
@pytest.mark.parametrize("networks", NETWORKS)
async def test_two_members_on_two_networks_deliver_each_message_once_if_one_network_fails(networks: str) -> None:
    if not await has_wires():
        pytest.skip("no rights to make network namespaces")
    member = [sys.executable, "-m", "tests.harness.network_member"]
    addresses = {name: [each.format(number) for each in NETWORKS[networks]] for number, name in enumerate("AB", 1)}
    async with two_machines(addresses) as at:
        hosts = {name: [each.partition("/")[0] for each in given] for name, given in addresses.items()}
        command = {name: [*inside(machine), *member, name, *hosts[name]] for name, machine in at.items()}
        async with running(command["A"]) as a, AsyncExitStack() as stack:
            await a.says("view 1")
            b = await stack.enter_async_context(running(command["B"]))
            await a.says("view 2")
            await b.says("view 2")
            await a.tell("one")
            await a.says("one")
            await b.says("one")
            await b.tell("@by itself")
            await a.says("@by itself")
            for failed in ("b0", "b1"):
                await run_inside(at["B"], f"ip link set {failed} down")
                for name, one, other in (("A", a, b), ("B", b, a)):
                    await one.tell(f"{name} without {failed}")
                    await one.says(f"{name} without {failed}")
                    await other.says(f"{name} without {failed}")
                    await one.tell(f"@{name} without {failed}")
                    await other.says(f"@{name} without {failed}")
                await run_inside(at["B"], f"ip link set {failed} up")


#: No connection watch: only datagrams tell whether the other one is there.
DETECTION = FailureDetectionConfig(heartbeat_interval_s=0.2, timeout_s=1.0, verify_timeout_s=2.0, watch=False)


@pytest.mark.long
@pytest.mark.conforms("LA-6", "LA-8")
async def test_a_member_whose_external_address_dies_is_reached_at_its_own() -> None:
    """A is known to the others by an address that forwards to it, as behind a router, until that forwards no more."""
    port = free_port()
    door = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await door.bind(("127.0.0.1", 0))
    forwarded = 0
    is_open = True

    async def forward() -> None:
        nonlocal forwarded
        while True:
            data = await door.recv(65_535)
            if is_open:
                forwarded += 1
                await door.sendto(data, ("127.0.0.1", port))

    discovery = DiscoveryConfig(initial_hosts=(Physical("127.0.0.1", port),), join_wait_s=0.3)
    plain = TransportConfig(interface="127.0.0.1", multicast=False)
    site = SiteConfig("NYC", transport=plain, discovery=discovery, protocols=ProtocolsConfig(failure_detection=DETECTION))
    behind = replace(plain, port=port, external_host="127.0.0.1", external_port=door.getsockname()[1])
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forward)
            async with open_channel(replace(site, transport=behind), name="A") as a, open_channel(site, name="B") as b:
                await wait_for_view(b, 2)
                assert a.transport.physical() == (Physical(*door.getsockname()), Physical("127.0.0.1", port))
                await b.send(b"through the door")
                await take(a, 1)
                assert forwarded > 0
                view = b.view
                is_open = False
                await b.send(b"past it")
                assert [message.payload for message in await take(a, 1)] == [b"past it"]
                assert (a.view, b.view) == (view, view)
            nursery.cancel_scope.cancel()
    door.close()


LOOPBACK = TransportConfig(interface="127.0.0.1", multicast=False)
COUNT = 200


class Lossy(UdpTransport):
    """Loses each third datagram that it is to send."""

    number = 0

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        for each in datagrams:
            self.number += 1
            if self.number % 3:
                super().send([each])


class Talker:
    """Two layers, a socket, and the arrived messages; no view, no discovery, no group."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.local = Local("NYC", Address.make(rng), f"talker {seed}", rng)
        self.transport = Lossy(LOOPBACK, Physical("239.1.1.1", 9), watched=False)
        layers = [Unicast(self.local, UnicastConfig()), Resolver(self.local, replace(ResolverConfig(), multicast=False))]
        self.stack = Stack(self.local.address, layers, "NYC", 1_400)
        self.driver = Driver(self.stack, self.transport, None, lambda effects: None, self._take)
        self.heard: list[bytes] = []

    def _take(self, events: Sequence[Event | Frame]) -> None:
        for event in events:
            if isinstance(event, Frame) and event.batch is not None:
                self.heard += event.batch.payloads()

    def knows(self, other: Talker) -> None:
        self.stack.down(SetPhysical(other.local.address, other.transport.physical(), 1), trio.current_time())

    def say(self, to: Talker, n: int) -> None:
        body = pack_body([b"%d" % n])
        batch = Batch("NYC", self.local.address, Scope.UNICAST, n, 1, body, to.local.address, "NYC")
        self.stack.down(Frame(self.local.address, to.local.address, (), batch), trio.current_time())
        self.driver.wake()


@pytest.mark.conforms("U2-12")
async def test_two_transports_with_unicast_and_no_membership_deliver_reliably_and_in_order() -> None:
    a, b = Talker(1), Talker(2)
    try:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for talker, other in ((a, b), (b, a)):
                    talker.knows(other)
                    nursery.start_soon(talker.driver.run)
                for n in range(1, COUNT + 1):
                    a.say(b, n)
                    b.say(a, n)
                    await trio.lowlevel.checkpoint()
                while min(len(a.heard), len(b.heard)) < COUNT:  # noqa: ASYNC110 (the driver has no event for it)
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
    finally:
        a.transport.close()
        b.transport.close()
    assert a.heard == b.heard == [b"%d" % n for n in range(1, COUNT + 1)]
    assert Lossy.number == 0
    assert min(a.transport.number, b.transport.number) > 3, "something was lost on the way"
