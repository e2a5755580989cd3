"""Lines in and out of a node: standard input, standard output, files and pipes.

Blocking calls run in threads, which works for all of these and leaves the flags of a terminal alone. Each direction has its own
thread, because look-ups of host names can occupy all shared threads while a dead name server does not answer.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import trio

from sitestack.model.errors import ConfigurationError

STANDARD = "-"
_READ_BYTES = 64 * 1024
#: Pause (s) after a failed write, so that a full disk is not tried again for every message.
RETRY_S = 1.0


class LineSource:
    """Lines to publish. A line longer than `line_bytes_max` is cut to one byte more, so that sending it is refused."""

    def __init__(self, source: str, line_bytes_max: int) -> None:
        """Raises ConfigurationError when the file cannot be read."""
        self._line_bytes_max = line_bytes_max
        # A named pipe that is open for writing too waits for no writer, and does not end with the last one.
        flags = os.O_RDWR if Path(source).is_fifo() else os.O_RDONLY
        # Never closed: a thread may still be waiting in it when the process ends.
        self._descriptor = 0 if source == STANDARD else _open("--publish", source, flags)
        self._limiter = trio.CapacityLimiter(1)

    async def lines(self) -> AsyncIterator[bytes]:
        """All lines, without their line ends; the last line need not have one."""
        rest = b""
        while chunk := await self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: self._line_bytes_max + 1]
            for line in lines:
                yield line
        if rest:
            yield rest

    async def _read(self) -> bytes:
        read, descriptor = os.read, self._descriptor
        return await trio.to_thread.run_sync(read, descriptor, _READ_BYTES, abandon_on_cancel=True, limiter=self._limiter)


class LineSink:
    """Writes lines to standard output, a file or a pipe."""

    def __init__(self, target: str) -> None:
        """A file is appended to. Raises ConfigurationError when it cannot be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = 1 if target == STANDARD else _open("--events", target, flags)
        self._limiter = trio.CapacityLimiter(1)
        #: True when only the beginning of the last line was written.
        self._torn = False
        #: Number of lines of which a part, or all, was not written.
        self.lost_lines = 0

    async def write(self, lines: Sequence[str]) -> None:
        """Return when the lines are written. Raises OSError, which is BrokenPipeError when nobody reads any more."""
        data = "".join([f"{line}\n" for line in lines]).encode()
        await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True, limiter=self._limiter)

    def _write(self, data: bytes) -> None:
        first = int(self._torn)  # bytes that only end a torn line
        data = b"\n" * first + data
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, memoryview(data)[written:])
        except OSError:
            self.lost_lines += data.count(b"\n", max(written, first))
            raise
        finally:
            if written:
                self._torn = not data.startswith(b"\n", written - 1)


class EventOutput:
    """Writes lines to a sink. Lines that the sink refuses are left out and counted; it is tried again after a pause.

    `say_lost(count, why)` makes the lines that, once the sink works again, say how many lines are missing.
    """

    def __init__(self, sink: LineSink, say_lost: Callable[[int, str], Sequence[str]]) -> None:
        #: Why the last attempt failed; empty when it succeeded.
        self.trouble = ""
        #: Number of lines left out since the start.
        self.lost_lines = 0
        self._sink = sink
        self._say_lost = say_lost
        self._told_lines = 0
        self._retry_at = 0.0

    async def write(self, lines: Sequence[str], now: float) -> None:
        """Write the lines at `now`, or count them. Raises BrokenPipeError when nobody reads any more."""
        if self.trouble and now < self._retry_at:
            self.lost_lines += len(lines)
            return
        missing = self.lost_lines - self._told_lines
        told = self._say_lost(missing, self.trouble) if missing else []
        before = self._sink.lost_lines
        try:
            await self._sink.write([*told, *lines])
        except BrokenPipeError:
            raise
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._retry_at = now + RETRY_S
            lost = self._sink.lost_lines - before
            self.lost_lines += min(len(lines), lost)
            if lost <= len(lines):
                self._told_lines += missing
        else:
            self.trouble = ""
            self._told_lines += missing


def _open(option: str, path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigurationError(f"{option} {path}: {error.strerror}.") from error
