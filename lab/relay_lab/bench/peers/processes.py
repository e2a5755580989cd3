"""The processes of a peer and their resource usage, as the operating system counts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import trio

from relay_lab.bench.harness import JOIN_TIMEOUT_S, BenchFailed, BenchProcess
from relay_lab.bench.peers import jgroups_stacks as stacks
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.peers.task import PeerTask
from relay_lab.bench.scenarios import Scenario
from relay_lab.drills.tether import tie

_SITES = ("HERE", "THERE")
_START_S = 20.0
#: Seconds between two looks at whether a server listens.
_LOOK_S = 0.05
_END_S = 10.0


def client_port(task: PeerTask) -> int:
    """The port of the server of a member's site."""
    return task.ports[task.site]


@asynccontextmanager
async def nats_servers(task: PeerTask, directory: Path) -> AsyncIterator[list[trio.Process]]:
    """The servers, listening. After the block none is left. Raises BenchFailed."""
    count = 2 if task.work == "relay" else 1
    started: list[trio.Process] = []
    try:
        for site in range(count):
            file = directory / f"nats-{site}.conf"
            file.write_text(json.dumps(_configuration(site, count, task.ports)), encoding="utf-8")
            log = ["-l", str(directory / f"nats-server-{site}.log")]
            words = ["nats-server", "-c", str(file), *log]
            started.append(await trio.lowlevel.open_process(tie(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for site in range(count):
            await _wait_for(task.ports[site])
        yield started
    finally:
        with trio.CancelScope(shield=True):
            for each in started:
                await _end(each)


def _configuration(site: int, count: int, ports: Sequence[int]) -> dict[str, object]:
    found: dict[str, object] = {"server_name": _SITES[site], "listen": f"127.0.0.1:{ports[site]}"}
    if count > 1:
        gateways = [{"name": _SITES[each], "urls": [f"nats://127.0.0.1:{ports[2 + each]}"]} for each in range(count)]
        found["gateway"] = {"name": _SITES[site], "listen": f"127.0.0.1:{ports[2 + site]}", "gateways": gateways}
    return found


async def _wait_for(port: int) -> None:
    with trio.move_on_after(_START_S):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(_LOOK_S)
            else:
                await stream.aclose()
                return
    raise BenchFailed(f"nats-server does not listen at port {port} after {_START_S:g} s.")


async def _end(process: trio.Process) -> None:
    process.terminate()
    with trio.move_on_after(_END_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


_SOURCES = Path(__file__).with_name("jgroups")
_JGROUPS_SITES = ("here", "there")
#: A heap of fixed size, so that its growing is not measured.
_MACHINE = ("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-Djava.net.preferIPv4Stack=true", "-Djgroups.bind_addr=127.0.0.1")


async def java_command(installed: Installed, task: PeerTask, scenario: str, directory: Path) -> list[str]:
    """Return the command line of a member; its program is in the directory. Raises BenchFailed if it does not
    compile.
    """
    assert installed.jar is not None
    name = f"JGroups{installed.peer.major}"
    classes = directory / name
    if not task.index:
        await _compile(name, installed.jar, classes)
    stack = await trio.to_thread.run_sync(
        _write_stack, installed.peer.major, task, scenario, directory / f"{name}-{task.index}"
    )
    places = [str(each) for each in (task.index, task.members, task.asker, task.answerer, stack)]
    group = f"bench-{_JGROUPS_SITES[task.site]}"
    return ["java", *_MACHINE, "-cp", f"{classes}:{installed.jar}", name, *places, group]


async def _compile(name: str, jar: Path, classes: Path) -> None:
    sources = [str(_SOURCES / f"{each}.java") for each in ("BenchMember", name)]
    words = ["javac", "-nowarn", "-cp", str(jar), "-d", str(classes), *sources]
    ran = await trio.run_process(words, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    if ran.returncode:
        raise BenchFailed(f"{name}.java does not compile: {ran.stdout.decode(errors='replace')}")


def _write_stack(major: str, task: PeerTask, scenario: str, directory: Path) -> Path:
    """The files of a member's stack; each has its own, since the bridges of two sites listen at different ports."""
    directory.mkdir()
    port, bridge = task.ports[task.site], task.ports[2:4]
    plan = stacks.StackPlan(
        total_order=scenario in ("total-order", "own-delivery"),
        trips=task.trips,
        # Groups of this run alone, as its ports are.
        multicast_group=f"239.193.{port >> 8}.{port & 0xFF}",
        multicast_port=port,
        site=_JGROUPS_SITES[task.site] if task.work == "relay" else "",
        bridge_ports=(bridge[task.site], bridge[1 - task.site]),
    )
    stack, between, sites = directory / "stack.xml", directory / "bridge.xml", directory / "sites.xml"
    if major == "5":
        stack.write_text(stacks.stack_5(plan, str(sites)), encoding="utf-8")
        between.write_text(stacks.bridge_5(plan), encoding="utf-8")
        sites.write_text(stacks.sites_5(_JGROUPS_SITES, str(between)), encoding="utf-8")
    else:
        stack.write_text(stacks.stack_2(plan, str(between)), encoding="utf-8")
        between.write_text(stacks.bridge_2(plan), encoding="utf-8")
    return stack


#: More than any peer needs.
_PORTS = 16
_TICKS_S = os.sysconf("SC_CLK_TCK")


class PeerGroup:
    """The members of a peer, all of which have heard each other, and whatever else runs for them."""

    def __init__(self, task: PeerTask, members: Sequence[BenchProcess], servers: Sequence[trio.Process]) -> None:
        self.task = task
        self.members = members
        self._servers = [server.pid for server in servers]
        self._pids = [*(member.pid for member in members), *self._servers]

    def cpu_s(self, *, servers_only: bool = False) -> float:
        """CPU seconds of all processes so far, or of those that are no members, user and system."""
        used = 0
        for pid in self._servers if servers_only else self._pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        return used / _TICKS_S

    def rss_mb(self) -> list[float]:
        """The peak memory of each process."""
        found = []
        for pid in self._pids:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            found += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
        return found


@asynccontextmanager
async def peer_group(installed: Installed, name: str, scenario: Scenario, directory: Path) -> AsyncIterator[PeerGroup]:
    """Start the members that do a scenario, `name`, and wait until all are there. After the block none is left."""
    relayed = scenario.relayed or scenario.trip == "relay"
    members = scenario.members * (2 if relayed else 1)
    task = PeerTask(installed.peer.name, 0, members, "relay" if relayed else "local", bool(scenario.trip), _free_ports(_PORTS))
    async with AsyncExitStack() as stack:
        servers: list[trio.Process] = []
        if installed.peer.name == "nats":
            servers = await stack.enter_async_context(nats_servers(task, directory))
        module = "relay_lab.bench.peers." + ("nats_member" if servers else "member")
        members_up: list[BenchProcess] = []
        for index in range(members):
            own = replace(task, index=index)
            words = [sys.executable, "-m", module, json.dumps(asdict(own))]
            if installed.jar is not None:
                words = await java_command(installed, own, name, directory)
            with (directory / f"{installed.peer.name}-{index}.err").open("wb") as errors:
                process = await trio.lowlevel.open_process(
                    tie(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
                )
            members_up.append(BenchProcess(str(index + 1), process))
            stack.push_async_callback(members_up[-1].end)
            await members_up[-1].hear(JOIN_TIMEOUT_S)
        for each in members_up:
            await each.hear(JOIN_TIMEOUT_S)
        yield PeerGroup(task, members_up, servers)


def _free_ports(count: int) -> tuple[int, ...]:
    """Return TCP ports that are free at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()
