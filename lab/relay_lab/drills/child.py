"""The common base of members in all places: a child process, its last output, and its status over HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.request import ProxyHandler, Request, build_opener

import trio

from relay.node.status.status_socket import ANSWER_BYTES_MAX, parse_answer
from relay_lab.drills.executor import MemberDied, PlaceFailed, Status
from relay_lab.drills.plan import Seat
from relay_lab.drills.tether import tie


async def run_command(
    command: Sequence[str], limit_s: float, *, name: str, text: str = "", own_session: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end and return it with its output, whatever its exit code.

    `text` is its standard input, `name` its name in errors. It runs in a separate session, out of
    reach of Ctrl-C. Raises PlaceFailed after `limit_s` seconds.
    """
    with trio.move_on_after(limit_s):
        return await trio.run_process(
            command,
            stdin=text.encode(),
            check=False,
            capture_stdout=True,
            capture_stderr=True,
            start_new_session=own_session,
        )
    raise PlaceFailed(f"{name} did not answer within {limit_s:g} s.")


#: Last lines of a member's log in a report of its death.
LAST_WORDS_LINES = 5
#: Seconds before a silent member is asked again.
ANSWER_TIMEOUT_S = 2.0
#: no proxy knows the members' addresses
_OPENER = build_opener(ProxyHandler({}))


def last_words(seat: Seat, exit_code: int | None, log: str) -> str:
    """Return a sentence on how a member ended, with the end of its log."""
    lines = log.splitlines()[-LAST_WORDS_LINES:]
    said = f": {' / '.join(lines)}" if lines else ", without output."
    return f"Member {seat.name} of {seat.site} ended with exit code {exit_code}{said}"


async def fetch_over_http(url: str, token: str = "") -> Status:
    """Return the status that a member serves over HTTP. Raises OSError without an answer in time."""
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})

    def ask() -> Status:
        try:
            with _OPENER.open(request, timeout=ANSWER_TIMEOUT_S) as answer:
                return parse_answer(answer.read(ANSWER_BYTES_MAX), url)
        except HTTPException as error:
            raise OSError(f"{url}: {error!r}") from error

    return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)


class Child:
    """A process of this machine, fed by its standard input, whose standard error goes to a log in `directory`."""

    def __init__(self, seat: Seat, directory: Path) -> None:
        self.seat = seat
        self._log = directory / f"{seat.site}-{seat.name}.log"
        self._process: trio.Process | None = None

    async def spawn(self, command: Sequence[str], *, own_session: bool = False, output: int = subprocess.DEVNULL) -> None:
        """Start the process. `output`: a file descriptor."""
        with self._open_log() as log:
            self._process = await trio.lowlevel.open_process(
                tie(command), stdin=subprocess.PIPE, stdout=output, stderr=log, start_new_session=own_session
            )

    def _open_log(self) -> BinaryIO:
        return open(self._log, "ab")

    async def feed(self, lines: bytes) -> None:
        """Write to the standard input. Raises MemberDied."""
        stdin = self.running().stdin
        assert stdin is not None
        try:
            await stdin.send_all(lines)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise MemberDied(self.last_words()) from None

    def running(self) -> trio.Process:
        assert self._process is not None
        return self._process

    def has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def reap(self) -> None:
        process = self.running()
        await process.wait()
        if process.stdin is not None:
            await process.stdin.aclose()

    def last_words(self) -> str:
        log = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        return last_words(self.seat, None if self._process is None else self._process.returncode, log)
