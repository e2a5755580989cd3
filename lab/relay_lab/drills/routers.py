"""The gossip routers of a run on this machine: `relay router` as child processes, each for all sites."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from relay_lab.drills.layout import LOOPBACK
from relay_lab.drills.tether import tie
from sitestack.model.address import Physical

#: Pause (s) between two attempts to reach a router that is starting.
_RETRY_S = 0.1


class RouterProcess:
    """One router, at a port that stays the same when it is started again."""

    def __init__(self, port: int, configs: Sequence[Path], directory: Path) -> None:
        """`configs`: a member's configuration of each site. `directory` takes its log."""
        self.place = Physical(LOOPBACK, port)
        self._command = [sys.executable, "-m", "relay", "router", *map(str, configs), "--bind", str(self.place)]
        self._log = directory / f"router-{port}.log"
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start the process; members try to reach it until it listens."""
        with self._log.open("ab") as log:
            self._process = await trio.lowlevel.open_process(tie(self._command), stdin=subprocess.DEVNULL, stderr=log)

    async def wait_until_up(self) -> None:
        """Wait until members can connect."""
        while True:
            try:
                await (await trio.open_tcp_stream(*self.place)).aclose()
            except OSError:
                await trio.sleep(_RETRY_S)
            else:
                return

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def open_routers(ports: Sequence[int], configs: Sequence[Path], directory: Path) -> AsyncIterator[list[RouterProcess]]:
    """Routers at these ports. After the block no process is left, whatever happened."""
    routers = [RouterProcess(port, configs, directory) for port in ports]
    try:
        for router in routers:
            await router.start()
        yield routers
    finally:
        with trio.CancelScope(shield=True):
            for router in routers:
                await router.kill()
