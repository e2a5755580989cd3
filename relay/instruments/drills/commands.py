"""Commands of this machine that answer and end, and that nobody waits for without end: an engine or a cluster may hang."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import trio

from relay.instruments.drills.executor import PlaceFailed


async def run_command(
    command: Sequence[str], limit_s: float, *, name: str, text: str = "", own_session: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """What it answers, whatever its exit code. `text` is its standard input, `name` what a complaint calls it.

    In a session of its own the terminal's Ctrl-C does not reach it. Raises PlaceFailed when it takes longer than `limit_s`
    seconds; that holds inside a shield too, where nothing else could end it.
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
