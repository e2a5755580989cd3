"""LogOutput: writes the log to a descriptor, which may be full, closed, or read by nobody, and must never stop the member."""

from __future__ import annotations

import logging
import os
import select

import structlog
from structlog.typing import EventDict, WrappedLogger

#: Bytes of one write: a pipe or socket that `poll` calls writable takes this many without blocking.
PIECE_BYTES = select.PIPE_BUF
#: What loggers are asked for -> the level.
_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


class LogOutput:
    """Writes lines to a descriptor. A line that the descriptor does not take at once is thrown away and counted.

    A logger for structlog, with a method for each level.
    """

    def __init__(self, descriptor: int, level: int = logging.DEBUG) -> None:
        #: The least level that is written, as numbers of `logging`.
        self.level = level
        #: Number of lines of which a part, or all, was thrown away.
        self.lost_lines = 0
        #: Why the last line was thrown away; empty when it was written.
        self.trouble = ""
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        #: True when only the beginning of the last line was written.
        self._torn = False

    def write(self, line: str) -> None:
        """Write one line, given without its line end."""
        data = f"{line}\n".encode(errors="backslashreplace")
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as error:
            self.lost_lines += 1
            self.trouble = error.strerror or str(error)
        else:
            self.trouble = ""

    def drop_below(self, _logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        """The first of structlog's processors: nothing is made of a line that is not written."""
        if _NUMBERS.get(method, logging.ERROR) < self.level:
            raise structlog.DropEvent
        return line

    debug = info = warning = error = critical = write

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                if not self._poll.poll(0):
                    raise BlockingIOError(0, "Nobody reads it")
                written += os.write(self._descriptor, data[written : written + PIECE_BYTES])
        finally:
            if written:
                self._torn = not data[:written].endswith(b"\n")
