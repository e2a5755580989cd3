"""EventOutput: writes a node's event lines (`--events`). A sink that fails costs lines, never the membership."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relay.node.output.lines import LineSink

#: Pause (s) after a failed write, so that a full disk is not tried again for every message.
RETRY_S = 1.0


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
