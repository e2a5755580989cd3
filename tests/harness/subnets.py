"""Subnets with a router between them, each in a network namespace of its own: no multicast gets from one to the other.

    namespace of the router     r0 (198.18.0.1)   r1 (198.18.1.1)   nat0
                                 |                 |
    namespaces of the hosts     eth0 198.18.0.2   eth0 198.18.1.2

Made without rights, in a user namespace; gone with the processes that hold them. Nothing of it touches the machine's network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio

from relay_lab.drills.tether import tie
from relay_lab.drills.wires import _OWN_USERS, _enter, _hold, _inside, _release
from tests.harness import nat

ROOT = Path(__file__).parents[2]
EXTERNAL = "198.18.200.9"
_MEMBER = """
import json, sys, trio
from dataclasses import replace
from sitestack import KeyRing, Message, Physical, View, named_hosts, open_channel

async def main():
    given = json.loads(sys.argv[1])
    hosts = tuple([Physical(*each) for each in given["hosts"]])
    site = named_hosts("NYC", hosts, given["port"])
    site = replace(site, transport=replace(site.transport, **given["transport"]))
    async with open_channel(site, name=given["name"], keys=KeyRing.of(bytes(32))) as channel:
        async def send():
            for n in range(1_000_000):
                await channel.send(b"%d" % n)
                await trio.sleep(given["pause_s"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            async for event in channel:
                match event:
                    case Message(): print(json.dumps(["message", event.sender, event.source.hex(), int(event.payload)]))
                    case View(): print(json.dumps(["view", *event.names]), flush=True)
trio.run(main)
"""


class Member:
    """A process that sends numbers while it lives, and its received numbers."""

    def __init__(self, name: str, process: trio.Process) -> None:
        self.name = name
        self.process = process
        self.views: list[list[str]] = []
        #: By name and uuid: the numbers, in their order.
        self.heard: dict[tuple[str, str], list[int]] = {}

    async def read(self) -> None:
        """Read the output of the process until it ends."""
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                kind, *what = json.loads(line)
                if kind == "view":
                    self.views.append(what)
                else:
                    name, uuid, number = what
                    self.heard.setdefault((name, uuid), []).append(number)

    def kill(self) -> None:
        """As by `kill -9`."""
        self.process.kill()

    def last(self, name: str) -> int:
        """The last number that was heard of the latest member of this name; -1 without one."""
        return next((numbers[-1] for (heard, _), numbers in reversed(self.heard.items()) if heard == name), -1)


class Subnets:
    """The router, and hosts in different subnets."""

    def __init__(self, router: trio.Process, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self._router = router
        self._stack = stack
        self._nursery = nursery
        self._hosts: list[trio.Process] = []

    async def add(self) -> int:
        """One more subnet with one host; its number."""
        holders: list[trio.Process] = []
        number = len(self._hosts)
        host = await _hold([*_enter(self._router), "unshare", "--net"], holders)
        self._stack.push_async_callback(_let_go, host)
        self._hosts.append(host)
        there = f"nsenter --target {host.pid} --net ip"
        commands = [
            f"ip link add r{number} type veth peer name eth0 netns {host.pid}",
            f"ip addr add 198.18.{number}.1/24 dev r{number} && ip link set r{number} up",
            f"{there} addr add {self.address(number)}/24 dev eth0 && {there} link set eth0 up",
            f"{there} route add default via 198.18.{number}.1",
        ]
        await _inside(self._router, " && ".join(commands))
        return number

    def address(self, number: int) -> str:
        """That of the host in this subnet."""
        return f"198.18.{number}.2"

    async def translate(self, number: int, inner_port: int, outer_port: int) -> None:
        """Put the host in this subnet behind address translation: it is reached at EXTERNAL."""
        command = [sys.executable, nat.__file__, self.address(number), EXTERNAL, str(inner_port), str(outer_port)]
        process = await self._run(self._router, command)
        assert process.stdout is not None
        await process.stdout.receive_some()
        commands = [
            f"ip link set {nat.DEVICE} up && ip route add {EXTERNAL} dev {nat.DEVICE}",
            f"ip rule add iif r{number} table 100 && ip route add default dev {nat.DEVICE} table 100",
        ]
        await _inside(self._router, " && ".join(commands))

    async def router(self, script: str) -> None:
        """Do something at the router."""
        await _inside(self._router, script)

    async def readdress(self, number: int, address: str) -> None:
        """Give the host in this subnet another address there, in place of the one that it has."""
        change = f"ip addr flush dev eth0; ip addr add {address}/24 dev eth0; ip route add default via 198.18.{number}.1"
        await _inside(self._hosts[number], change)

    async def member(self, number: int, name: str, hosts: Sequence[tuple[str, int]], port: int, **transport: object) -> Member:
        """Start a member at the host in this subnet."""
        given = {"name": name, "hosts": list(hosts), "port": port, "pause_s": 0.01}
        given["transport"] = {"interface": self.address(number), **transport}
        process = await self._run(self._hosts[number], [sys.executable, "-c", _MEMBER, json.dumps(given)])
        member = Member(name, process)
        self._nursery.start_soon(member.read)
        return member

    async def _run(self, holder: trio.Process, command: Sequence[str]) -> trio.Process:
        process = await trio.lowlevel.open_process(
            tie([*_enter(holder), *command]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._stack.push_async_callback(_end, process)
        return process


async def _end(process: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await stream.aclose()


async def _let_go(holder: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        await _release(holder)


@asynccontextmanager
async def open_subnets(count: int) -> AsyncIterator[Subnets]:
    """So many subnets. Raises PlaceFailed. Afterwards nothing is left of them."""
    holders: list[trio.Process] = []
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        router = await _hold([*_OWN_USERS], holders)
        stack.push_async_callback(_let_go, router)
        settings = ["ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"]
        for each in settings:
            name, value = each.split("=")
            await _inside(router, f"echo {value} >/proc/sys/net/ipv4/{name.replace('.', '/')}")
        subnets = Subnets(router, stack, nursery)
        for _ in range(count):
            await subnets.add()
        yield subnets
        nursery.cancel_scope.cancel()
