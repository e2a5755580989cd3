"""The processes of a peer and their resource usage, as the operating system counts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import trio

from relay_lab.bench.harness import BenchFailed, BenchProcess, start_members
from relay_lab.bench.peers import jgroups_stacks as stacks
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.peers.task import PeerTask
from relay_lab.bench.scenarios import Scenario

_SOURCES = Path(__file__).with_name("jgroups")
_JGROUPS_SITES = ("here", "there")
#: A heap of fixed size, so that its growing is not measured.
_MACHINE = ("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-Djava.net.preferIPv4Stack=true", "-Djgroups.bind_addr=127.0.0.1")


async def java_command(installed: Installed, task: PeerTask, scenario: str, directory: Path) -> list[str]:
    """Return the command line of a member; its program is in the directory. Raises BenchFailed if it does not compile."""
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
    """Return the files of a member's stack: bridges of two sites listen at different ports."""
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


_PORTS = 16
_TICKS_S = os.sysconf("SC_CLK_TCK")


class PeerGroup:
    """The members of a peer, all of which have heard each other."""

    def __init__(self, task: PeerTask, members: Sequence[BenchProcess]) -> None:
        self.task = task
        self.members = members
        self._pids = [member.pid for member in members]

    def cpu_s(self) -> float:
        """CPU seconds of all processes so far, user and system."""
        used = 0
        for pid in self._pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        return used / _TICKS_S

    def rss_mb(self) -> list[float]:
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
    commands = []
    for own in [replace(task, index=index) for index in range(members)]:
        words = [sys.executable, "-m", "relay_lab.bench.peers.member", json.dumps(asdict(own))]
        commands.append(words if installed.jar is None else await java_command(installed, own, name, directory))
    errors = [directory / f"{installed.peer.name}-{index}.err" for index in range(members)]
    async with start_members(commands, errors) as members_up:
        yield PeerGroup(task, members_up)


def _free_ports(count: int) -> tuple[int, ...]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()
