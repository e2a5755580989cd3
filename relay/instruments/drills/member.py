"""One member of a drill: a real process that this one starts, feeds, asks, harms and ends, by its handle."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import trio

from relay.instruments.drills.executor import MemberDied, Status
from relay.instruments.drills.plan import Seat
from relay.node.status_socket import fetch_status, socket_path

#: How many of the last lines of a member's log a report of its death repeats.
_LAST_WORDS_LINES = 5


class MemberProcess:
    """`relay node` for one seat. `directory` takes its log and its status socket."""

    def __init__(self, seat: Seat, config: Path, directory: Path, journal: Path) -> None:
        self.seat = seat
        self._config = config
        self._journal = journal
        self._socket = socket_path(directory, seat.site, seat.name)
        self._log = directory / f"{seat.site}-{seat.name}.log"
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start the process; it publishes what `feed` gives it."""
        command = [sys.executable, "-m", "relay", "node", str(self._config), "--journal", str(self._journal)]
        command += ["--status", str(self._socket), "--publish", "-", "--insecure"]
        with self._open_log() as log:
            self._process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log
            )

    def _open_log(self) -> BinaryIO:
        return open(self._log, "ab")

    async def feed(self, lines: bytes) -> None:
        """Let it publish these lines. Raises MemberDied."""
        process = self._running()
        assert process.stdin is not None
        try:
            await process.stdin.send_all(lines)
        except trio.BrokenResourceError:
            raise MemberDied(self.last_words()) from None

    async def status(self) -> Status | None:
        """What it says of itself; None when it does not answer (yet). Raises MemberDied."""
        if self._process is not None and self._process.returncode is not None:
            raise MemberDied(self.last_words())
        try:
            return await fetch_status(self._socket)
        except OSError:
            return None

    async def kill(self) -> None:
        """The fault: it is gone without a word."""
        process = self._running()
        process.kill()
        await self._reap(process)

    def pause(self) -> None:
        """It stands still."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self._running().send_signal(signal.SIGCONT)

    def limit_files(self, size: int | None) -> None:
        """No file of it may grow beyond this size, so that writing fails as on a full disk; None: no limit."""
        _, hard = resource.prlimit(self._running().pid, resource.RLIMIT_FSIZE)
        soft = hard if size is None else size
        resource.prlimit(self._running().pid, resource.RLIMIT_FSIZE, (soft, hard))

    async def end(self, grace_s: float) -> str:
        """Ask it to leave, and kill it when it takes too long. Answers what was wrong, in a sentence.

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
                await self._reap(process)
        return self.last_words() if process.returncode else ""

    async def _reap(self, process: trio.Process) -> None:
        await process.wait()
        if process.stdin is not None:
            await process.stdin.aclose()

    def _running(self) -> trio.Process:
        assert self._process is not None
        return self._process

    def last_words(self) -> str:
        """One sentence on how it ended, with the end of its log."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        lines = text.splitlines()[-_LAST_WORDS_LINES:]
        said = f": {' / '.join(lines)}" if lines else ", and said nothing."
        code = self._running().returncode
        return f"Member {self.seat.name} of {self.seat.site} ended with exit code {code}{said}"
