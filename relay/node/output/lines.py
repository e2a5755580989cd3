"""Line input and output of a node: standard streams, files and pipes.

Blocking calls run in threads, with a limiter for each direction.
"""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import trio

from sitestack.model.errors import ConfigurationError

STANDARD = "-"
_READ_BYTES = 64 * 1024
#: Pause (s) after a failed write.
RETRY_S = 1.0
#: Pause (s) before the next read of a descriptor that does not block.
POLL_S = 0.1


class LineSource:
    """Source of lines to publish. One longer than `line_bytes_max` is cut to one byte more, so that `send` rejects it."""

    def __init__(self, source: str, line_bytes_max: int) -> None:
        """Open the source. Raises ConfigurationError if it cannot be read."""
        self.trouble = ""
        self._line_bytes_max = line_bytes_max
        # does not wait for a writer, or end with the last one
        flags = os.O_RDWR if Path(source).is_fifo() else os.O_RDONLY
        # never closed: a thread may still read from it
        self._descriptor = 0 if source == STANDARD else _open("--publish", source, flags)
        self._limiter = trio.CapacityLimiter(1)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield all lines without line ends. The last line need not have one. Raises OSError."""
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
        while True:
            try:
                return await trio.to_thread.run_sync(
                    read, descriptor, _READ_BYTES, abandon_on_cancel=True, limiter=self._limiter
                )
            except BlockingIOError:
                await trio.sleep(POLL_S)


class LineSink:
    def __init__(self, target: str) -> None:
        """Open the target; append to a file. Raises ConfigurationError if it cannot be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = 1 if target == STANDARD else _open("--events", target, flags)
        self._limiter = trio.CapacityLimiter(1)
        self._torn = False
        self.lost_lines = 0

    async def write(self, lines: Sequence[str]) -> None:
        """Write the lines; return once the target has them.

        Raises OSError: BrokenPipeError once no reader remains.
        """
        data = "".join([f"{line}\n" for line in lines]).encode()
        await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True, limiter=self._limiter)

    def _write(self, data: bytes) -> None:
        first = int(self._torn)  # bytes that only end a torn line
        data = b"\n" * first + data
        written = 0
        try:
            while written < len(data):
                try:
                    written += os.write(self._descriptor, memoryview(data)[written:])
                except BlockingIOError:  # set by another process
                    writable = select.poll()
                    writable.register(self._descriptor, select.POLLOUT)
                    writable.poll()
        except OSError:
            self.lost_lines += data.count(b"\n", max(written, first))
            raise
        finally:
            if written:
                self._torn = not data.startswith(b"\n", written - 1)


class EventOutput:
    """Writer that counts the lines a failing sink rejects, and retries after a pause. `say_lost(count,
    why)` makes lines about them.
    """

    def __init__(self, sink: LineSink, say_lost: Callable[[int, str], Sequence[str]]) -> None:
        self.trouble = ""
        self.lost_lines = 0
        self._sink = sink
        self._say_lost = say_lost
        self._told_lines = 0
        self._retry_at = 0.0

    async def write(self, lines: Sequence[str], now: float) -> None:
        """Write the lines, or count them as lost. Raises BrokenPipeError once no reader remains."""
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
