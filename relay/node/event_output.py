"""Where a node writes what it hears: while it cannot be written, the node is a member all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relay.node.lines import LineSink

#: A full disk is not tried again for every message.
RETRY_S = 1.0


class EventOutput:
    """Lines to a sink. What it refuses is left out and counted, and the sink tried again after a pause.

    `say_lost` makes the lines that say, once it works again, how many are missing, and why.
    """

    def __init__(self, sink: LineSink, say_lost: Callable[[int, str], Sequence[str]]) -> None:
        #: Why the last attempt failed; empty when it succeeded.
        self.trouble = ""
        #: Lines that were left out since the start.
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
            self.lost_lines += min(len(lines), self._sink.lost_lines - before)
        else:
            self.trouble = ""
            self._told_lines += missing
