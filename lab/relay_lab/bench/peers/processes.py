"""The processes of a peer, and what all of them have used, as the system counts it: the same for each peer."""

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

from relay_lab.bench.harness import JOIN_TIMEOUT_S, BenchProcess
from relay_lab.bench.peers import java, nats_server
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.peers.task import PeerTask
from relay_lab.bench.scenarios import Scenario
from relay_lab.drills.tether import tie

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
            servers = await stack.enter_async_context(nats_server.servers(task, directory))
        module = "relay_lab.bench.peers." + ("nats_member" if servers else "member")
        members_up: list[BenchProcess] = []
        for index in range(members):
            own = replace(task, index=index)
            words = [sys.executable, "-m", module, json.dumps(asdict(own))]
            if installed.jar is not None:
                words = await java.command(installed, own, name, directory)
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
    """TCP ports that nobody uses at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()
