"""Runs a command of this machine with a time limit: a container engine or a cluster may hang for ever."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import trio

from relay_lab.drills.executor import PlaceFailed


async def run_command(
    command: Sequence[str], limit_s: float, *, name: str, text: str = "", own_session: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """The ended command with its output, whatever its exit code. `text` is its standard input, `name` what an error calls it.

    In a session of its own the terminal's Ctrl-C does not reach the command. Raises PlaceFailed when it takes longer than
    `limit_s` seconds, also inside a cancel shield, where nothing else could end it.
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
