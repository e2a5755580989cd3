"""Two members on two networks, each network a pair of virtual interfaces between two namespaces: one network fails (LA-7)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from relay_lab.drills.wires import has_wires

#: Tells that the namespace is there, and holds it until its standard input ends. IPv6 addresses outlive a link that is down.
HOLD = "echo 1 >/proc/sys/net/ipv6/conf/all/keep_addr_on_down; ip link set lo up && echo ready && read end"
#: Addresses of the ranges for benchmarks (RFC 2544, RFC 5180), which nobody sees but these members. {} is the member's number.
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
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Process]:
    """Such a process, until the end of the block: then its standard input ends, and so does it."""
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Process(process)
    finally:
        with trio.CancelScope(shield=True):
            assert process.stdin is not None
            await process.stdin.aclose()
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
async def test_two_members_on_two_networks_hear_each_message_once_and_go_on_when_one_network_fails(networks: str) -> None:
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
