"""One member of a drill: a real process that this one starts, feeds, asks and ends, by its handle."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import trio

from relay.drills.layout import Seat
from relay.status_socket import fetch_status, socket_path

#: How many of the last lines of a member's log a report of its death repeats.
_LAST_WORDS_LINES = 5


class MemberDied(Exception):
    """A member ended that nobody had told to. The text says which one, and its last words."""


class MemberProcess:
    """`relay node` for one seat. `directory` takes its log and its status socket."""

    def __init__(self, seat: Seat, config: Path, directory: Path, journal: Path) -> None:
        self.seat = seat
        #: It was killed on purpose, at this time of the machine's monotonic clock.
        self.killed_ns: int | None = None
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
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(lines)
        except trio.BrokenResourceError:
            raise MemberDied(self.last_words()) from None

    async def status(self) -> dict[str, Any] | None:
        """What it says of itself; None when it does not answer (yet). Raises MemberDied."""
        if self.killed_ns is not None:
            return None
        if self.exit_code is not None:
            raise MemberDied(self.last_words())
        try:
            return await fetch_status(self._socket)
        except OSError:
            return None

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or before it was started."""
        return None if self._process is None else self._process.returncode

    async def kill(self) -> None:
        """The fault: it is gone without a word."""
        assert self._process is not None
        self.killed_ns = time.monotonic_ns()
        self._process.kill()
        await self._process.wait()

    def leave(self) -> None:
        """Ask it to leave gracefully."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    async def end(self, grace_s: float) -> None:
        """Ask it to leave, and kill it when it takes too long. Afterwards there is no process, even when this is cancelled."""
        if self._process is None:
            return
        try:
            self.leave()
            with trio.move_on_after(grace_s):
                await self._process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if self._process.returncode is None:
                    self._process.kill()
                    await self._process.wait()
                if self._process.stdin is not None:
                    await self._process.stdin.aclose()

    def last_words(self) -> str:
        """One sentence on how it ended, with the end of its log."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        lines = text.splitlines()[-_LAST_WORDS_LINES:]
        said = f": {' / '.join(lines)}" if lines else ", and said nothing."
        return f"Member {self.seat.name} of {self.seat.site} ended with exit code {self.exit_code}{said}"
