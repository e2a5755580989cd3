"""One member of a drill on this machine: `relay node` as a child process, harmed by signals and by the limit of its files."""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import trio

from relay.instruments.drills.child import Child
from relay.instruments.drills.executor import MemberDied, Status
from relay.instruments.drills.plan import Seat
from relay.node.status_socket import fetch_status, socket_path


class MemberProcess(Child):
    """`relay node` for one seat. `directory` takes its log and its status socket."""

    def __init__(self, seat: Seat, config: Path, directory: Path, journal: Path) -> None:
        super().__init__(seat, directory)
        self._config = config
        self._journal = journal
        self._socket = socket_path(directory, seat.site, seat.name)

    async def start(self) -> None:
        """Start the process; it publishes what `feed` gives it."""
        command = [sys.executable, "-m", "relay", "node", str(self._config), "--journal", str(self._journal)]
        await self.spawn([*command, "--status", str(self._socket), "--publish", "-", "--insecure"])

    async def status(self) -> Status | None:
        """What the status socket answers; None when nobody does. Raises MemberDied."""
        if self.has_ended():
            raise MemberDied(self.last_words())
        try:
            return await fetch_status(self._socket)
        except OSError:
            return None

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.running().kill()
        await self.reap()

    async def pause(self) -> None:
        """SIGSTOP."""
        self.running().send_signal(signal.SIGSTOP)

    async def resume(self) -> None:
        """SIGCONT."""
        self.running().send_signal(signal.SIGCONT)

    def limit_files(self, size: int | None) -> None:
        """No file of the process may grow beyond this size, so that writing fails as on a full disk; None: no limit."""
        _, hard = resource.prlimit(self.running().pid, resource.RLIMIT_FSIZE)
        soft = hard if size is None else size
        resource.prlimit(self.running().pid, resource.RLIMIT_FSIZE, (soft, hard))

    async def end(self, grace_s: float) -> str:
        """SIGTERM, and SIGKILL when the process takes longer. Returns a sentence when something was wrong with its end.

        Afterwards there is no process, even when this is cancelled.
        """
        process = self._process
        if process is None:
            return ""
        try:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
            with trio.move_on_after(grace_s):
                await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await self.reap()
        return self.last_words() if process.returncode else ""
