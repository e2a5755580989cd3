"""One member of a drill on this machine: `relay node` as a child process, with faults by signals and
by its file size limit.

Another process, which can be stopped, may read its deliveries.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from relay.node.status.status_socket import fetch_status, socket_path
from relay_lab.drills.blockable import BLOCK, UNBLOCK
from relay_lab.drills.child import Child
from relay_lab.drills.executor import MemberDied, Status
from relay_lab.drills.layout import LOOPBACK
from relay_lab.drills.plan import Drill, Seat
from relay_lab.drills.tether import tie
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier release, installed in a separate environment."""

    python: str
    #: Output of its `relay --version`.
    version: str

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command that runs modules of that release, isolated from this one."""
        return self.python, "-I", "-m"


async def find_earlier(python: str) -> Earlier:
    """Return the release that this interpreter runs. Raises ConfigurationError when it runs none."""
    found = Earlier(python, "")
    try:
        done = await trio.run_process([*found.command, "relay", "--version"], capture_stdout=True, capture_stderr=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(f"relay drill --before {python}: it runs no relay ({error}).") from error
    return Earlier(python, done.stdout.decode(errors="replace").strip())


def refuse_upgrade(drill: Drill, earlier: Earlier | None) -> Iterator[str]:
    """Yield sentences on upgrades without an earlier release, and the reverse."""
    if drill.does("upgrade") and earlier is None:
        yield "upgrade needs --before, the Python of an environment in which an earlier release is installed."
    if earlier is not None and not drill.does("upgrade"):
        yield f"--before {earlier.python}: the drill upgrades no member."


@dataclass(frozen=True, slots=True)
class Ways:
    #: Command prefix that enters its network namespace.
    enter: Sequence[str] = ()
    blockable: bool = False
    reader: bool = False
    #: The release until the member is upgraded; None: this one.
    earlier: Earlier | None = None


class MemberProcess(Child):
    """`relay node` for one seat. `directory` takes its log and its status socket."""

    def __init__(self, seat: Seat, config: Path, directory: Path, journal: Path, ways: Ways) -> None:
        super().__init__(seat, directory)
        self._config = config
        self._ways = ways
        self.earlier = ways.earlier
        self._run_module = (sys.executable, "-m") if ways.earlier is None else ways.earlier.command
        self._reader: trio.Process | None = None
        self._journal = journal
        self._socket = socket_path(directory, seat.site, seat.name)

    async def start(self) -> None:
        module = "relay_lab.drills.blockable" if self._ways.blockable else "relay"
        command = [*self._ways.enter, *self._run_module, module, "node", str(self._config), "--journal", str(self._journal)]
        command += ["--status", str(self._socket), "--publish", "-"]
        if self._ways.reader:
            await self._end_reader()
            self._reader = await trio.lowlevel.open_process(tie(["cat"]), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            assert isinstance(self._reader.stdin, trio.lowlevel.FdStream)
            async with self._reader.stdin as stdin:
                await self.spawn([*command, "--events", "-"], output=stdin.fileno())
        else:
            await self.spawn(command)

    async def upgrade(self) -> None:
        self._run_module = (sys.executable, "-m")
        await self.start()

    async def status(self) -> Status | None:
        """Return the answer of the status socket; None without one. Raises MemberDied."""
        if self.has_ended():
            raise MemberDied(self.last_words())
        try:
            return await fetch_status(self._socket)
        except OSError:
            return None

    async def kill(self) -> None:
        self.running().kill()
        await self.reap()

    async def pause(self) -> None:
        self.running().send_signal(signal.SIGSTOP)

    async def resume(self) -> None:
        self.running().send_signal(signal.SIGCONT)

    async def block(self) -> None:
        self.running().send_signal(BLOCK)

    async def unblock(self) -> None:
        self.running().send_signal(UNBLOCK)

    async def stop_reader(self) -> None:
        assert self._reader is not None
        self._reader.send_signal(signal.SIGSTOP)

    async def _end_reader(self) -> None:
        if self._reader is not None and self._reader.returncode is None:
            self._reader.kill()
            await self._reader.wait()

    def memory_bytes(self) -> int:
        """Return the resident set of the process; 0 if unknown."""
        try:
            pages = Path(f"/proc/{self.running().pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError:
            return 0
        return int(pages) * resource.getpagesize()

    def limit_files(self, size: int | None) -> None:
        """Limit the size of the process's files, so that writing fails as on a full disk; None: no limit."""
        _, hard = resource.prlimit(self.running().pid, resource.RLIMIT_FSIZE)
        soft = hard if size is None else size
        resource.prlimit(self.running().pid, resource.RLIMIT_FSIZE, (soft, hard))

    async def end(self, grace_s: float) -> str:
        """Send SIGTERM, later SIGKILL; return a sentence on a problem. Afterwards there is no process."""
        process = self._process
        if process is None:
            return ""
        try:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                if self._ways.blockable:
                    process.send_signal(UNBLOCK)
                process.send_signal(signal.SIGTERM)
            with trio.move_on_after(grace_s):
                await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await self.reap()
                await self._end_reader()
        return self.last_words() if process.returncode else ""


#: Pause (s) between two attempts to reach a starting router.
_RETRY_S = 0.1


class RouterProcess(Child):
    """One router, at a port that stays the same."""

    def __init__(self, port: int, configs: Sequence[Path], directory: Path) -> None:
        """`configs`: a member's configuration of each site. `directory` takes its log."""
        super().__init__(Seat("router", str(port)), directory)
        self.place = Physical(LOOPBACK, port)
        self._command = [sys.executable, "-m", "relay", "router", *map(str, configs), "--bind", str(self.place)]

    async def start(self) -> None:
        await self.spawn(self._command)

    async def wait_until_up(self) -> None:
        while True:
            try:
                await (await trio.open_tcp_stream(*self.place)).aclose()
            except OSError:
                await trio.sleep(_RETRY_S)
            else:
                return

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self.reap()


@asynccontextmanager
async def open_routers(ports: Sequence[int], configs: Sequence[Path], directory: Path) -> AsyncIterator[list[RouterProcess]]:
    routers = [RouterProcess(port, configs, directory) for port in ports]
    try:
        for router in routers:
            await router.start()
        yield routers
    finally:
        with trio.CancelScope(shield=True):
            for router in routers:
                await router.kill()
