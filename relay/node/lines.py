"""Lines in and out of a node: standard input, standard output, files and pipes.

Blocking calls run in threads, which works for all kinds of files and leaves the flags of a terminal alone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import trio

from sitestack.model.errors import ConfigurationError

STANDARD = "-"
_READ_BYTES = 64 * 1024


class LineSource:
    """Lines to publish. A line longer than `line_bytes_max` is cut to one byte more, so that sending it is refused."""

    def __init__(self, source: str, line_bytes_max: int) -> None:
        """Raises ConfigurationError when the file cannot be read."""
        self._line_bytes_max = line_bytes_max
        # A named pipe that is open for writing too waits for no writer, and does not end with the last one.
        flags = os.O_RDWR if Path(source).is_fifo() else os.O_RDONLY
        # Never closed: a thread may still be waiting in it when the process ends.
        self._descriptor = 0 if source == STANDARD else _open("--publish", source, flags)

    async def lines(self) -> AsyncIterator[bytes]:
        """All lines, without their line ends; the last line need not have one."""
        rest = b""
        while chunk := await trio.to_thread.run_sync(os.read, self._descriptor, _READ_BYTES, abandon_on_cancel=True):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: self._line_bytes_max + 1]
            for line in lines:
                yield line
        if rest:
            yield rest


class LineSink:
    """Where lines are written."""

    def __init__(self, target: str) -> None:
        """A file is appended to. Raises ConfigurationError when it cannot be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = 1 if target == STANDARD else _open("--events", target, flags)

    async def write(self, lines: Sequence[str]) -> None:
        """Return when the lines are written. Raises OSError, which is BrokenPipeError when nobody reads any more."""
        data = "".join([f"{line}\n" for line in lines]).encode()
        await trio.to_thread.run_sync(_write_all, self._descriptor, data, abandon_on_cancel=True)


def _open(option: str, path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigurationError(f"{option} {path}: {error.strerror}.") from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
