"""Log output that never blocks the member, even if the descriptor is full, closed or unread."""

from __future__ import annotations

import logging
import os
import select

import structlog
from structlog.typing import EventDict, WrappedLogger

#: Bytes of one write, which a writable pipe or socket accepts.
PIECE_BYTES = select.PIPE_BUF
#: Method name of a logger -> level.
_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


class LogOutput:
    """Logger for structlog that writes lines to a descriptor.

    It discards and counts a line that the descriptor cannot accept at once.
    """

    def __init__(self, descriptor: int, level: int = logging.DEBUG) -> None:
        self.level = level
        self.lost_lines = 0
        self.trouble = ""
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._torn = False

    def write(self, line: str) -> None:
        data = f"{line}\n".encode(errors="backslashreplace")
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as error:
            self.lost_lines += 1
            self.trouble = error.strerror or str(error)
        else:
            self.trouble = ""

    def drop_below(self, _logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        """Drop a line below the level, before it is rendered."""
        if _NUMBERS.get(method, logging.ERROR) < self.level:
            raise structlog.DropEvent
        return line

    debug = info = warning = error = critical = write

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                if not self._poll.poll(0):
                    raise BlockingIOError(0, "not read")
                written += os.write(self._descriptor, data[written : written + PIECE_BYTES])
        finally:
            if written:
                self._torn = not data[:written].endswith(b"\n")
