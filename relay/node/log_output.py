"""Where the lines of the log go: a descriptor that may be full, or gone, or read by nobody, and must not stop the member."""

from __future__ import annotations

import os
import select

#: A pipe or socket that says it takes something takes so much without waiting.
PIECE_BYTES = select.PIPE_BUF


class LogOutput:
    """Writes lines to a descriptor. What it does not take at once is thrown away and counted; the next line is tried again.

    This is a logger of structlog: one method for each level.
    """

    def __init__(self, descriptor: int) -> None:
        #: Lines of which a part, or all, was thrown away.
        self.lost_lines = 0
        #: Why the last line was; empty when it was written.
        self.trouble = ""
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        #: Of the last line only the beginning was written.
        self._torn = False

    def write(self, line: str) -> None:
        """One line, without its end."""
        data = f"{line}\n".encode(errors="backslashreplace")
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as error:
            self.lost_lines += 1
            self.trouble = error.strerror or str(error)
        else:
            self.trouble = ""

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
