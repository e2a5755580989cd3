"""The servers that NATS needs: one, or one in each of two sites, joined by gateways."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from relay_lab.bench.harness import BenchFailed
from relay_lab.bench.peers.task import PeerTask
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
async def servers(task: PeerTask, directory: Path) -> AsyncIterator[list[trio.Process]]:
    """The servers, listening. After the block none is left. Raises BenchFailed."""
    count = 2 if task.work == "relay" else 1
    started: list[trio.Process] = []
    try:
        for site in range(count):
            file = directory / f"nats-{site}.conf"
            # JSON is a part of what the server reads.
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
